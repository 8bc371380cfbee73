"""Conversions between budgets, against OpenDP and high-precision arithmetic."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from dpspark.privacy.budget import (
    Budget,
    analytic_mu,
    gaussian_delta,
    joint_delta,
    joint_mu,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from dpspark.privacy.calibration import largest_mu_beside
from dpspark.privacy.cost import joint_cost

EPSILONS = [1e-6, 0.01, 0.1, 1.0, 3.0, 10.0, 100.0]
DELTAS = [1e-12, 1e-9, 2**-16, 1e-3]


def precise_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_analytic_mu_is_within_and_close_to_delta(epsilon: float, delta: float) -> None:
    mu = analytic_mu(epsilon, delta)
    got = precise_delta(mu, epsilon)
    assert got <= delta
    assert got >= delta * (1 - 1e-4)
    assert gaussian_delta(mu, epsilon) == pytest.approx(float(got), rel=1e-6)


@pytest.mark.parametrize("epsilon", EPSILONS[1:])
@pytest.mark.parametrize("delta", DELTAS)
def test_analytic_mu_agrees_with_dp_accounting(epsilon: float, delta: float) -> None:
    import dp_accounting

    assert 1 / analytic_mu(epsilon, delta) == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-5)


@pytest.mark.parametrize("epsilon", [*EPSILONS, 1e6])
@pytest.mark.parametrize("delta", [*DELTAS, 1e-100])
def test_zcdp_round_trip(epsilon: float, delta: float) -> None:
    rho = zcdp_rho(epsilon, delta)
    assert zcdp_delta(rho, epsilon) <= delta
    assert zcdp_delta(rho * 1.0001, epsilon) > delta
    assert zcdp_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.5, 5.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_epsilon_agrees_with_opendp(rho: float, delta: float) -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    mechanism = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=1000 / math.sqrt(2 * rho)))
    theirs = mechanism.map(1000.0).epsilon(delta)
    assert zcdp_epsilon(rho, delta) == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("pure", [0.01, 0.1, 0.6])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (1.0, 1e-3), (8.0, 1e-9)])
def test_a_pure_draw_beside_a_gaussian_is_priced_as_dp_accounting_does(
    epsilon: float, delta: float, pure: float
) -> None:
    """By its convolution of privacy losses. Kills: a pure draw for free, half of its epsilon, its square."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    pure *= epsilon
    mu = joint_mu(epsilon, delta, pure)
    grid = 1e-4 * min(1.0, epsilon)
    losses = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
    losses = losses.compose(pld.from_privacy_parameters(common.DifferentialPrivacyParameters(pure, 0), grid))
    assert joint_delta(mu, pure, epsilon) <= delta
    assert losses.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=2e-3)
    assert analytic_mu(epsilon - pure, delta) < mu < analytic_mu(epsilon, delta)


def test_joint_delta_at_small_epsilons() -> None:
    """Below the draw's epsilon, where the Gaussian's is taken at a negative one. Kills: its formula for positive ones alone."""
    mu, pure = 0.3, 0.5
    found = [joint_delta(mu, pure, epsilon) for epsilon in (0.0, 0.1, 0.5, 0.7, 2.0)]
    assert found == sorted(found, reverse=True)
    # At 0 it is the total variation: of the draw alone at least, of both together at most.
    alone = np.tanh(pure / 2)
    assert max(alone, gaussian_delta(mu, 0.0)) < found[0] < alone + gaussian_delta(mu, 0.0)


@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(0.05, 1e-9), Budget(rho=0.05)], ids=str)
def test_the_largest_mu_beside_a_draw_fits_and_no_larger_one_does(budget: Budget) -> None:
    pure = 0.05 * (budget.epsilon or 1.0)
    mu, route = largest_mu_beside(budget, pure, lambda mu: 0.0)
    assert joint_cost(mu, 0.0 if route == "analytic" else 1.0, pure).within(budget)
    assert not joint_cost(mu * 1.001, 0.0, pure).within(budget)
    assert largest_mu_beside(budget, 3 * pure, lambda mu: 0.0)[0] < mu
