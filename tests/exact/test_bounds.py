"""Bounded rows on the grid, against a row-by-row reference in Python integers."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.exact.bounds import grid_rows, plain_values, settle_nulls

AGE = Numeric("age", 18, 99)
SEX = Categorical("sex", ("F", "M"))


def bounded(domain: Domain, *columns: pa.Array) -> np.ndarray:
    out = np.empty((domain.width, len(columns[0])))
    grid_rows(domain, [plain_values(c, v) for c, v in zip(domain.columns, columns, strict=True)], out)
    settle_nulls(domain, out)
    return out


def test_bounds_are_grid_points_and_outliers_are_clipped() -> None:
    domain = Domain((AGE,))
    rows = bounded(domain, pa.array([18.0, 99.0, 58.5, -5.0, 1e300, math.inf, -math.inf]))
    assert rows[0].tolist() == [2**20] * 7
    assert (rows[1] / 2**20).tolist() == [-1, 1, 0, -1, 1, 1, -1]


@pytest.mark.filterwarnings("error")
def test_no_warning_tells_of_an_outlier() -> None:
    """Kills: numpy's overflow warning on an executor's stderr, which is there only if the data has a huge value."""
    values = pa.array([1.7e308, -1.7e308, math.inf, math.nan, None])
    for norm in (None, RowNorm("cap", 0.5), RowNorm("project", 0.5)):
        rows = bounded(Domain((Numeric("x", -1, 1e-9),), "midpoint", norm), values)
        assert np.isfinite(rows).all()


@given(st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_every_value_is_rounded_to_the_nearest_grid_point(values: list[float]) -> None:
    rows = bounded(Domain((AGE,)), pa.array(values))
    for value, got in zip(values, rows[1], strict=True):
        exact = min(1.0, max(-1.0, (value - 58.5) / 40.5))
        assert abs(got / 2**20 - exact) <= 2.0**-21 * (1 + 1e-9)
        assert got == int(got)
        assert abs(got) <= 2**20


@pytest.mark.parametrize("missing", [None, math.nan])
def test_a_missing_number_drops_its_row_or_sits_at_the_midpoint(missing: float | None) -> None:
    ages, other = pa.array([20.0, missing, 30.0]), pa.array([1.0, 2.0, 3.0])
    columns = (AGE, Numeric("x", 0, 4))
    dropped = bounded(Domain(columns, "drop_row"), ages, other)
    assert dropped[:, 1].tolist() == [0, 0, 0]
    kept = bounded(Domain(columns, "midpoint"), ages, other)
    assert kept[:, 1].tolist() == [2**20, 0, 0]
    assert (dropped[:, [0, 2]] == kept[:, [0, 2]]).all()


def test_one_hot_and_unknown_categories() -> None:
    values = pa.array(["F", "M", None, "X", "f"])
    kept = bounded(Domain((SEX,), "midpoint"), values)
    assert (kept / 2**20).T.tolist() == [[1, 1, 0], [1, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0]]
    dropped = bounded(Domain((SEX,), "drop_row"), values)
    assert (dropped / 2**20).T.tolist() == [[1, 1, 0], [1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, None, 2**63 - 1], pa.int64()),
        pa.array([1, None, 2**64 - 1], pa.uint64()),
        pa.array([1, None, 127], pa.int8()),
        pa.array([1.0, None, 1e30], pa.float32()),
        pa.array([1.0, None, 6e4], pa.float16()),
        pa.array([True, None, True]),
        pa.array([decimal.Decimal("1.0"), None, decimal.Decimal("77.5")]),
        pa.array([decimal.Decimal("1.0"), None, decimal.Decimal("77.5")], pa.decimal256(60, 3)),
        pa.array([1.0, None, 99.0]).dictionary_encode(),
        pa.array([0, 1, None, 99], pa.int32()).slice(1),
    ],
    ids=lambda values: str(values.type),
)
def test_numeric_types(values: pa.Array) -> None:
    got = plain_values(AGE, values)
    assert got[0] == 1.0
    assert math.isnan(got[1])
    assert got[2] == pytest.approx(float(values[2].as_py()))


@pytest.mark.parametrize(
    ("values", "categories", "codes"),
    [
        (pa.array(["a", "b", None, "z"]), ("b", "a"), [1, 0, -1, -1]),
        (pa.array(["a", "b", None, "z"], pa.large_string()), ("b", "a"), [1, 0, -1, -1]),
        (pa.array(["a", "b", None, "z"], pa.string_view()), ("b", "a"), [1, 0, -1, -1]),
        (pa.array(["a", "b", None, "z"]).dictionary_encode(), ("b", "a"), [1, 0, -1, -1]),
        (pa.array([1, 2, None, 3], pa.int8()), (300, 2, 1), [2, 1, -1, -1]),  # an int8 is never 300, and null is not
        (pa.array([1, 2**64 - 1, None], pa.uint64()), (-1, 1), [1, -1, -1]),  # no wrap-around to -1
        (pa.array([True, None, False]), (False,), [-1, -1, 0]),
    ],
    ids=str,
)
def test_category_types(values: pa.Array, categories: tuple, codes: list[int]) -> None:
    assert plain_values(Categorical("c", categories), values).tolist() == codes


@pytest.mark.parametrize("mode", ["cap", "project"])
@pytest.mark.parametrize("radius", [0.01, 0.5, 1.0, 1.7, 40.0])
def test_row_norm_holds_in_integers(mode: str, radius: float) -> None:
    """Kills: rounding after the cap without leaving room for it; a norm that counts the intercept."""
    rng = np.random.default_rng(3)
    n = 4000
    columns = (*tuple(Numeric(f"x{i}", -1, 1) for i in range(5)), SEX)
    domain = Domain(columns, "midpoint", RowNorm(mode, radius)).with_bits(20)
    values = [pa.array(rng.uniform(-1.2, 1.2, n)) for _ in range(5)] + [pa.array(rng.choice(["F", "M", "?"], n))]
    rows = bounded(domain, *values)
    squared = (rows[1:].astype(object) ** 2).sum(axis=0)
    assert max(squared) <= math.floor(radius**2 * domain.one**2)
    assert (rows[0] == domain.one).all()
    free = np.vstack([np.asarray(v) if i < 5 else np.zeros(n) for i, v in enumerate(values)])
    if mode == "project":
        lengths = np.sqrt(np.array([float(s) for s in squared])) / domain.one
        assert (abs(lengths - radius) < 1e-4).all()  # every row is moved onto the sphere
    elif radius > 10:
        assert (abs(rows[1:6] / domain.one - np.clip(free[:5], -1, 1)) < 1e-5).all()  # a wide cap changes nothing


def test_a_zero_row_projects_to_zero() -> None:
    domain = Domain((Numeric("x", -1, 1),), "midpoint", RowNorm("project", 2.0))
    assert bounded(domain, pa.array([0.0, None])).tolist() == [[2**20, 2**20], [0, 0]]


def test_a_row_does_not_depend_on_its_batch() -> None:
    """Kills: a norm summed in an order that depends on the batch."""
    rng = np.random.default_rng(5)
    domain = Domain(tuple(Numeric(f"x{i}", -1, 1) for i in range(7)), "drop_row", RowNorm("cap", 1.1))
    values = [pa.array(rng.normal(size=999)) for _ in range(7)]
    whole = bounded(domain, *values)
    pieces = [bounded(domain, *(v.slice(a, 37) for v in values)) for a in range(0, 999, 37)]
    assert (np.hstack(pieces) == whole).all()
