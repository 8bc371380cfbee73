"""Privacy budgets, and what Gaussian noise costs in each currency.

mu is sensitivity / sigma of the whole release. A discrete Gaussian release is mu²/2-zCDP exactly; it is close to a
rounded continuous Gaussian, which is mu-GDP.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from fractions import Fraction
from typing import Literal

from scipy.special import log_ndtr


@dataclass(frozen=True)
class Budget:
    """(epsilon, delta), or rho alone."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def part(self, share: Fraction) -> Budget:
        """A share of every part of it, rounded down: parts whose shares add up to 1 are within the whole together.

        By basic composition for (epsilon, delta), exactly for rho.
        """
        return Budget(*(None if value is None else _down(Fraction(value) * share) for value in astuple(self)))

    def __str__(self) -> str:
        if self.rho is not None:
            return f"rho={self.rho:g} (zCDP)"
        return f"epsilon={self.epsilon:g}" + (f", delta={self.delta:g}" if self.delta else "")


def _down(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def zcdp_delta(rho: float, epsilon: float) -> float:
    """A delta for which rho-zCDP gives (epsilon, delta)-DP.

    Canonne, Kamath & Steinke (2020), Proposition 7: valid for every order 1 + a with a > 0, so a rough minimum is safe.
    """
    return math.exp(min(0.0, _log_zcdp_delta(rho, epsilon)))


def _log_zcdp_delta(rho: float, epsilon: float) -> float:
    def slope(log_a: float) -> float:
        a = math.exp(log_a)
        return (1 + 2 * a) * rho - epsilon - math.log1p(1 / a)

    # The bound is convex in a: bisect its slope.
    low, high = -200.0, 200.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    a = math.exp((low + high) / 2)
    return a * ((1 + a) * rho - epsilon) - a * math.log1p(1 / a) - math.log1p(a)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho (rounded down) whose delta at epsilon is at most `delta`."""
    wall = math.log(1 / delta)
    low = (epsilon / (math.sqrt(wall + epsilon) + math.sqrt(wall))) ** 2  # Bun & Steinke (2016), Proposition 1.3
    if low == 0:  # below the smallest double
        return 0.0
    high = 2 * low
    while _log_zcdp_delta(high, epsilon) <= -wall:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_zcdp_delta(middle, epsilon) <= -wall else (low, middle)
    return low * (1 - 1e-12)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """The smallest epsilon (rounded up) that rho-zCDP gives at `delta`."""
    wall = math.log(1 / delta)
    low, high = 0.0, rho + 2 * math.sqrt(rho * wall)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_zcdp_delta(rho, middle) > -wall else (low, middle)
    return high * (1 + 1e-12)


def exponential_epsilon(budget: Budget, count: int) -> tuple[float, Literal["pure", "zcdp"]]:
    """What each of `count` exponential mechanisms may have: epsilon / count, or, as each is epsilon²/8-zCDP, √(8ρ/count)."""
    if budget.rho is not None:
        return math.sqrt(8 * budget.rho / count), "zcdp"
    assert budget.epsilon is not None
    pure = budget.epsilon / count
    by_zcdp = math.sqrt(8 * zcdp_rho(budget.epsilon, budget.delta) / count) if budget.delta else 0.0
    return (pure, "pure") if pure >= by_zcdp else (by_zcdp, "zcdp")


def analytic_mu(epsilon: float, delta: float) -> float:
    """The largest mu (rounded down) of a continuous Gaussian that is (epsilon, delta)-DP: Balle & Wang (2018), Theorem 8.

    0 where float64 cannot tell (an epsilon and a delta both far below 1e-9).
    """
    if epsilon > 700:  # e^epsilon is beyond a double
        return 0.0
    low, high = math.log(1e-12), math.log(1e3)  # delta grows with mu
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(math.exp(middle), epsilon) <= delta * (1 - 1e-6) else (low, middle)
    mu = math.exp(low) * (1 - 1e-9)  # past the search's tolerance
    first, second = _gaussian_log_tails(mu, epsilon)
    return mu if -math.expm1(second - first) > 1e-9 else 0.0


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The delta of a continuous Gaussian: Balle & Wang (2018), Theorem 5 and Equation 6."""
    first, second = _gaussian_log_tails(mu, epsilon)
    return math.exp(first) * -math.expm1(min(0.0, second - first))


def _gaussian_log_tails(mu: float, epsilon: float) -> tuple[float, float]:
    return float(log_ndtr(mu / 2 - epsilon / mu)), epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
