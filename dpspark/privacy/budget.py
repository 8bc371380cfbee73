"""Privacy budgets, and what Gaussian noise costs in each currency.

mu is sensitivity / sigma of the whole release. A discrete Gaussian release is mu²/2-zCDP exactly; it is close to a
rounded continuous Gaussian, which is mu-GDP.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

SMALLEST_MU, LARGEST_MU = 1e-290, 1e150
LAST_TAIL = 40.0  # standard deviations: the density there is below any double
NODES, WEIGHTS = (each / 2 for each in np.polynomial.legendre.leggauss(16))  # Gauss's rule on [0, 1], once moved there
NODES = NODES + 0.5


@dataclass(frozen=True)
class Budget:
    """A privacy budget: (epsilon, delta), or rho alone."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    def part(self, share: Fraction) -> Budget:
        """Take a share of every part of it, rounded down: parts whose shares add up to 1 are within the whole together.

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


def _root_down(value: Fraction) -> float:
    found = math.sqrt(value)
    while Fraction(found) ** 2 > value:
        found = math.nextafter(found, 0.0)
    return found


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Compute a delta for which rho-zCDP gives (epsilon, delta)-DP.

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
    """Find the largest rho (rounded down) whose delta at epsilon is at most `delta`."""
    wall = -math.log(delta)
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
    """Find the smallest epsilon (rounded up) that rho-zCDP gives at `delta`."""
    wall = -math.log(delta)
    low, high = 0.0, rho + 2 * math.sqrt(rho * wall)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _log_zcdp_delta(rho, middle) > -wall else (low, middle)
    return high * (1 + 1e-12)


ROUTES = ("pure", "zcdp")  # by which exponential mechanisms share a budget


def exponential_epsilon(budget: Budget, count: int) -> tuple[float, Literal["pure", "zcdp"]]:
    """Share a budget among `count` exponential mechanisms: epsilon / count, or √(8ρ/count), as each is epsilon²/8-zCDP."""
    if budget.rho is not None:
        return _root_down(8 * Fraction(budget.rho) / count), "zcdp"
    assert budget.epsilon is not None
    pure = _down(Fraction(budget.epsilon) / count)
    by_zcdp = _root_down(8 * Fraction(zcdp_rho(budget.epsilon, budget.delta)) / count) if budget.delta else 0.0
    return (pure, "pure") if pure >= by_zcdp else (by_zcdp, "zcdp")


def analytic_mu(epsilon: float, delta: float) -> float:
    """Find the largest mu (rounded down) of a continuous Gaussian that is (epsilon, delta)-DP: Balle & Wang (2018), Theorem 8.

    0 where e^epsilon, or such a mu, is beyond a double.
    """
    if epsilon > 700:
        return 0.0
    target = delta * (1 - 1e-6)  # a million times past what gaussian_delta can be wrong by
    low, high = 1.0, 1.0  # delta grows with mu
    while gaussian_delta(low, epsilon) > target:
        low, high = low / 2, low
        if low < SMALLEST_MU:
            return 0.0
    while gaussian_delta(high, epsilon) <= target:
        low, high = high, high * 2
        if high > LARGEST_MU:
            return low
    while high - low > 1e-12 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(middle, epsilon) <= target else (low, middle)
    return low * (1 - 1e-9)  # past the search's tolerance


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Compute the delta of a continuous Gaussian: Balle & Wang (2018), Theorem 5 and Equation 6, to a part in 1e11 or so.

    Φ(−x) − e^epsilon·Φ(−x − mu) at x = epsilon/mu − mu/2. The two can agree in most of their digits, and more so in the tail:
    nothing is left of a difference of logarithms. As φ(x) = e^epsilon·φ(x + mu), it is φ(x)·(R(x) − R(x + mu)), with Mills'
    ratio R = (1 − Φ)/φ; and R' = x·R − 1, so that a small mu is an integral of positive terms.
    """
    x, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    if x > LAST_TAIL:
        return 0.0
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if mu <= 1:
        at = x + mu * NODES
        return density * mu * float(WEIGHTS @ (1 - at * _mills(at)))
    if x < -5:  # where R is large
        from scipy.special import ndtr  # a line's mechanism is imported on executors, which have no scipy

        return float(ndtr(-x)) - density * float(_mills(far))
    return density * float(_mills(x) - _mills(far))


def joint_delta(mu: float, pure: float, epsilon: float) -> float:
    """Compute the delta of a continuous Gaussian and of pure mechanisms whose epsilons add up to `pure`, adaptively composed.

    Nothing that is pure is worse than randomised response (Kairouz, Oh & Viswanath, 2015), which says the truth with
    probability p = e^pure/(1 + e^pure) and so shifts the loss by pure, or by −pure with probability 1 − p. Pairs that dominate
    each step dominate their composition as a product (Zhu, Dong & Wang, 2022, Theorem 10):
    delta = p·δ(epsilon − pure) + (1 − p)·δ(epsilon + pure), with δ the Gaussian's, at negative epsilons too.
    """
    truth = 1 / (1 + math.exp(-pure))
    return truth * _any_delta(mu, epsilon - pure) + (1 - truth) * _any_delta(mu, epsilon + pure)


def _any_delta(mu: float, epsilon: float) -> float:
    """Compute the Gaussian's delta at any epsilon: as both sides are alike, δ(−ε) = 1 − e^−ε + e^−ε·δ(ε)."""
    if epsilon >= 0:
        return gaussian_delta(mu, epsilon)
    return -math.expm1(epsilon) + math.exp(epsilon) * gaussian_delta(mu, -epsilon)


def joint_mu(epsilon: float, delta: float, pure: float) -> float:
    """Find the largest mu (rounded down) of a continuous Gaussian that is (epsilon, delta)-DP beside pure mechanisms."""
    if pure == 0:
        return analytic_mu(epsilon, delta)
    if pure >= epsilon:
        return 0.0
    low, high = analytic_mu(epsilon - pure, delta), analytic_mu(epsilon, delta)  # basic composition, and no pure ones
    target = delta * (1 - 1e-6)
    while high - low > 1e-12 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if joint_delta(middle, pure, epsilon) <= target else (low, middle)
    return low * (1 - 1e-9)


def _mills(x: Any) -> Any:
    from scipy.special import erfcx

    return math.sqrt(math.pi / 2) * erfcx(x / math.sqrt(2))
