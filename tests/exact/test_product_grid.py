"""Blocks of products on the integer grid: the very numbers of their columns, whatever the batches."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest

from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm, Weight
from dpspark.core.products import Product
from dpspark.exact.bounds import grid_rows, plain_values, settle_nulls
from dpspark.exact.fixed_point import ExactGram, GramAccumulator

COLUMNS = (Numeric("x", -3.0, 11.0), Categorical("s", ("a", "b", "c")), Categorical("t", (1, 2)))
PRODUCTS = (Product(("s", "x")), Product(("s", "t")), Product(("t", "x")))


def values(rows: int) -> list[pa.Array]:
    """Values beyond bounds, infinite, missing and of unknown categories among others."""
    rng = np.random.default_rng(7)
    x = rng.normal(4, 6, rows)
    x[:4] = [np.nan, np.inf, -np.inf, 1e308]
    s, t = rng.choice(["a", "b", "c", "?"], rows), rng.integers(1, 4, rows)
    return [pa.array(x, mask=rng.random(rows) < 0.1), pa.array(s, mask=rng.random(rows) < 0.1), pa.array(t)]


@pytest.mark.parametrize("weight", [None, Weight("w", 5.0)])
@pytest.mark.parametrize("nulls", ["drop_row", "midpoint"])
def test_integers_do_not_depend_on_batches(nulls: str, weight: Weight | None) -> None:
    """Kills: a product that is rounded by itself, one of a dropped row, numbers left over in a block that is used again."""
    rows = 9000
    domain = Domain(COLUMNS, nulls, weight=weight, products=PRODUCTS).with_bits(20)  # type: ignore[arg-type]
    arrays = values(rows)
    if weight is not None:
        arrays.append(pa.array(np.random.default_rng(8).uniform(-1, 7, rows)))
    found = []
    for cuts in ([0, rows], [0, 1, 17, 5000, 5001, rows], [0, *range(700, rows, 700), rows]):
        partials = []
        for first, last in itertools.pairwise(cuts):
            accumulator = GramAccumulator(domain)
            for start in range(first, last, 333):
                part = [array.slice(start, min(333, last - start)) for array in arrays]
                accumulator.add(part, len(part[0]))
            partials.append(accumulator.finish())
        found.append(ExactGram.from_partials(domain, partials[::-1]).reveal())
    assert found[0] == found[1] == found[2]


def test_a_product_is_its_number_in_its_category() -> None:
    """Kills: a product on a grid of its own, one in another category, a null that is a number."""
    domain = Domain(COLUMNS, "midpoint", products=PRODUCTS)
    arrays = values(3000)
    out = np.full((domain.width, 3000), np.nan)
    grid_rows(domain, [plain_values(c, v) for c, v in zip(domain.columns, arrays, strict=True)], out)
    settle_nulls(domain, out)
    at = {term: out[i] for i, term in enumerate(domain.terms)}
    x, one = at["x"], domain.one
    for category in "abc":
        mine = at[f"s[{category}]"] == one
        assert np.array_equal(at[f"s[{category}]:x"], np.where(mine, x, 0.0))
        for other in (1, 2):
            both = mine & (at[f"t[{other}]"] == one)
            assert np.array_equal(at[f"s[{category}]:t[{other}]"], np.where(both, one, 0))
    assert np.abs(out).max() == one
    assert (np.count_nonzero(out[7:10], axis=0) <= 1).all()


def test_rows_with_a_norm_have_no_products() -> None:
    """Kills: products of shortened columns, whose sensitivity nobody has proved."""
    domain = Domain(COLUMNS, "midpoint", RowNorm("cap", 1.0), products=PRODUCTS)
    with pytest.raises(ValueError, match="norm"):
        grid_rows(
            domain,
            [plain_values(c, v) for c, v in zip(domain.columns, values(9), strict=True)],
            np.zeros((domain.width, 9)),
        )
