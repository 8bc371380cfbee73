"""What is known of a matrix with products among its columns, against dense algebra on the rows that there can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpspark.audit.tables import bounded_rows
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.known import Known
from dpspark.core.products import Product
from dpspark.core.tables import WIDEST, Tables

COLUMNS = (
    Numeric("x", 0, 10),
    Categorical("s", ("a", "b", "c")),
    Numeric("y", -1, 3),
    Categorical("r", ("n", "m")),
    Categorical("q", ("u", "v")),
)
PRODUCTS = [
    [("s", "x")],
    [("s", "r")],
    [("s", "x"), ("s", "r"), ("r", "y"), ("r", "x")],
    [("s", "r"), ("r", "q"), ("q", "x")],
]


def domain_with(products: list[tuple[str, str]], nulls: Any = "drop_row") -> Domain:
    return Domain(COLUMNS, nulls, products=tuple(Product(of) for of in products))


def random_rows(domain: Domain, rng: np.random.Generator, count: int = 4000) -> np.ndarray:
    """Rows at random, through the real bounding code; some values are null where a null is no dropped row."""
    values = []
    for column in domain.columns:
        if isinstance(column, Numeric):
            values.append(rng.uniform(column.lower - 1, column.upper + 1, count).tolist())
        else:
            values.append([str(value) for value in rng.choice(column.categories, count)])
        if domain.nulls == "midpoint":
            values[-1] = [None if rng.random() < 0.15 else value for value in values[-1]]
    return bounded_rows(domain, list(zip(*values, strict=True)))


def symmetric(rng: np.random.Generator, width: int) -> np.ndarray:
    drawn = rng.normal(size=(width, width))
    return drawn + drawn.T


@pytest.mark.parametrize("ratio", [1.0, 2.0, 0.5])
@pytest.mark.parametrize("nulls", ["drop_row", "midpoint"])
@pytest.mark.parametrize("products", PRODUCTS)
def test_all_linear_facts_and_no_others(products: list[tuple[str, str]], nulls: str, ratio: float) -> None:
    """Kills: a fact that is missing, one that does not hold, wrong weights of what is seen several times.

    The matrices of rows span a space; the nearest matrix in it, by weighted least squares, is what the facts must give.
    """
    domain, rng = domain_with(products, nulls), np.random.default_rng(len(products))
    z, at = random_rows(domain, rng), np.triu_indices(domain.width)
    _, sizes, basis = np.linalg.svd((z[:, :, None] * z[:, None, :])[:, at[0], at[1]], full_matrices=False)
    space = basis[sizes > 1e-9 * sizes[0]].T
    weights = np.where(at[0] == at[1], 1 / ratio, 1.0)
    noisy = symmetric(rng, domain.width)
    wanted = space @ np.linalg.lstsq(space * weights[:, None] ** 0.5, noisy[at] * weights**0.5, rcond=None)[0]
    assert isinstance(domain.known, Tables)
    assert domain.known.totals == (nulls == "drop_row")
    found = domain.known.project(np.stack([noisy, 2 * noisy]), ratio)
    assert found[0][at] == pytest.approx(wanted, abs=1e-10)
    assert found[1] == pytest.approx(2 * found[0])
    assert np.array_equal(found[0], found[0].T)
    exact = z.T @ z
    assert domain.known.project(exact, ratio) == pytest.approx(exact, rel=1e-10, abs=1e-8)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("ratio", [1.0, 2.0])
@pytest.mark.parametrize("totals", [False, True])
def test_without_products_it_is_the_closed_form_of_blocks(totals: bool, ratio: float, exact: bool) -> None:
    """Kills: two projections that differ, a number of rows without noise that moves."""
    domain = Domain(COLUMNS)
    assert isinstance(domain.known, Known)
    plain = Known(domain.width, domain.known.blocks, True, totals)
    noisy = np.stack([symmetric(np.random.default_rng(seed), domain.width) for seed in range(3)])
    found = Tables(domain.parts, totals).project(noisy, ratio, exact)
    assert found == pytest.approx(plain.project(noisy, ratio, exact), abs=1e-10)


def test_parts_of_a_matrix() -> None:
    """Kills: totals over some of the categories, equal entries that are no longer used."""
    domain = domain_with([("s", "x")])
    assert isinstance(domain.known, Tables)
    terms = ("(intercept)", "s[b]", "x", "s[b]:x")
    known = domain.known.only([domain.terms.index(term) for term in terms])
    assert known is not None
    assert not known.totals
    found = known.project(symmetric(np.random.default_rng(1), 4), 1.0)
    assert found[1, 2] == found[0, 3] == found[1, 3]
    assert found[3, 3] == found[2, 3]
    whole = ("(intercept)", *COLUMNS[1].terms, "x", *domain.terms_of(domain.products[0]))
    closed = domain.known.only([domain.terms.index(term) for term in whole])
    assert closed is not None
    assert closed.totals
    assert domain.known.only([0, domain.terms.index("x"), domain.terms.index("y")]) is None


def test_very_wide_matrices_use_what_holds_of_any_block() -> None:
    """Kills: hours for a matrix of thousands of terms, or a fact that does not hold of it."""
    many = Categorical("m", tuple(f"c{i}" for i in range(80)))
    domain = Domain((Numeric("x", 0, 1), many, COLUMNS[3]), products=(Product(("m", "x")), Product(("m", "r"))))
    assert domain.width > WIDEST
    assert isinstance(domain.known, Known)
    rng = np.random.default_rng(3)
    rows = list(
        zip(rng.uniform(0, 1, 500).tolist(), rng.choice(many.categories, 500), rng.choice(["n", "m"], 500), strict=True)
    )
    z = bounded_rows(domain, [(x, str(m), str(r)) for x, m, r in rows])
    assert domain.known.project(z.T @ z, 1.0) == pytest.approx(z.T @ z, abs=1e-9)
