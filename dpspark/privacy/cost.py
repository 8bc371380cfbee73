"""The cost of one paid part of a release, from its scales, and whether that is within what it claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dpspark.privacy.budget import Budget, gaussian_delta, joint_delta, zcdp_delta
from dpspark.privacy.calibration import sampler_delta
from dpspark.privacy.events import Approximate, Event, Exponential, Gaussian, Pure

ROUNDING = 1e-9  # relative: what the order of a few float operations can change


@dataclass(frozen=True)
class Cost:
    """The smallest delta at each epsilon, and what else is known: rho of zCDP, or a pure epsilon."""

    delta_at: Callable[[float], float]
    rho: float | None = None
    pure: float | None = None

    def within(self, budget: Budget) -> bool:
        """Tell whether the cost is within a budget."""
        if budget.rho is not None:
            return self.rho is not None and self.rho <= budget.rho * (1 + ROUNDING)
        assert budget.epsilon is not None
        if self.pure is not None and self.pure <= budget.epsilon * (1 + ROUNDING):
            return True
        if not budget.delta:
            return False
        # Of a large epsilon, what its last digits change is many times as much of delta.
        return self.delta_at(budget.epsilon * (1 + ROUNDING)) <= budget.delta * (1 + ROUNDING)

    def shown(self, budget: Budget) -> str:
        """Write the cost in the currency of the budget."""
        if budget.rho is not None:
            return "no rho" if self.rho is None else f"rho={self.rho:.6g}"
        if not budget.delta:
            return "no pure epsilon" if self.pure is None else f"epsilon={self.pure:.6g}"
        rho = "" if self.rho is None else f"rho={self.rho:.6g}, "
        return f"{rho}epsilon={self.epsilon_at(budget.delta):.6g} at delta={budget.delta:g}"

    def epsilon_at(self, delta: float) -> float:
        """Find the least epsilon at which delta holds."""
        low, high = 0.0, 1e-9
        while self.delta_at(high) > delta:
            low, high = high, high * 2
            if high > 1e6:
                return math.inf
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta_at(middle) > delta else (low, middle)
        return high


def gaussian_cost(mu: float, distance: float) -> Cost:
    """Price Gaussian noise by the better of two proofs at each epsilon. `distance`: the sampler's from a rounded Gaussian."""

    def delta_at(epsilon: float) -> float:
        analytic = gaussian_delta(mu, epsilon) + sampler_delta(distance, epsilon)
        return min(1.0, analytic, zcdp_delta(mu**2 / 2, epsilon))

    return Cost(delta_at, rho=mu**2 / 2)


def joint_cost(mu: float, distance: float, pure: float) -> Cost:
    """Price Gaussian noise together with one exponential mechanism, pure with epsilon `pure`, before, between or after it."""

    def delta_at(epsilon: float) -> float:
        analytic = joint_delta(mu, pure, epsilon) + sampler_delta(distance, epsilon)
        return min(1.0, analytic, zcdp_delta(mu**2 / 2 + pure**2 / 8, epsilon))

    return Cost(delta_at, rho=mu**2 / 2 + pure**2 / 8)


def profile_cost(profile: Callable[[float], float], replaced: bool) -> Cost:
    """Price a mechanism by its profile for one added row; a replaced one by group privacy: (2ε, (1 + e^ε)·δ)."""
    if not replaced:
        return Cost(profile)
    return Cost(lambda epsilon: min(1.0, (1 + math.exp(min(epsilon / 2, 700))) * profile(epsilon / 2)))


def pure_cost(epsilons: Iterable[float], exponential: bool = False) -> Cost:
    """Price pure mechanisms one after the other: their sum, or ε²/2-zCDP each; ε²/8 for an exponential mechanism."""
    each = list(epsilons)
    total = sum(each)
    rho = sum(epsilon**2 for epsilon in each) / (8 if exponential else 2)

    def delta_at(epsilon: float) -> float:
        return 0.0 if total <= epsilon else zcdp_delta(rho, epsilon)

    return Cost(delta_at, rho=rho, pure=total)


def cost_of(events: Iterable[Event]) -> Cost:
    """Price what one paid part ran: one event. Several are refused, as is one that is not known here.

    Who runs several composes them by a proof of its own; parts that are paid for apart are priced apart.
    """
    found = tuple(events)
    if len(found) != 1:
        raise ValueError(f"expected one event, and there are {len(found)}: each paid part is priced by itself")
    return _cost_of(found[0])


def _cost_of(event: Event) -> Cost:
    if isinstance(event, Gaussian):
        return gaussian_cost(event.mu, event.sampler_distance)
    if isinstance(event, Exponential):
        return pure_cost([event.epsilon] * event.count, exponential=True)
    if isinstance(event, Pure):
        return pure_cost([event.epsilon] * event.count)
    if isinstance(event, Approximate):
        return Cost(lambda epsilon: event.delta if epsilon >= event.epsilon else 1.0)
    raise ValueError(f"an event of kind {type(event).__name__} has no price here")


@dataclass(frozen=True)
class PaidPart:
    """One paid part of a release, recomputed: how far one record moves what it publishes, its cost, its claim."""

    name: str
    sensitivity: float
    norm: str
    cost: Cost
    claimed: Budget
    differs: tuple[str, ...] = ()  # what the manifest says of it and is not so
    notes: tuple[str, ...] = ()  # what was taken on trust

    @property
    def holds(self) -> bool:
        return self.cost.within(self.claimed)


def same(stated: float, found: float) -> bool:
    """Tell whether two numbers are the same but for rounding."""
    return abs(stated - found) <= ROUNDING * abs(found)
