"""Quantiles by the exponential mechanism: its law computed exactly, its sensitivity enumerated, its draws audited."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpspark.core.records import Change
from dpspark.errors import ConfError
from dpspark.exact.histogram import Axis, ExactHistogram, HistogramAccumulator
from dpspark.mechanisms.quantiles.exponential import FAINTEST, CellLaw, Quantiles, cell_weights, ordered_edges
from dpspark.privacy.budget import Budget, zcdp_rho
from dpspark.privacy.noise import OpenDPNoise
from dpspark.privacy.sensitivity import rank_distance

AXIS = Axis("x", 0.0, 4.0, cells=4)
VALUES = [None, 0.5, 1.5, 2.5, 3.5]  # one in each cell, and a null
PROBABILITIES = [0.01, 0.3, 0.5, 0.9]


class Seeded(OpenDPNoise):
    """Uniform whole numbers from a seed, so that a statistical test has one outcome."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def below(self, limit: int) -> int:
        words = limit.bit_length() // 64 + 2
        return int.from_bytes(self.generator.bytes(8 * words), "little") * limit >> (64 * words)


def counted(values: tuple[float | None, ...], axis: Axis = AXIS) -> ExactHistogram:
    """Through the real counting code."""
    accumulator = HistogramAccumulator([axis])
    accumulator.add([np.array([math.nan if v is None else v for v in values], dtype=float)], len(values))
    return ExactHistogram.from_partials([axis], [accumulator.finish()])


def distances(values: tuple[float | None, ...], probability: float) -> np.ndarray:
    """max(0, b(c) − p·n, p·n − u(c)) of every cell, from the definition."""
    kept = [v for v in values if v is not None]
    below = np.array([sum(v < edge for v in kept) for edge in range(AXIS.cells + 1)])
    target = probability * len(kept)
    return np.maximum(0, np.maximum(below[:-1] - target, target - below[1:]))


def neighbours(change: Change) -> list[tuple[tuple, tuple]]:
    """All pairs of small data sets that differ in one row."""
    pairs = []
    for size in range(5):
        for values in itertools.combinations_with_replacement(VALUES, size):
            if change in ("added", "either"):
                pairs += [(values, (*values, new)) for new in VALUES]
            if change in ("replaced", "either") and size:
                pairs += [(values, (*values[:at], new, *values[at + 1 :])) for at in range(size) for new in VALUES]
    return [tuple(tuple(sorted(s, key=str)) for s in pair) for pair in pairs]  # type: ignore[misc]


def law(values: tuple[float | None, ...], probability: float, exponent: float, axis: Axis = AXIS) -> list[Fraction]:
    """The exact probability of every cell, by the real weights."""
    drawn_from = CellLaw.of(*counted(values, axis).reveal("x"), axis.cells, probability, exponent)
    ends = [*drawn_from.first[1:], axis.cells]
    total = drawn_from.sums[-1]
    runs = zip(drawn_from.first, ends, drawn_from.weights, strict=True)
    return [Fraction(weight, total) for first, end, weight in runs for _ in range(first, end)]


def loss(before: tuple, after: tuple, probability: float, exponent: float, axis: Axis = AXIS) -> float:
    """The largest log ratio of any cell's probabilities."""
    laws = (law(values, probability, exponent, axis) for values in (before, after))
    return max(abs(math.log(a / b)) for a, b in zip(*laws, strict=True))


def tight_pair(probability: float, change: Change, axis: Axis) -> tuple[tuple, tuple]:
    """Where one run, with nearly all cells, gains all it can while a run of one cell (see `event`) loses all it can."""
    if change == "replaced":
        left, second, right = 0.5, 1.5, axis.cells - 0.5
        hundredths = round(100 * probability)
        rest = (left,) * (hundredths - 1) + (second,) + (right,) * (99 - hundredths)
        return (*rest, left), (*rest, right)
    if probability <= 0.5:
        values = (axis.cells - 1.5,) * (math.ceil((1 - probability) / probability) + 1)
        return values, (*values, 0.5)
    values = (1.5,) * (math.ceil(probability / (1 - probability)) + 1)
    return values, (*values, axis.cells - 0.5)


@pytest.mark.parametrize("change", ["added", "replaced", "either"])
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_sensitivity_of_the_rank_distance(probability: float, change: Change) -> None:
    """Kills: min(p, 1 − p) or 1/2 for an added value; max(p, 1 − p) for a replaced one. Nulls come and go."""
    claim = rank_distance(probability, change)
    found = max(float(abs(distances(a, probability) - distances(b, probability)).max()) for a, b in neighbours(change))
    assert found <= claim + 1e-12
    assert found >= claim * 0.999
    assert rank_distance(probability, change, 3) == 3 * claim


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_the_law_keeps_epsilon_on_every_small_pair(probability: float, change: Change) -> None:
    """Kills: any shortcut in the weights that is not a function of the rank. Exact arithmetic, no sampling."""
    exponent = Quantiles.for_budget([(AXIS, probability)], change, 1, Budget(0.8, 0.0)).exponent(probability)
    assert max(loss(*pair, probability, exponent) for pair in set(neighbours(change))) <= 0.8


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("probability", PROBABILITIES)
def test_the_law_is_tight(probability: float, change: Change) -> None:
    """Kills: an exponent that is 2% too large: the factor 2 in epsilon = 2·γ·sensitivity, or its max(p, 1 − p), left out."""
    axis = Axis("x", 0.0, 4000.0, cells=4000)
    exponent = Quantiles.for_budget([(axis, probability)], change, 1, Budget(0.8, 0.0)).exponent(probability)
    pair = tight_pair(probability, change, axis)
    assert 0.8 / 1.02 < loss(*pair, probability, exponent, axis) <= 0.8
    assert loss(*pair, probability, 1.02 * exponent, axis) > 0.8


@pytest.mark.parametrize(("probability", "exponent"), [(0.5, 0.7), (0.01, 0.2), (0.99, 3.0)])
def test_draws_follow_the_exponential_mechanism(probability: float, exponent: float) -> None:
    """Kills: an interval drawn without its length, an off-by-one edge. χ² against brute force; false alarm 1e-6."""
    axis = Axis("x", 0.0, 40.0, cells=40)
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.integers(8, 20, 25), [3, 3, 3, 35]]) + 0.5
    edges = CellLaw.of(*counted(tuple(values), axis).reveal("x"), 40, probability, exponent)
    noise = Seeded(5)
    n = 50_000
    drawn = np.bincount([edges.draw(noise) for _ in range(n)], minlength=axis.cells)
    below = np.array([(values < edge).sum() for edge in range(41)])
    target = probability * len(values)
    distance = np.maximum(0, np.maximum(below[:-1] - target, target - below[1:]))
    weights = np.exp(-exponent * distance)
    expected = n * weights / weights.sum()
    large = expected >= 5
    rest = [drawn[~large].sum(), *drawn[large]], [expected[~large].sum(), *expected[large]]
    keep = rest[1][0] >= 5
    observed, predicted = (np.array(side)[0 if keep else 1 :] for side in rest)
    assert stats.chisquare(observed, predicted * observed.sum() / predicted.sum()).pvalue > 1e-6
    wrong = np.exp(-2 * exponent * distance)[large]
    assert stats.chisquare(drawn[large], wrong / wrong.sum() * drawn[large].sum()).pvalue < 1e-6


def lower_bound(hits: tuple[int, int], n: int) -> float:
    """An epsilon that the two-sided event shows, at 99.9% confidence (Clopper & Pearson)."""
    high, low = max(hits), min(hits)
    return math.log(stats.beta.ppf(0.0005, high, n - high + 1) / stats.beta.ppf(0.9995, low + 1, n - low))


@pytest.mark.parametrize("change", ["added", "replaced"])
def test_audit_of_real_draws(change: Change) -> None:
    """Kills: a doubled exponent anywhere between counting and the drawn cell. Seeded, so no false alarm.

    The pair and the event (the run of one cell) were fixed beforehand; they show more than half of epsilon.
    """
    axis = Axis("x", 0.0, 10.0, cells=10)
    event = 9 if change == "added" else 0
    n = 100_000

    def shown(epsilon: float) -> float:
        mechanism = Quantiles.for_budget([(axis, 0.3)], change, 1, Budget(epsilon, 0.0))
        hits = []
        for seed, values in enumerate(tight_pair(0.3, change, axis)):
            noise, edges = Seeded(seed), mechanism.law(counted(values, axis), axis, 0.3)
            hits.append(sum(edges.draw(noise) == event for _ in range(n)))
        return lower_bound((hits[0], hits[1]), n)

    assert 0.5 < shown(1.0) <= 1.0
    assert shown(2.0) > 1.0  # what a mechanism that claims 1 and doubles its exponent would show


@pytest.mark.parametrize(("probability", "exponent"), [(0.37, 0.31), (0.01, 1e-4), (0.99, 50.0), (0.5, 1e-9)])
def test_weights_are_right_to_the_stated_precision(probability: float, exponent: float) -> None:
    """Kills: float exponents; an error that builds up along the products; a weight that vanishes."""
    rng = np.random.default_rng(1)
    below = np.concatenate([[0], np.cumsum(rng.integers(1, 40, 3000))])
    total = int(below[-1])
    weights = cell_weights(below[:-1], below[1:], Fraction(probability) * total, exponent)
    with mpmath.workdps(200):
        target, gamma = mpmath.mpf(probability) * total, mpmath.mpf(exponent)
        for weight, lower, upper in zip(weights[::97], below[:-1:97], below[1::97], strict=True):
            distance = max(0, int(lower) - target, target - int(upper))
            exact = mpmath.mpf(2) ** 512 * mpmath.exp(-min(gamma * distance, mpmath.mpf(FAINTEST)))
            assert abs(weight / exact - 1) < mpmath.mpf(2) ** -300
    assert min(weights) > 2**380


def test_composition_takes_the_better_route() -> None:
    """Kills: epsilon for each quantile; epsilon²/2 where the exponential mechanism has epsilon²/8, or less than that."""
    few, many = [(AXIS, 0.5)] * 4, [(AXIS, 0.5)] * 40
    budget = Budget(1.0, 1e-6)
    assert Quantiles.for_budget(few, "added", 1, budget).epsilon_each == pytest.approx(0.25)
    by_zcdp = Quantiles.for_budget(many, "added", 1, budget)
    assert (by_zcdp.route, by_zcdp.epsilon_each > 1 / 40) == ("zcdp", True)
    assert 40 * by_zcdp.epsilon_each**2 / 8 <= zcdp_rho(1.0, 1e-6)
    assert 40 * by_zcdp.epsilon_each**2 / 8 >= zcdp_rho(1.0, 1e-6) * (1 - 1e-9)
    in_rho = Quantiles.for_budget(many, "added", 1, Budget(rho=0.1))
    assert 0.1 * (1 - 1e-9) <= 40 * in_rho.epsilon_each**2 / 8 <= 0.1
    pure = Quantiles.for_budget(many, "added", 1, Budget(1.0, 0.0))
    assert (pure.route, 40 * pure.epsilon_each <= 1.0) == ("pure", True)
    with pytest.raises(ConfError, match="too little"):
        Quantiles.for_budget(many, "added", 1, Budget(1e-11, 0.0))


def test_rows_per_record_scale_the_exponent() -> None:
    """Kills: a record of three rows protected as one. By the exact law: three values move together."""
    mechanism = Quantiles.for_budget([(AXIS, 0.3)], "added", 3, Budget(0.9, 0.0))
    # The tight pair three times over: three values come at once.
    axis = Axis("x", 0.0, 4000.0, cells=4000)
    one, two = tight_pair(0.3, "added", axis)
    exponent = mechanism.exponent(0.3)
    assert 0.9 / 1.02 < loss(one * 3, two * 3, 0.3, exponent, axis) <= 0.9
    assert loss(one * 3, two * 3, 0.3, 1.02 * exponent, axis) > 0.9
    alone = Quantiles.for_budget([(AXIS, 0.3)], "added", 1, Budget(0.9, 0.0)).exponent(0.3)
    assert alone == pytest.approx(3 * mechanism.exponent(0.3))


def test_found_quantiles_are_near_the_true_ones() -> None:
    axis = Axis("x", -50.0, 50.0)
    values = np.random.default_rng(2).normal(3, 4, 20_000)
    mechanism = Quantiles.for_budget([(axis, 0.01), (axis, 0.99)], "added", 1, Budget(1.0, 0.0))
    lower, upper = mechanism.release(counted(tuple(values), axis), Seeded(9))
    # A rank error of 60 of 20,000 has a probability of e^-15 or so.
    assert np.quantile(values, 0.007) < axis.edge(lower) < np.quantile(values, 0.013)
    assert np.quantile(values, 0.987) < axis.edge(upper) < np.quantile(values, 0.993)


@pytest.mark.parametrize("rows", [1_000, 2_000_000])
def test_a_value_that_many_rows_share_is_found(rows: int) -> None:
    """Kills: distances from edges, which are all far from a target inside one frequent value: then any cell is as likely."""
    axis = Axis("x", 0.0, 2e6)
    zeros, rest = round(0.09 * rows), np.random.default_rng(0).uniform(1e4, 4e5, rows - round(0.09 * rows))
    cells, counts = np.unique(np.concatenate([np.zeros(zeros, dtype=np.int64), axis.cell_of(rest)]), return_counts=True)
    law_of_lower = CellLaw.of(cells, counts, axis.cells, 0.01, 0.05)
    assert {law_of_lower.draw(Seeded(seed)) for seed in range(50)} == {0} if rows > 10_000 else True
    constant = CellLaw.of(np.array([77]), np.array([rows]), axis.cells, 0.5, 0.05)
    assert {constant.draw(Seeded(seed)) for seed in range(50)} == {77}


def test_no_values_at_all_is_a_uniform_draw() -> None:
    none = np.array([], dtype=np.int64)
    drawn = [CellLaw.of(none, none, 9, 0.01, 1.0).draw(Seeded(seed)) for seed in range(300)]
    assert set(drawn) == set(range(9))


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [
        ((10, 20), (10, 21)),
        ((7, 8), (6, 10)),  # closer than the least width
        ((3000, 1000), (1000, 3001)),
        ((2000, 2000), (1998, 2002)),
        ((2001, 2000), (1999, 2003)),
        ((0, 0), (0, 4)),
        ((4095, 4095), (4092, 4096)),
    ],
)
def test_bounds_in_the_wrong_order(drawn: tuple[int, int], expected: tuple[int, int]) -> None:
    """A grid of 4096 cells: the least width is 4 of them."""
    lower, upper = ordered_edges(*drawn, 4096)
    assert (lower, upper) == expected
    assert 0 <= lower < upper <= 4096


def test_ordered_edges_always_fit() -> None:
    for grid in (1, 2, 5, 4096):
        for lower, upper in itertools.product(range(min(grid, 12)), repeat=2):
            a, b = ordered_edges(lower, upper, grid)
            assert 0 <= a < b <= grid


def test_the_operating_system_s_numbers_reach_every_value() -> None:
    noise = OpenDPNoise()
    assert {noise.below(3) for _ in range(100)} == {0, 1, 2}
    assert max(noise.below(1 << 600) for _ in range(20)).bit_length() > 580
