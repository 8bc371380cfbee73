"""The discrete Gaussian noise that a budget allows: the better of two routes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from dpspark.privacy.budget import Budget, joint_mu, zcdp_rho

# Total variation between the discrete and the rounded Gaussian is at most this over sigma² (sigma in grid steps), an entry:
# the densities' ratio is 1 + (x² − 1)/(24σ²) + O(σ⁻⁴) with x = k/σ, and E|x² − 1|/48 = 0.0202.
TV_PER_ENTRY = 0.021
FINE_GRID = 1024.0  # sigma in grid steps from which that expansion is used

Route = Literal["analytic", "zcdp"]


def largest_mu(budget: Budget, eta_at: Callable[[float], float]) -> tuple[float, Route]:
    """Find the largest mu = sensitivity / sigma within the budget, rounded down, and the route that proves it.

    analytic: Balle & Wang (2018), Theorem 8, less (1 + e^epsilon)·eta for the sampler's distance eta from a rounded
    Gaussian, which `eta_at` gives for a mu; zcdp: Canonne, Kamath & Steinke (2020), Theorem 4 and Proposition 7.
    """
    if budget.rho is not None:
        return math.sqrt(2 * budget.rho), "zcdp"
    assert budget.epsilon is not None
    assert budget.delta is not None
    by_zcdp = math.sqrt(2 * zcdp_rho(budget.epsilon, budget.delta))
    by_analytic = _analytic_mu(budget.epsilon, budget.delta, eta_at)
    return (by_analytic, "analytic") if by_analytic > by_zcdp else (by_zcdp, "zcdp")


def _analytic_mu(epsilon: float, delta: float, eta_at: Callable[[float], float], pure: float = 0.0) -> float:
    """Find the analytic route's mu after the sampler's share of delta; 0 if that takes all of it."""
    mu = joint_mu(epsilon, delta, pure)
    if mu == 0:
        return 0.0
    # The noise only grows from here, so this eta is an upper bound.
    left = delta - sampler_delta(eta_at(mu), epsilon)
    return joint_mu(epsilon, left, pure) if left > 0 else 0.0


def largest_mu_beside(budget: Budget, pure: float, eta_at: Callable[[float], float]) -> tuple[float, Route]:
    """Find the same where an exponential mechanism, pure with epsilon `pure`, has to fit into the budget too.

    analytic: budget.joint_delta; zcdp: the exponential mechanism is pure²/8-zCDP. What was drawn first may decide what is
    drawn later. 0 if the draw alone takes all.
    """
    if budget.rho is not None:
        return math.sqrt(max(0.0, 2 * (budget.rho - pure**2 / 8) * (1 - 1e-12))), "zcdp"
    assert budget.epsilon is not None
    assert budget.delta is not None
    left = zcdp_rho(budget.epsilon, budget.delta) - pure**2 / 8
    by_zcdp = math.sqrt(max(0.0, 2 * left * (1 - 1e-12)))
    by_analytic = _analytic_mu(budget.epsilon, budget.delta, eta_at, pure)
    return (by_analytic, "analytic") if by_analytic > by_zcdp else (by_zcdp, "zcdp")


def distance_from_rounded(entries: int, sigma: float) -> float:
    """Bound the total variation between discrete Gaussian noise and a rounded continuous one; 1 (no claim) on a coarse grid."""
    return min(1.0, entries * TV_PER_ENTRY / sigma**2) if sigma >= FINE_GRID else 1.0


def sampler_delta(eta: float, epsilon: float) -> float:
    """Compute what a sampler at distance eta adds to the analytic delta."""
    return (1 + math.exp(epsilon)) * eta if epsilon < 700 else math.inf
