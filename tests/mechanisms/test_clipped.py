"""Counts of clipped values: sensitivity through the real counting code, noise as really drawn."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm, Weight
from dpspark.core.records import Change, Records
from dpspark.errors import ConfError
from dpspark.exact.bounds import grid_weights, plain_values
from dpspark.exact.clip_counter import ClipCounter
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.privacy.budget import Budget
from dpspark.privacy.noise import OpenDPNoise
from dpspark.privacy.sensitivity import clipped_l1, clipped_l2
from tests.mechanisms.test_gaussian import precise_delta
from tests.noises import RecordedNoise

NUMBERS = [-math.inf, -3.0, -2.0, 0.0, 5.0, 5.5, math.inf, math.nan, None]
WEIGHTS = [-1.0, 0.0, 0.4, 7.0, 100.0, math.nan]


def domain_of(count: int, nulls: str = "midpoint", weight: Weight | None = None) -> Domain:
    columns = tuple(Numeric(f"x{i}", -2, 5) for i in range(count))
    return Domain((*columns, Categorical("s", ("a", "b"))), nulls, weight=weight)  # type: ignore[arg-type]


def all_counts(domain: Domain) -> np.ndarray:
    """What one row adds to the counts, in rows, for every combination of raw values; the absent row first."""
    found = [np.zeros(domain.clip_counts)]
    for row in itertools.product(NUMBERS, repeat=len(domain.numeric)):
        for weight in WEIGHTS if domain.weight else [None]:
            counter = ClipCounter(domain)
            ready = [plain_values(c, pa.array([v], pa.float64())) for c, v in zip(domain.numeric, row, strict=True)]
            steps = grid_weights(domain.weight, np.array([weight])) if domain.weight else None
            counter.add([*ready, np.array([0])], steps)
            scale = domain.weight.upper / domain.weight.steps if domain.weight else 1.0
            found.append(counter.counts * scale)
    return np.unique(found, axis=0)


def attack(domain: Domain, change: Change, order: int) -> float:
    rows = all_counts(domain)
    before = rows[:1] * 0 if change == "added" else rows
    return max(float(np.linalg.norm(rows - b, order, axis=1).max()) for b in before)


@pytest.mark.parametrize("change", ["added", "replaced", "either"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_sensitivity(count: int, change: Change) -> None:
    """Kills: √d where a replaced value leaves one side and joins the other; d for an l1 of 2d; a value on both sides."""
    domain = domain_of(count)
    for claim, order in ((clipped_l2, 2), (clipped_l1, 1)):
        found = attack(domain, change, order)
        assert found <= claim(domain, change)
        assert found >= claim(domain, change) * 0.999
        assert claim(domain, change, 4) == pytest.approx(4 * claim(domain, change))


@pytest.mark.parametrize("change", ["added", "either"])
def test_sensitivity_of_weighted_rows(change: Change) -> None:
    """Kills: a count of 1 for a row of weight 7."""
    domain = domain_of(2, weight=Weight("w", 7.0))
    for claim, order in ((clipped_l2, 2), (clipped_l1, 1)):
        found = attack(domain, change, order)
        assert found <= claim(domain, change)
        assert found >= claim(domain, change) * 0.999


@pytest.mark.parametrize("change", ["added", "either"])
def test_sensitivity_where_rows_are_counted_too(change: Change) -> None:
    """Kills: the count of rows left out of the sensitivity. A row that is dropped or not there adds nothing at all."""
    domain = replace(domain_of(2, "drop_row"), row_norm=RowNorm("cap", 1.0, True))
    for claim, order in ((clipped_l2, 2), (clipped_l1, 1)):
        found = attack(domain, change, order)
        assert found <= claim(domain, change)
        if change == "added":
            assert found >= claim(domain, change) * 0.999


def test_counts_are_of_kept_rows_strictly_outside() -> None:
    """Kills: values on a bound counted (also where scaling would round over it), dropped rows counted, nulls counted."""
    values = pa.array([18.0, 99.0, 17.999, 99.5, math.inf, -math.inf, None, math.nan, 50.0, 1000.0])
    other = pa.array([1.0] * 9 + [None])
    columns = (Numeric("a", 18, 99), Numeric("b", 0, 1))
    for nulls, expected in (("drop_row", [2, 2, 0, 0]), ("midpoint", [2, 3, 0, 0])):
        domain = Domain(columns, nulls)  # type: ignore[arg-type]
        gram = GramAccumulator(domain, count_clipped=True)
        gram.add([values, other], len(values))
        exact = ExactGram.from_partials(domain, [gram.finish()], count_clipped=True)
        assert exact.reveal_clipped() == expected
        plain = GramAccumulator(domain)
        plain.add([values, other], len(values))
        assert ExactGram.from_partials(domain, [plain.finish()]).reveal() == exact.reveal()
    with pytest.raises(ValueError, match="not counted"):
        ExactGram.from_partials(domain, []).reveal_clipped()


def test_unknown_categories_drop_the_row() -> None:
    counter = ClipCounter(domain_of(1, "drop_row"))
    counter.add([np.array([9.0, 9.0]), np.array([-1, 1])], None)
    assert counter.counts.tolist() == [0, 1]


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 5e-11), (1.0, 1e-6), (6.0, 1e-9)])
def test_the_noise_drawn_meets_the_budget_tightly(change: Change, epsilon: float, delta: float) -> None:
    """Kills: a scale too small by 2% anywhere between claim and sampler, the finer grid left out of it among them."""
    domain = domain_of(2)
    mechanism = ClippedCounts.for_budget(Problem(domain, Records(change, 1)), Budget(epsilon, delta))
    noise = RecordedNoise()
    empty = ExactGram.from_partials(domain, [], count_clipped=True)
    mechanism.release(empty, 100.0, noise)
    mu = attack(domain, change, 2) * mechanism.fine / noise.scales[0]
    assert mechanism.route == "analytic"
    assert precise_delta(mu, epsilon) + (1 + math.exp(epsilon)) * mechanism.eta <= delta
    assert precise_delta(mu * 1.02, epsilon) > delta


@pytest.mark.parametrize("change", ["added", "either"])
def test_pure_and_rho(change: Change) -> None:
    """Kills: the whole epsilon for each count; rho of one count."""
    domain = domain_of(2, weight=Weight("w", 7.0))
    empty = ExactGram.from_partials(domain, [], count_clipped=True)
    noise = RecordedNoise()
    pure = ClippedCounts.for_budget(Problem(domain, Records(change, 1)), Budget(0.3, 0.0))
    pure.release(empty, 100.0, noise)
    in_rho = ClippedCounts.for_budget(Problem(domain, Records(change, 1)), Budget(rho=0.01))
    in_rho.release(empty, 100.0, noise)
    steps = domain.weight.steps / domain.weight.upper * pure.fine  # type: ignore[union-attr]
    assert 0.3 * 0.99 < attack(domain, change, 1) * steps / noise.scales[0] <= 0.3
    assert 0.01 * 0.99 < (attack(domain, change, 2) * steps / noise.scales[1]) ** 2 / 2 <= 0.01
    assert pure.noise_std == pytest.approx(math.sqrt(2) * pure.scale)


def test_shares_are_counts_over_rows_with_the_stated_noise() -> None:
    """Kills: noise_std of a count given for a share. χ² of the draws; false alarm 1e-6."""
    domain = domain_of(2)
    upper = [0] * (domain.width * (domain.width + 1) // 2)
    exact = ExactGram(domain, upper, [0, 50, 200, 1000])
    mechanism = ClippedCounts.for_budget(Problem(domain, Records("added", 1)), Budget(1.0, 1e-6))
    draws = [mechanism.release(exact, 2000.0, OpenDPNoise()) for _ in range(300)]
    shares = np.array([drawn.share for drawn in draws])
    truth = np.array([0, 50, 200, 1000]) / 2000
    z = (shares - truth) / draws[0].noise_std[0]
    assert 1e-6 < stats.chi2.cdf((z**2).sum(), z.size) < 1 - 1e-6
    assert draws[0].column == ("x0", "x0", "x1", "x1")
    assert draws[0].side == ("lower", "upper", "lower", "upper")
    assert all(math.isnan(share) for share in mechanism.release(exact, -3.0, OpenDPNoise()).share)


def test_extreme_budgets() -> None:
    assert ClippedCounts.for_budget(Problem(domain_of(1), Records("added", 1)), Budget(1e-12, 0.0)).fine < 1 << 20
    with pytest.raises(ConfError, match="cannot be drawn"):
        ClippedCounts.for_budget(Problem(domain_of(1), Records("added", 1)), Budget(1e-300, 0.0))
