"""The cost of several releases together: the least of the ways that are proved, each pessimistic.

basic   what releases claim adds up; those in rho are added first and converted at the delta that the others leave.
zCDP    rho adds up, and is converted once: of everything, or of what has a rho of its own, the rest being added to it.
PLD     privacy loss distributions by dp-accounting; for Gaussians alone the closed form, also dp-accounting's. The distance
        between discrete samplers and rounded Gaussians adds up to H and takes (1 + e^epsilon)·H of delta (MATH §14).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

from dpspark.privacy.budget import gaussian_delta, zcdp_epsilon
from dpspark.privacy.calibration import sampler_delta
from dpspark.privacy.events import Approximate, Charge, Concentrated, Event, Exponential, Gaussian, Pure

# dp-accounting cuts tails of 1e-15 off and convolves in float64: far below this nothing of its delta is sure.
SMALLEST_PLD_DELTA = 1e-12
GRID = 1e-4  # of privacy losses; coarser where losses are so large that there would be more cells than this:
MOST_CELLS = 200_000
AS_GOOD = 1e-5  # a plain sum this close to the least is reported instead: its numbers are those that were asked for

NONE = Decimal("Infinity")


@dataclass(frozen=True)
class Cost:
    """The cost of several releases: epsilon at delta, and the way that proves it."""

    epsilon: Decimal
    delta: Decimal
    how: str


def one_by_one(charges: Sequence[Charge], delta: Decimal) -> Cost:
    """Add up the claims (basic composition). Those in rho cost no delta until the rest of it converts them."""
    budgets = [charge.budget for charge in charges]
    epsilon = sum((decimal(b.epsilon) for b in budgets if b.epsilon is not None), Decimal(0))
    spent = sum((decimal(b.delta) for b in budgets if b.delta is not None), Decimal(0))
    rho = sum((decimal(b.rho) for b in budgets if b.rho is not None), Decimal(0))
    if rho:
        spare = _down(delta - spent)
        epsilon += decimal(zcdp_epsilon(float(rho), spare)) if spare > 0 else NONE
        spent = max(spent, delta)
    return Cost(epsilon, spent, "basic")


def compose(charges: Sequence[Charge], delta: Decimal) -> Cost:
    """Find the least epsilon at `delta`; if none is finite, what the claims add up to."""
    basic = one_by_one(charges, delta)
    least = min((cost for cost in _ways(charges, delta) if cost.delta <= delta), key=_epsilon, default=basic)
    if basic.delta <= delta and basic.epsilon <= least.epsilon * decimal(1 + AS_GOOD):
        return basic
    return least if least.epsilon.is_finite() else basic


def within(charges: Sequence[Charge], epsilon: Decimal, delta: Decimal) -> bool:
    """Tell whether any way stays within (epsilon, delta). The quick ones are tried first."""
    return any(cost.epsilon <= epsilon and cost.delta <= delta for cost in _ways(charges, delta))


def total_rho(charges: Sequence[Charge]) -> Decimal:
    return sum((decimal(charge.rho) for charge in charges), Decimal(0))


def decimal(value: float) -> Decimal:
    """Convert a number as it is written: three charges of 0.1 are 0.3."""
    return Decimal(repr(value))


def _epsilon(cost: Cost) -> Decimal:
    return cost.epsilon


def _ways(charges: Sequence[Charge], delta: Decimal) -> Iterator[Cost]:
    yield one_by_one(charges, delta)
    plain, rest = ([charge for charge in charges if charge.is_bare is bare] for bare in (True, False))
    claims = one_by_one(plain, delta)
    at = _down(delta - claims.delta)
    if at <= 0 or not rest:
        return
    events = tuple(sorted((event for charge in rest for event in charge.events), key=repr))
    alone = all(isinstance(event, Gaussian) for event in events)
    ways: list[tuple[str, Callable[[], float]]] = [
        ("zCDP", lambda: all_concentrated(rest, at)),
        ("zCDP, others added to it", lambda: some_concentrated(rest, at)),
        ("Gaussians together" if alone else "PLD", lambda: by_losses(events, at)),
    ]
    for name, way in ways:
        yield Cost(claims.epsilon + decimal(way()), delta, f"{name}, others added to it" if plain else name)


def all_concentrated(charges: Sequence[Charge], delta: float) -> float:
    """Add up everything as zCDP. (epsilon, delta)-DP is delta-approximate epsilon²/2-zCDP: both parts add up.

    Bun & Steinke (2016), Lemma 8.2.
    """
    left = delta - math.fsum(e.delta for charge in charges for e in charge.events if isinstance(e, Approximate))
    return _concentrated(math.fsum(charge.rho for charge in charges), left)


def some_concentrated(charges: Sequence[Charge], delta: float) -> float:
    """Use zCDP where it pays, for Gaussians and exponential mechanisms; add the others' epsilon and delta."""
    rest = [e for charge in charges for e in charge.events if isinstance(e, Pure | Approximate)]
    rho = math.fsum(
        charge.rho if not any(isinstance(e, Pure | Approximate) for e in charge.events) else _own_rho(charge)
        for charge in charges
    )
    added = math.fsum(e.epsilon * e.count if isinstance(e, Pure) else e.epsilon for e in rest)
    left = delta - math.fsum(e.delta for e in rest if isinstance(e, Approximate))
    return added + _concentrated(rho, left)


def _own_rho(charge: Charge) -> float:
    return math.fsum(e.rho for e in charge.events if not isinstance(e, Pure | Approximate))


def _concentrated(rho: float, delta: float) -> float:
    if rho == 0:
        return 0.0 if delta >= 0 else math.inf
    return zcdp_epsilon(rho * (1 + 1e-12), delta) if delta > 0 else math.inf


@lru_cache(maxsize=64)
def by_losses(events: tuple[Event, ...], delta: float) -> float:
    """Compose privacy loss distributions; infinite if something is known by its rho alone, or delta is too small for them."""
    if any(isinstance(event, Concentrated) for event in events):
        return math.inf
    mu = math.sqrt(math.fsum(event.mu**2 for event in events if isinstance(event, Gaussian))) * (1 + 1e-12)
    distance = math.fsum(event.sampler_distance for event in events if isinstance(event, Gaussian))
    others = tuple(event for event in events if not isinstance(event, Gaussian))
    if not others:
        return _with_samplers(lambda at: gaussian_epsilon(mu, at), distance, delta)
    if delta < SMALLEST_PLD_DELTA:
        return math.inf
    return _with_samplers(_loss_epsilon(mu, others), distance, delta)


def _with_samplers(ideal: Callable[[float], float], distance: float, delta: float) -> float:
    """Find the epsilon at what the samplers leave of delta. They take more at a larger epsilon: guess one that suffices."""
    least = ideal(delta)
    if distance == 0 or not math.isfinite(least):
        return least
    for more in (1e-6, 1e-3, 0.1, 1.0, 10.0):
        left = delta - sampler_delta(distance, least + more)
        found = ideal(left) if left > 0 else math.inf
        if found <= least + more:
            return found
    return math.inf


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Compute the epsilon of a continuous Gaussian, rounded up: Balle & Wang (2018), by dp-accounting."""
    import dp_accounting  # slow to import

    if delta <= 0:
        return math.inf
    found = float(dp_accounting.get_epsilon_gaussian(1 / mu, delta * (1 - 1e-9))) * (1 + 1e-12) + 1e-11
    return found if gaussian_delta(mu, found) <= delta else math.inf


def _loss_epsilon(mu: float, others: tuple[Event, ...]) -> Callable[[float], float]:
    """Compose mixed events: each of the others is worst as randomised response with its epsilon and delta."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    pairs = Counter[tuple[float, float]]()
    for event in others:
        if isinstance(event, Approximate):
            pairs[event.epsilon, event.delta] += 1
        elif isinstance(event, Exponential | Pure):
            pairs[event.epsilon, 0.0] += event.count
        else:
            raise ValueError(f"an event of kind {type(event).__name__} has no place among losses")
    reach = math.fsum(epsilon * count for (epsilon, _), count in pairs.items()) + mu**2 / 2 + 10 * mu
    grid = max(GRID, 2 * reach / MOST_CELLS)
    if max(epsilon for epsilon, _ in pairs) > 700:  # e^epsilon is beyond a double
        return lambda delta: math.inf
    losses = pld.identity(value_discretization_interval=grid)
    for (epsilon, delta), count in pairs.items():
        worst = pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, delta), grid)
        losses = losses.compose(worst.self_compose(count) if count > 1 else worst)
    if mu > 0:
        losses = losses.compose(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid))
    return lambda delta: float(losses.get_epsilon_for_delta(delta))


def _down(value: Decimal) -> float:
    """Convert to a double, rounded towards less delta."""
    nearest = float(value)
    return nearest if Decimal(nearest) <= value else math.nextafter(nearest, -math.inf)
