"""Conversions between budgets, against OpenDP and high-precision arithmetic."""

from __future__ import annotations

import math

import mpmath
import pytest

from dpspark.privacy.budget import analytic_mu, gaussian_delta, zcdp_delta, zcdp_epsilon, zcdp_rho

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
