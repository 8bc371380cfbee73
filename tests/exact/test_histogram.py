"""Counts on a public grid: the same for any cut, whatever the values."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest

from dpspark.exact.histogram import CELLS, Axis, ExactHistogram, HistogramAccumulator, merge_histograms

AXES = (Axis("a", -1.0, 3.0), Axis("b", 0.0, 10.0, cells=10))


def payload(*columns: pa.Array) -> bytes:
    accumulator = HistogramAccumulator(AXES)
    accumulator.add(list(columns), len(columns[0]))
    return accumulator.finish()


def shown(payloads: list[bytes]) -> list[list[int]]:
    exact = ExactHistogram.from_partials(AXES, payloads)
    return [part.tolist() for axis in AXES for part in exact.reveal(axis.name)]


def test_outliers_count_at_the_ends_and_nulls_not_at_all() -> None:
    values = pa.array([-math.inf, -7.0, 0.0, 0.999, 1.0, 9.99, 10.0, 1e308, math.inf, math.nan, None])
    cells, counts = shown([payload(pa.array([None] * 11, pa.float64()), values)])[2:]
    assert cells == [0, 1, 9]
    assert counts == [4, 1, 4]
    assert shown([payload(values, values)])[1] == [2, 1, 1, 1, 4]


def test_any_cut_any_order_few_or_many_cells() -> None:
    """Kills: a sparse or dense payload read as the other, a batch size that matters."""
    rng = np.random.default_rng(0)
    n = 400_000
    a, b = rng.uniform(-1.2, 3.2, n), rng.integers(0, 12, n).astype(float)
    b[::9] = np.nan
    whole = shown([payload(pa.array(a), pa.array(b))])
    for cuts in ([], [1], [200_000], [7, 300_000], list(range(1000, 400_000, 40_000))):
        edges = [0, *cuts, n]
        parts = [payload(pa.array(a[i:j]), pa.array(b[i:j])) for i, j in itertools.pairwise(edges)][::-1]
        assert shown(parts) == whole
        assert shown([merge_histograms(parts[:1], AXES), merge_histograms(parts[1:], AXES)]) == whole
    assert sum(whole[1]) == n
    # The same by definition.
    expected = np.bincount(np.clip(np.floor((a + 1) / 4 * CELLS), 0, CELLS - 1).astype(int), minlength=CELLS)
    assert whole[0] == np.flatnonzero(expected).tolist()
    assert whole[1] == expected[expected > 0].tolist()


def test_payloads_are_small_where_few_cells_are_occupied() -> None:
    few = payload(pa.array([1.0, 2.0, 2.0]), pa.array([1.0, 1.0, 1.0]))
    assert len(few) < 200
    assert len(payload(pa.array(np.linspace(-1, 3, 2**21)), pa.array(np.ones(2**21)))) < 9e6


def test_edges() -> None:
    axis = Axis("a", -1.0, 3.0)
    assert (axis.edge(0), axis.edge(CELLS // 2), axis.edge(CELLS)) == (-1.0, 1.0, 3.0)
    assert Axis("a", 0.1, 0.7, 10).edge(10) == 0.7


def test_private_until_released() -> None:
    exact = ExactHistogram.from_partials(AXES, [payload(pa.array([1.0]), pa.array([4.0]))])
    assert repr(exact) == "ExactHistogram(2 columns, not shown)"
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(exact)
