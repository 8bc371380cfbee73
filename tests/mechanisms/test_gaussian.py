"""The Gaussian mechanism: calibration recomputed from what is really drawn, and the shape of the draws."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.privacy.budget import Budget, zcdp_delta
from dpspark.privacy.calibration import FINE_GRID, TV_PER_ENTRY
from dpspark.privacy.noise import LARGEST_SIGMA, OpenDPNoise
from tests.noises import RecordedNoise

SMALL = Domain((Numeric("a", 0, 1), Numeric("b", 0, 1)), "midpoint")
WIDE = Domain(tuple(Numeric(f"x{i}", 0, 1) for i in range(6)), "midpoint")
MIXED = Domain((Numeric("a", 0, 1), Categorical("s", ("f", "m"))), "midpoint")
BALL = Domain((Numeric("a", 0, 1), Numeric("b", 0, 1)), "midpoint", RowNorm("cap", 1.2))


def mechanism_for(domain: Domain, change: str, budget: Budget) -> GaussianGram:
    return GaussianGram.for_budget(Problem(domain, Records(change)), budget)  # type: ignore[arg-type]


def empty(mechanism: GaussianGram) -> ExactGram:
    return ExactGram.from_partials(mechanism.domain, [])


def worst_mu(mechanism: GaussianGram, change: str) -> float:
    """The largest ‖change / std of the noise really drawn‖ over corner neighbours: mu, without using the claim.

    Reads the standard deviations from the calls to the sampler, so a wrong factor anywhere on the way counts.
    """
    noise = RecordedNoise()
    mechanism.release(empty(mechanism), noise)
    width = mechanism.domain.width
    (one, diagonal, _), (other, off, _) = noise.asked
    assert one == other == "gaussian"
    std = np.full((width, width), off) / 4.0**mechanism.domain.bits
    np.fill_diagonal(std, diagonal / 4.0**mechanism.domain.bits)
    if mechanism.sensitivity.count_is_public:
        std[0, 0] = math.inf  # the count does not change; no noise is needed
    rows = corner_rows(mechanism.domain)
    outer = rows[:, :, None] * rows[:, None, :]
    worst = 0.0
    for before in [np.zeros((width, width))] if change == "added" else outer:
        worst = max(worst, float(((np.triu(outer - before) / std) ** 2).sum(axis=(1, 2)).max()))
    return math.sqrt(worst)


def corner_rows(domain: Domain) -> np.ndarray:
    rows = [[1.0]]
    for column in domain.columns:
        options = (
            [[-1.0], [1.0]] if isinstance(column, Numeric) else [list(row) for row in np.eye(len(column.categories))]
        )
        rows = [row + option for row in rows for option in options]
    corners = np.array(rows)
    if domain.row_norm is not None:
        rng = np.random.default_rng(0)
        u = rng.normal(size=(400, domain.width - 1))
        u *= domain.row_norm.radius / np.linalg.norm(u, axis=1, keepdims=True)
        corners = np.hstack([np.ones((800, 1)), np.vstack([u, -u])])
    return corners


def precise_delta(mu: float, epsilon: float) -> float:
    """Balle & Wang's profile, in 60 digits."""
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("domain", [SMALL, WIDE, MIXED, BALL], ids=["small", "wide", "mixed", "ball"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 2**-16), (1.0, 1e-9), (8.0, 1e-6)])
def test_the_noise_drawn_meets_the_budget_tightly(domain: Domain, change: str, epsilon: float, delta: float) -> None:
    """Kills: a sensitivity or scale that is too small anywhere between claim and sampler; noise wasted by 2% or more."""
    mechanism = mechanism_for(domain, change, Budget(epsilon, delta))
    mu = worst_mu(mechanism, change)
    assert mechanism.route == "analytic"
    total = precise_delta(mu, epsilon) + (1 + math.exp(epsilon)) * mechanism.eta
    assert total <= delta
    assert precise_delta(mu * 1.02, epsilon) > delta * (1 - 1e-3)
    assert mu == pytest.approx(mechanism.mu, rel=0.02)


@pytest.mark.parametrize("epsilon", [32.0, 33.0, 34.0, 35.0])
@pytest.mark.parametrize("domain", [SMALL, WIDE], ids=["small", "wide"])
def test_the_sampler_s_share_of_delta_is_set_aside(domain: Domain, epsilon: float) -> None:
    """Kills: half of eta, eta of one entry, half of (1 + e^epsilon): here the sampler's share is 1% to 60% of delta."""
    mechanism = mechanism_for(domain, "added", Budget(epsilon, 1e-9))
    noise = RecordedNoise()
    mechanism.release(empty(mechanism), noise)
    distance = sum(0.0201 / sigma**2 * count for _, sigma, count in noise.asked)
    share = (1 + math.exp(epsilon)) * distance
    assert 0.01e-9 < share < 0.9e-9
    assert mechanism.route == "analytic"
    assert precise_delta(worst_mu(mechanism, "added"), epsilon) + share <= 1e-9
    assert mechanism.eta == pytest.approx(distance, rel=0.7)  # all entries at the smaller scale: an upper bound
    assert mechanism.eta >= distance


@pytest.mark.parametrize("change", ["added", "replaced"])
def test_the_noise_drawn_meets_rho(change: str) -> None:
    mechanism = mechanism_for(SMALL, change, Budget(rho=0.3))
    assert worst_mu(mechanism, change) ** 2 / 2 <= 0.3
    assert worst_mu(mechanism, change) ** 2 / 2 >= 0.3 * (1 - 1e-6)


@pytest.mark.parametrize("epsilon", [60.0, 700.0, 1e6])
def test_large_epsilon_takes_the_zcdp_route(epsilon: float) -> None:
    """Kills: the analytic route where e^epsilon times the sampler's distance eats delta."""
    mechanism = mechanism_for(SMALL, "added", Budget(epsilon, 1e-9))
    assert mechanism.route == "zcdp"
    assert zcdp_delta(worst_mu(mechanism, "added") ** 2 / 2, epsilon) <= 1e-9


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 1e-3])
def test_small_epsilon_gets_a_coarser_grid(epsilon: float) -> None:
    """Kills: noise that saturates the sampler's int64."""
    mechanism = mechanism_for(SMALL, "added", Budget(epsilon, 1e-9))
    assert mechanism.sigma * 4.0**mechanism.domain.bits <= LARGEST_SIGMA
    drawn = mechanism.release(empty(mechanism), OpenDPNoise())
    assert max(abs(v) for v in drawn.upper) < 2**63 - 1
    assert precise_delta(worst_mu(mechanism, "added"), epsilon) <= 1e-9


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-20, 1e-9, 690.0, 710.0, 1e15, 1e300, 1.7e308])
@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-15, 0.5, 1 - 1e-16])
def test_extreme_budgets_are_met_or_refused(epsilon: float, delta: float) -> None:
    """Kills: a search that never ends, and float underflow that reads as no cost."""
    try:
        mechanism = mechanism_for(SMALL, "added", Budget(epsilon, delta))
    except ConfError:
        return
    assert mechanism.sigma > 0
    assert mechanism.delta(epsilon) <= delta


def test_noise_beyond_the_sampler_is_refused() -> None:
    with pytest.raises(ConfError, match="cannot be drawn"):
        mechanism_for(SMALL, "added", Budget(rho=1e-40))


def test_better_than_either_route_alone() -> None:
    """The analytic route is worth 5% or more where it holds."""
    mechanism = mechanism_for(SMALL, "added", Budget(1.0, 1e-9))
    assert zcdp_delta(mechanism.rho, 1.0) > 1.05e-9


@pytest.mark.parametrize("sigma", [8.0, 20.0, 100.0])
def test_total_variation_constant(sigma: float) -> None:
    """Kills: a TV_PER_ENTRY that is too small (0.0202 is the limit)."""
    with mpmath.workdps(40):
        reach = int(12 * sigma)
        weights = [mpmath.exp(-mpmath.mpf(k * k) / (2 * mpmath.mpf(sigma) ** 2)) for k in range(-reach, reach + 1)]
        norm = mpmath.fsum(weights)
        distance = mpmath.fsum(
            abs(w / norm - (mpmath.ncdf((k + 0.5) / sigma) - mpmath.ncdf((k - 0.5) / sigma)))
            for k, w in zip(range(-reach, reach + 1), weights, strict=True)
        )
        scaled = float(distance / 2) * sigma**2
    assert scaled <= TV_PER_ENTRY
    assert scaled >= TV_PER_ENTRY * 0.95
    assert sigma <= FINE_GRID


def standardised_draws(count: int, change: str) -> tuple[np.ndarray, np.ndarray]:
    """Diagonal and off-diagonal noise of many releases of an empty table, over the std that the release states."""
    mechanism = mechanism_for(SMALL, change, Budget(1.0, 1e-9))
    diagonal, off = [], []
    for _ in range(count):
        noisy = mechanism.release(empty(mechanism), OpenDPNoise())
        matrix = np.zeros((3, 3))
        matrix[np.triu_indices(3)] = [v / 4.0**mechanism.domain.bits for v in noisy.upper]
        diagonal += list(np.diag(matrix)[int(noisy.noise.count_is_exact) :] / noisy.noise.diagonal_std)
        off += list(matrix[np.triu_indices(3, 1)] / noisy.noise.off_diagonal_std)
    return np.array(diagonal), np.array(off)


@pytest.mark.parametrize("change", ["added", "replaced"])
def test_draws_are_gaussian_of_the_stated_scale(change: str) -> None:
    """Kills: noise at 0.7 or 1.3 times its scale. False alarm: 4 tests at 1e-6 each."""
    for draws in standardised_draws(1500, change):
        assert stats.kstest(draws, "norm").pvalue > 1e-6
        assert stats.kstest(draws / 0.7, "norm").pvalue < 1e-6
        assert stats.kstest(draws / 1.3, "norm").pvalue < 1e-6


def test_entries_are_independent() -> None:
    """Kills: one draw used for several entries. False alarm about 1e-6."""
    mechanism = mechanism_for(SMALL, "added", Budget(1.0, 1e-9))
    draws = np.array([mechanism.release(empty(mechanism), OpenDPNoise()).upper for _ in range(2000)], dtype=float)
    correlation = np.corrcoef(draws.T)
    np.fill_diagonal(correlation, 0)
    assert abs(correlation).max() < 5.3 / math.sqrt(2000)


def test_public_count_is_exact_and_all_else_is_not() -> None:
    mechanism = mechanism_for(SMALL, "replaced", Budget(1.0, 1e-9))
    exact = ExactGram(mechanism.domain, [7 * 4**20, 1, 2, 3, 4, 5])
    noisy = mechanism.release(exact, OpenDPNoise())
    assert noisy.noise.count_is_exact
    assert noisy.upper[0] == 7 * 4**20
    assert all(got != kept for got, kept in zip(noisy.upper[1:], exact.reveal()[1:], strict=True))


def test_stated_noise_in_original_units() -> None:
    """Kills: a wrong variance in noise_std. 6000 draws: relative error 1% each; bound at 6 standard errors."""
    domain = Domain((Numeric("year", 1990, 2020), Categorical("s", ("f", "m"))), "midpoint")
    for change in ("added", "replaced"):
        mechanism = mechanism_for(domain, change, Budget(1.0, 1e-6))
        draws = []
        for _ in range(6000):
            matrix, stated = mechanism.release(empty(mechanism), OpenDPNoise()).second_moment()
            draws.append(matrix)
        found = np.std(draws, axis=0)
        assert (stated > 0).sum() == stated.size - (change == "replaced")
        assert np.allclose(found, stated, rtol=6 * 1 / math.sqrt(2 * 6000))


def test_another_domain_is_refused() -> None:
    mechanism = mechanism_for(SMALL, "added", Budget(1.0, 1e-9))
    with pytest.raises(ValueError, match="another domain"):
        mechanism.release(ExactGram.from_partials(WIDE, []), OpenDPNoise())
