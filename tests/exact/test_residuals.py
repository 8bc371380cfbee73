"""Exact sums of residuals: compared with Python's own integers, and dealt out in different ways."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpspark.audit.tables import TableRows, arrays, bounded_rows
from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.exact.fixed_point import merge_partials
from dpspark.exact.histogram import merge_histograms
from dpspark.exact.residuals import (
    LOWEST_OCTAVE,
    BlockAccumulator,
    Residual,
    ResidualGrams,
    ResidualHistograms,
    ResidualSums,
    meat_steps,
    octave_axis,
    octave_size,
    octaves,
)

COLUMNS = (Numeric("a", -1, 1), Categorical("s", ("u", "v", "w"), True), Numeric("y", -1, 1))
DOMAIN = Domain(COLUMNS, "drop_row", response="y")
THETA = np.array([0.1, -0.7, 0.3, 1 / 3])
RAW = list(itertools.product([-math.inf, -1.0, 0.3, 1.0, None], ["u", "v", "w", "?"], [-1.0, 0.9, 7.0, None]))


def whole_rows(domain: Domain, rows: list[Any]) -> list[list[int]]:
    return [[int(value) for value in row] for row in (bounded_rows(domain, rows) * domain.one).tolist()]


def exact_residuals(domain: Domain, residual: Residual, rows: list[Any]) -> list[Fraction]:
    """In units of 1.0, by fractions."""
    theta = [Fraction(value) for value in residual.coefficients.tolist()]
    return [
        (row[-1] - sum(t * value for t, value in zip(theta, row, strict=False))) / Fraction(domain.one)
        for row in whole_rows(domain, rows)
    ]


@pytest.mark.parametrize("nulls", ["drop_row", "midpoint"])
@pytest.mark.parametrize("norm", [None, RowNorm("cap", 1.0, True), RowNorm("project", 3.0)], ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e6, 1e14])
def test_residuals_are_the_fractions(nulls: Any, norm: RowNorm | None, scale: float) -> None:
    """Kills: products beyond 2^53, a grid of coefficients that is too fine for large ones."""
    domain = replace(DOMAIN, nulls=nulls, row_norm=norm).with_bits(20)
    residual = Residual.of(domain, scale * THETA)
    assert np.abs(residual.coefficients / (scale * THETA) - 1).max() < 1e-5
    rows = np.array(whole_rows(domain, RAW), dtype=float).T
    found = [Fraction(value) / Fraction(residual.per_one(domain)) for value in residual.of_rows(rows).tolist()]
    wanted = exact_residuals(domain, residual, RAW)
    if scale < 1e10:
        assert found == wanted
    else:  # beyond 2^53 one subtraction is rounded, row by row
        assert all(abs(f - w) <= abs(w) * Fraction(1, 1 << 52) for f, w in zip(found, wanted, strict=True))


@pytest.mark.parametrize("clip", [0.01, 0.37, 5.0])
def test_sums_are_those_of_clipped_residuals(clip: float) -> None:
    """Kills: a clip that is not applied, a sum over dropped rows, squares of the wrong grid."""
    residual = Residual.of(DOMAIN, THETA)
    values = [
        round(max(min(r / Fraction(clip), Fraction(1)), Fraction(-1)) * DOMAIN.one)
        for r in exact_residuals(DOMAIN, residual, RAW)
    ]
    rows = whole_rows(DOMAIN, RAW)
    wanted = [sum(row[j] * v for row, v in zip(rows, values, strict=True)) for j in range(4)]
    found = TableRows.of(DOMAIN, RAW).residual_sums(DOMAIN, residual, clip).reveal()
    # A tie of rounding may fall to either side of a division.
    assert all(abs(f - w) <= DOMAIN.one for f, w in zip(found, [*wanted, sum(v * v for v in values)], strict=True))


def test_weighted_matrices_are_those_of_squared_residuals() -> None:
    """Two regressions at once, one of them on some of the terms. Kills: unsigned weights, another regression's rows."""
    domain = replace(DOMAIN, response=None)
    full, part = Residual.of(domain, THETA), Residual.of(domain, THETA[:2], 4, (0, 1))
    clips = [0.5, 1.25]
    found = TableRows.of(domain, RAW).residual_grams(domain, [full, part], clips).reveal()
    x = bounded_rows(domain, RAW)
    wanted: list[float] = []
    for residual, clip in zip([full, part], clips, strict=True):
        own = x[:, list(residual.regressors)]
        r = np.clip(x[:, 4] - own @ residual.coefficients, -clip, clip)
        products = np.einsum("i,ij,ik->jk", r**2 - clip**2 / 2, own, own)
        wanted += list(products[np.triu_indices(own.shape[1])] / (clip**2 / 2))
    assert len(found) == 10 + 3
    assert np.abs(np.array(found, dtype=float) / meat_steps(domain) - wanted).max() < len(RAW) / domain.one


def test_histograms_count_each_kept_row_once() -> None:
    """Kills: counting dropped rows, a residual's sign, cells that depend on rounding."""
    residual = Residual.of(DOMAIN, THETA)
    histogram = TableRows.of(DOMAIN, RAW).residual_histograms(DOMAIN, {"|r|": residual})
    axis = octave_axis("|r|")
    kept = [r for r, row in zip(exact_residuals(DOMAIN, residual, RAW), whole_rows(DOMAIN, RAW), strict=True) if row[0]]
    counts = dict(zip(*(part.tolist() for part in histogram.reveal("|r|")), strict=True))
    assert sum(counts.values()) == len(kept) < len(RAW)
    for cell in range(axis.cells):
        low, high = (Fraction(octave_size(axis.edge(cell + more))) for more in (0, 1))
        inside = sum(low <= abs(r) < high for r in kept) if 0 < cell < axis.cells - 1 else None
        assert inside is None or counts.get(cell, 0) == inside


def test_octaves_are_exact_and_rise() -> None:
    sizes = np.array([0.0, 2.0**-30, 2.0**-18, 0.75, 1.0, 1.5, np.nextafter(2.0, 0), 2.0, 3.0, 100.0])
    places = octaves(sizes)
    assert places[0] == LOWEST_OCTAVE
    assert (np.diff(places[1:]) > 0).all()
    assert [octave_size(p) for p in places[1:].tolist()] == sizes[1:].tolist()


@pytest.mark.parametrize("what", ["histograms", "sums", "grams"])
def test_sums_do_not_depend_on_how_rows_are_dealt_out(what: str) -> None:
    """Kills: float sums whose rounding depends on the block, before the clip and the rounding to the grid."""
    rng = np.random.default_rng(3)
    n = 20_000
    domain = Domain((*(Numeric(f"x{i}", -1, 1) for i in range(7)), Numeric("y", -1, 1)), "midpoint", response="y")
    theta = rng.normal(size=8)
    starts: dict[str, tuple[Callable[[], BlockAccumulator], Any]] = {
        "histograms": (
            lambda: ResidualHistograms(domain, [Residual.of(domain, theta)]),
            lambda payloads: merge_histograms(payloads, [octave_axis("r")]),
        ),
        "sums": (
            lambda: ResidualSums(domain, Residual.of(domain, theta), 0.4),
            lambda payloads: merge_partials(payloads, 0, 9),
        ),
        "grams": (
            lambda: ResidualGrams(domain, [Residual.of(domain, theta)], [0.4]),
            lambda payloads: merge_partials(payloads, 0, 36),
        ),
    }
    start, merge = starts[what]
    data = [rng.uniform(-1.2, 1.2, n) for _ in range(8)]
    found = set()
    for cuts in ([0, n], [0, 1, n], [0, 777, 8192, 8193, n], list(range(0, n + 1, 4000))):
        payloads = []
        for begin, end in itertools.pairwise(cuts):
            total = start()
            total.add([pa.array(values[begin:end]) for values in data], end - begin)
            payloads.append(total.finish())
        found.add(merge(payloads))
    assert len(found) == 1


def test_coefficients_are_not_shown() -> None:
    residual = Residual.of(DOMAIN, THETA)
    assert "0.1" not in repr(residual)
    assert str(residual.steps[1]) not in repr(residual)
    exact = TableRows.of(DOMAIN, RAW).residual_sums(DOMAIN, residual, 1.0)
    assert all(str(value) not in repr(exact) for value in exact.reveal())
    with pytest.raises(TypeError, match="private"):
        exact.__reduce__()


def test_no_rows_are_zeros() -> None:
    empty = TableRows.of(DOMAIN, [])
    residual = Residual.of(DOMAIN, THETA)
    assert set(empty.residual_sums(DOMAIN, residual, 1.0).reveal()) == {0}
    assert empty.residual_histograms(DOMAIN, {"r": residual}).reveal("r")[1].sum() == 0
    assert arrays(DOMAIN, []) is not None
