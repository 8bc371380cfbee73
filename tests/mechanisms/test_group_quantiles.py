"""Quantiles of groups: the runs' distances against the definition, the law on every small pair, and the draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpspark.core.domain import Domain, Numeric
from dpspark.core.records import Change, Records
from dpspark.exact.histogram import Axis
from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles, QuantileProblem
from dpspark.mechanisms.quantiles.group_kernel import GroupQuantiles, cell_runs, whole_steps
from dpspark.privacy.budget import Budget
from dpspark.privacy.keyed import KeyedRandom
from tests.mechanisms.test_quantile import AXIS, PROBABILITIES, distances, neighbours, tight_pair


def cell_distances(values: tuple[float | None, ...], probability: float, axis: Axis = AXIS) -> np.ndarray:
    """Of every cell, by the runs that are really drawn from."""
    kept = np.array([v for v in values if v is not None], dtype=float)
    cells, counts = np.unique(axis.cell_of(kept), return_counts=True)
    first, sizes, losses, step = cell_runs(cells, counts, axis.cells, probability)
    assert sizes.sum() == axis.cells
    assert first[0] == 0
    return np.repeat(losses / step, sizes)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_distances_are_those_of_the_definition(probability: float) -> None:
    """Kills: an off-by-one cell, a distance from edges, a probability that is rounded."""
    for pair in set(neighbours("added")):
        for values in pair:
            assert cell_distances(values, probability) == pytest.approx(distances(values, probability), abs=1e-9)


def quantiles_of(domain: Domain, probability: float, change: Change) -> ExponentialQuantiles:
    problem = QuantileProblem(domain, Records(change), probabilities=(probability,))
    return ExponentialQuantiles.for_budget(problem, Budget(0.8, 0.0))


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_the_law_keeps_epsilon_on_every_small_pair(probability: float, change: Change) -> None:
    """Kills: a sensitivity of another relation; at the tight pair, an exponent that is 2% too large."""
    domain = Domain((Numeric("x", 0.0, 4.0),))
    kernel = quantiles_of(domain, probability, change).kernel
    exponent = kernel.targets[0][2]
    assert max(loss(*pair, probability, exponent, AXIS) for pair in set(neighbours(change))) <= 0.8
    wide = Axis("x", 0.0, 4000.0, cells=4000)
    pair = tight_pair(probability, change, wide)
    assert 0.8 / 1.02 < loss(*pair, probability, exponent, wide) <= 0.8
    assert loss(*pair, probability, 1.02 * exponent, wide) > 0.8


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("probability", [1 / 3, 2 / 3, 0.1, 1e-17, 1 - 2.0**-53, 0.123456789012])
def test_many_rows_and_many_digits_keep_epsilon(probability: float, change: Change) -> None:
    """Kills: ranks times 10^16, for 0.3333333333333333, that pass 2^63: with 1384 rows every cell was as good as any."""
    domain = Domain((Numeric("x", 0.0, 4.0),))
    exponent = quantiles_of(domain, probability, change).kernel.targets[0][2]
    share = whole_steps(probability)
    assert max(share, 1 - share) <= max(probability, 1 - probability) * (1 + 2**-52)
    assert abs(share - probability) <= 2.0**-30
    for rows in (922, 1037, 1383, 10**6, 10**9):
        one, other = (np.array([rows - more, 5]) for more in (0, 1))
        pair = [cell_runs(np.array([1, 2]), counts, 4, probability) for counts in (one, other)]
        moved = (pair[0][2] - pair[1][2]) / pair[0][3] * exponent
        assert np.ptp(moved) <= 0.8
        assert min(pair[0][2].min(), pair[1][2].min()) == 0
        expected = float(share) * (rows + 5)
        assert pair[0][2][0] / pair[0][3] == pytest.approx(expected, rel=1e-9)
        assert pair[0][2][-1] / pair[0][3] == pytest.approx(rows + 5 - expected, rel=1e-9, abs=1e-6)


def loss(before: tuple, after: tuple, probability: float, exponent: float, axis: Axis) -> float:
    """The largest log ratio of any cell's probabilities."""
    laws = []
    for values in (before, after):
        weights = np.exp(-exponent * cell_distances(values, probability, axis))
        laws.append(weights / weights.sum())
    return float(abs(np.log(laws[0] / laws[1])).max())


def test_draws_follow_the_law() -> None:
    """χ² against brute force; false alarm 1e-6. The same labels give the same draw, others another."""
    axis = Axis("x", 0.0, 40.0, cells=40)
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.integers(8, 20, 25), [3, 3, 3, 35], [np.nan]]) + 0.5
    kernel = GroupQuantiles(((axis, 0.3, 0.4),))
    random = KeyedRandom(b"q" * 32)
    n = 20_000
    drawn = [kernel.fit({"x": values}, random, i)[0] for i in range(n)]
    assert kernel.fit({"x": values}, random, 5)[0] == drawn[5]
    observed = np.bincount(np.floor(drawn).astype(int), minlength=40)
    kept = values[~np.isnan(values)]
    below = np.array([(kept < edge).sum() for edge in range(41)])
    target = 0.3 * len(kept)
    weights = np.exp(-0.4 * np.maximum(0, np.maximum(below[:-1] - target, target - below[1:])))
    expected = n * weights / weights.sum()
    large = expected >= 5
    assert (
        stats.chisquare(observed[large], expected[large] * observed[large].sum() / expected[large].sum()).pvalue > 1e-6
    )


def test_no_values_is_any_cell() -> None:
    axis = Axis("x", 0.0, 9.0, cells=9)
    kernel = GroupQuantiles(((axis, 0.5, 1.0),))
    random = KeyedRandom(b"q" * 32)
    found = {math.floor(kernel.fit({"x": np.zeros(0)}, random, i)[0]) for i in range(300)}
    assert found == set(range(9))
