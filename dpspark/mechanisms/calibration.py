"""How much Gaussian noise a budget asks for, when many integers get noise of different sizes together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from dpspark.privacy.budget import Budget, analytic_mu, zcdp_rho

# Total variation between the discrete and the rounded Gaussian is at most this over sigma² (sigma in grid steps), an entry:
# the densities' ratio is 1 + (x² − 1)/(24σ²) + O(σ⁻⁴) with x = k/σ, and E|x² − 1|/48 = 0.0202.
TV_PER_ENTRY = 0.021
FINE_GRID = 1024.0  # sigma in grid steps from which that expansion is used

Route = Literal["analytic", "zcdp"]


def sampler_distance(entries: Sequence[tuple[float, int]]) -> float:
    """Total variation between discrete and rounded Gaussians, for (sigma in grid steps, how many) pairs; 1 is no claim."""
    if any(steps < FINE_GRID for steps, count in entries if count):
        return 1.0
    return min(1.0, sum(count * TV_PER_ENTRY / steps**2 for steps, count in entries if count))


def sampler_delta(epsilon: float, distance: float) -> float:
    """What the discrete sampler adds to the analytic delta."""
    return (1 + math.exp(epsilon)) * distance if epsilon < 700 else math.inf


def joint_mu(budget: Budget, distance_at: Callable[[float], float]) -> tuple[float, Route]:
    """The largest mu within the budget, by the better of two routes.

    `distance_at(mu)` is the sampler's total variation at the noise that mu asks for; it grows with mu, so that its value at
    a first, too large mu is an upper bound.
    """
    if budget.rho is not None:
        return math.sqrt(2 * budget.rho), "zcdp"
    assert budget.epsilon is not None
    assert budget.delta
    by_zcdp = math.sqrt(2 * zcdp_rho(budget.epsilon, budget.delta))
    by_analytic = analytic_mu(budget.epsilon, budget.delta)
    if by_analytic > 0:
        left = budget.delta - sampler_delta(budget.epsilon, distance_at(by_analytic))
        by_analytic = analytic_mu(budget.epsilon, left) if left > 0 else 0.0
    return (by_analytic, "analytic") if by_analytic > by_zcdp else (by_zcdp, "zcdp")
