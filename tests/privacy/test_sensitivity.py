"""Attacks on every constant of sensitivity.py, through the real bounding code.

Neighbouring tables are built from raw values: corners, midpoints, outliers, nulls and unknown categories. The largest
change found must not exceed the claim, and must come close to it: a claim that is too small by one part in a thousand
fails here, and so does one that wastes noise.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpspark.audit.sensitivity_attack import matrix_finding
from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.core.products import Product
from dpspark.core.records import Change
from dpspark.exact.bounds import grid_rows, plain_values, settle_nulls
from dpspark.privacy.sensitivity import Shape, second_moment, student_loss, student_split

NUMBERS = [-2.0, 5.0, 1.5, 0.25, math.inf, None]
TEXTS = ["a", "b", "c", "?", None]


def numeric(count: int) -> tuple[Numeric, ...]:
    return tuple(Numeric(f"x{i}", -2, 5) for i in range(count))


def block(name: str, count: int) -> Categorical:
    return Categorical(name, tuple("abc"[:count]))


DOMAINS = {
    "one number": Domain(numeric(1), "midpoint"),
    "two numbers": Domain(numeric(2), "midpoint"),
    "three numbers": Domain(numeric(3), "midpoint"),
    "one block of two": Domain((block("s", 2),), "midpoint"),
    "one block of one": Domain((block("s", 1),), "midpoint"),
    "number and block of two": Domain((*numeric(1), block("s", 2)), "midpoint"),
    "number and block of one": Domain((*numeric(1), block("s", 1)), "midpoint"),
    "number and two blocks": Domain((*numeric(1), block("s", 2), block("t", 3)), "midpoint"),
    "two numbers and a block": Domain((*numeric(2), block("s", 3)), "midpoint"),
    "two single blocks": Domain((block("s", 1), block("t", 1)), "midpoint"),
    "number and single and plural block": Domain((*numeric(1), block("s", 1), block("t", 2)), "midpoint"),
    "number by block": Domain((*numeric(1), block("s", 3)), "midpoint", products=(Product(("s", "x0")),)),
    "block by block": Domain((block("s", 2), block("t", 3)), "midpoint", products=(Product(("s", "t")),)),
    "two numbers by a block": Domain(
        (*numeric(2), block("s", 2)), "midpoint", products=(Product(("s", "x0")), Product(("s", "x1")))
    ),
    "number by two blocks, which are paired": Domain(
        (*numeric(1), block("s", 2), block("t", 2)),
        "midpoint",
        products=(Product(("s", "x0")), Product(("t", "x0")), Product(("s", "t"))),
    ),
}


def all_rows(domain: Domain) -> np.ndarray:
    """Every combination of the raw values above, bounded: rows × width, in units of 1.0."""
    choices = [NUMBERS if isinstance(column, Numeric) else TEXTS for column in domain.columns]
    combined = list(zip(*itertools.product(*choices), strict=True))
    out = np.empty((domain.width, len(combined[0])))
    grid_rows(domain, [plain_values(c, pa.array(v)) for c, v in zip(domain.columns, combined, strict=True)], out)
    settle_nulls(domain, out)
    return np.unique(out.T / domain.one, axis=0)


def squared_norms(before: np.ndarray, after: np.ndarray, shape: Shape) -> np.ndarray:
    """The squared norm of Σ after − Σ before in the norm that the noise shape needs, for each pair of rows."""
    changes = after[:, :, None] * after[:, None, :] - before[:, :, None] * before[:, None, :]
    upper = np.triu(np.ones(changes.shape[1:], dtype=bool))
    if shape == "spherical":
        return (changes**2)[:, upper].sum(axis=1)
    return (changes**2).sum(axis=(1, 2))


def attack(rows: np.ndarray, change: Change, shape: Shape) -> float:
    """The largest change over all pairs of rows; an absent row is all zeros."""
    absent = np.zeros_like(rows[:1])
    found = 0.0
    if change in ("added", "either"):
        found = max(found, float(squared_norms(np.repeat(absent, len(rows), 0), rows, shape).max()))
    if change in ("replaced", "either"):
        for row in rows:
            found = max(found, float(squared_norms(np.repeat(row[None], len(rows), 0), rows, shape).max()))
    return math.sqrt(found)


@pytest.mark.parametrize("change", ["added", "replaced", "either"])
@pytest.mark.parametrize("name", DOMAINS)
def test_box(name: str, change: Change) -> None:
    """Kills: any box constant that is too small, one-hot blocks under replace_one and blocks of products (none) among them."""
    claim = second_moment(DOMAINS[name], change)
    found = attack(all_rows(DOMAINS[name]), change, claim.shape)
    assert found <= claim.value
    assert found >= claim.value * 0.999


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("count", [4, 5, 6, 7])
def test_wide_box_by_hill_climbing(count: int, change: Change) -> None:
    """Kills: a wrong formula for more columns than can be enumerated. Random interior starts, one coordinate at a time."""
    domain = Domain(numeric(count), "midpoint")
    claim = second_moment(domain, change)
    rng = np.random.default_rng(count)
    best = 0.0
    for _ in range(20):
        pair = rng.uniform(-1, 1, (2, count + 1))
        pair[:, 0] = 1.0
        if change == "added":
            pair[0] = 0.0
        for _ in range(3):
            for side, at in itertools.product([1] if change == "added" else [0, 1], range(1, count + 1)):
                tries = np.repeat(pair[None], 9, 0)
                tries[:, side, at] = np.linspace(-1, 1, 9)
                pair = tries[squared_norms(tries[:, 0], tries[:, 1], claim.shape).argmax()]
        best = max(best, float(squared_norms(pair[:1], pair[1:], claim.shape)[0]))
    assert math.sqrt(best) <= claim.value * (1 + 1e-12)
    assert math.sqrt(best) >= claim.value * 0.999


@pytest.mark.parametrize("neighbours", ["add_remove", "replace_one"])
def test_a_claim_without_the_blocks_is_caught(neighbours: str) -> None:
    """Kills: an attack that does not know of products. Broken copies: no unit for a block of products, or half of one."""
    domain = DOMAINS["number by two blocks, which are paired"]

    def without(given: Domain, change: Change, rows: int) -> float:
        return second_moment(replace(given, products=given.products[:2]), change, rows).value

    assert matrix_finding("gaussian", neighbours, None, without, domains={"products": domain}).broken
    assert not matrix_finding("gaussian", neighbours, None, domains={"products": domain}).broken


@pytest.mark.parametrize("change", ["added", "replaced"])
def test_products_between_the_vertices(change: Change) -> None:
    """Kills: a claim that holds at the bounds alone. Random numbers inside of them, and on the grid of the product's own."""
    domain = DOMAINS["number by two blocks, which are paired"]
    rng = np.random.default_rng(5)
    n = 400
    raw = [rng.uniform(-2, 5, n), rng.choice(list("ab?"), n), rng.choice(list("ab?"), n)]
    out = np.empty((domain.width, n))
    grid_rows(domain, [plain_values(c, pa.array(v)) for c, v in zip(domain.columns, raw, strict=True)], out)
    settle_nulls(domain, out)
    assert (out[6] + out[7] == np.where(out[2] + out[3] > 0, out[1], 0)).all()
    claim = second_moment(domain, change)
    found = attack(np.vstack([out.T / domain.one, all_rows(domain)]), change, claim.shape)
    assert 0.999 * claim.value <= found <= claim.value


@pytest.mark.parametrize("change", ["added", "replaced", "either"])
@pytest.mark.parametrize(
    ("mode", "radius"), [("cap", 0.5), ("cap", 1.0), ("cap", 1.3), ("project", 0.7), ("project", 2.5)]
)
def test_ball(mode: str, radius: float, change: Change) -> None:
    """Kills: B² instead of √2·B² for a replaced row, a norm without the intercept, rounding out of the ball."""
    domain = Domain(numeric(3), "midpoint", RowNorm(mode, radius)).with_bits(20)  # type: ignore[arg-type]
    claim = second_moment(domain, change)
    rng = np.random.default_rng(11)
    n = 900
    raw = [1.5 + 3.5 * rng.choice([-1, 1], n) * rng.uniform(0, 1, n) ** 0.2 for _ in range(3)]
    out = np.empty((domain.width, n))
    grid_rows(domain, [plain_values(c, pa.array(v)) for c, v in zip(domain.columns, raw, strict=True)], out)
    rows = out.T / domain.one
    # Opposite rows and rows with u·u' = −1 are where a replaced row moves most.
    opposite = rows * np.array([1, -1, -1, -1])
    found = attack(np.vstack([rows, opposite]), change, claim.shape)
    assert found <= claim.value
    assert found >= claim.value * 0.99


def test_a_wide_cap_is_no_worse_than_its_box() -> None:
    domain = Domain(numeric(2), "midpoint", RowNorm("cap", 50.0))
    assert second_moment(domain, "added").value == 3.0
    found = attack(all_rows(domain), "replaced", "symmetric")
    assert found <= second_moment(domain, "replaced").value


@pytest.mark.parametrize("rows", [2, 5])
def test_rows_per_record(rows: int) -> None:
    """Kills: √m instead of m. m equal rows move the matrix m times as far."""
    domain = DOMAINS["two numbers"]
    one, many = second_moment(domain, "either"), second_moment(domain, "either", rows)
    best = max(all_rows(domain), key=lambda row: float(row @ row))
    change = rows * np.outer(best, best)
    assert math.sqrt((np.triu(change) ** 2).sum()) <= many.value
    assert many.value == rows * one.value


def test_count_is_public_only_if_rows_are_only_replaced() -> None:
    domain = DOMAINS["two numbers"]
    assert second_moment(domain, "replaced").count_is_public
    assert not second_moment(domain, "added").count_is_public
    assert not second_moment(domain, "either").count_is_public


def test_student_loss() -> None:
    """Kills: 3/(2√2) or 2 too small. The exact density (2 + t²)^(−3/2), moved and stretched, on a grid: attained within 1%."""
    t = np.concatenate([-np.geomspace(1e-4, 1e6, 20_000)[::-1], np.geomspace(1e-4, 1e6, 20_000)])

    def log_density(at: np.ndarray, stretched: float) -> np.ndarray:
        return stretched - 1.5 * np.log(2 + (at * math.exp(stretched)) ** 2)

    def worst(noise: float, decay: float) -> float:
        return float(
            max(
                abs(log_density(t, 0.0) - log_density(t + move, stretch)).max()
                for move in (-noise, 0.0, noise)
                for stretch in (-decay, 0.0, decay)
            )
        )

    for noise, decay in ((0.01, 0.0), (0.0, 0.01), (0.3, 0.1), (2.0, 0.7)):
        assert worst(noise, decay) <= student_loss(noise, decay) * (1 + 1e-9)
    assert worst(0.01, 0.0) > 0.99 * student_loss(0.01, 0.0)
    assert worst(0.0, 0.01) > 0.99 * student_loss(0.0, 0.01)
    for epsilon in (0.1, 1.0, 7.0):
        assert student_loss(*student_split(epsilon)) == pytest.approx(epsilon)
