"""What a release is charged with: the events that its extras and its mechanism run, from the calibrated mechanism itself.

Never less than what is run. Groups are parallel: a record is in one of them. Where it may move between two, sensitivities
that cover both, and the samplers' distances in all groups that can change, are in the mechanism already; what is drawn in
each group apart counts twice here.
"""

from __future__ import annotations

from dpspark.core.protection import Protection
from dpspark.mechanisms.base import Mechanism as ByClass
from dpspark.mechanisms.regression.descent import GradientDescent
from dpspark.mechanisms.regression.regressions import DescentRegression, ObjectiveRegression, StatisticsRegression
from dpspark.mechanisms.regression.statistics import GaussianStatistics
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import ROUNDED_UP, Approximate, Event, Gaussian, Pure
from dpspark.spec.choose import INTERVAL_SHARE, Mechanism
from dpspark.spec.extras import extras_of
from dpspark.spec.spec import Spec


def charged_events(spec: Spec, mechanism: Mechanism) -> tuple[Event, ...]:
    """List the events of the whole release, its extras first."""
    extras = [event for extra in extras_of(spec, mechanism) for event in extra.events]
    if isinstance(mechanism, ByClass):
        return (*extras, *mechanism.events())
    return (*extras, *_events(mechanism, spec.release_budget, 2 if spec.records.moves else 1))


def protection(spec: Spec) -> Protection:
    """Whom the release protects. Columns that stay fixed are used only where they keep every group's records in it."""
    by, privacy = spec.release.group_by, spec.privacy
    uses_fixed = privacy.neighbours == "replace_one" and by is not None and not spec.records.moves
    return Protection(privacy.neighbours, privacy.protected, tuple(sorted(by or ())) if uses_fixed else ())


def _events(mechanism: object, budget: Budget, groups: int) -> list[Event]:
    """`groups`: how many a record can change."""
    if isinstance(mechanism, StatisticsRegression):
        return [_statistics(mechanism.statistics)]
    if isinstance(mechanism, ObjectiveRegression):
        rest = budget.part(1 - INTERVAL_SHARE)
        return [_statistics(mechanism.statistics), Approximate(rest.epsilon or 0.0, rest.delta or 0.0)]
    if isinstance(mechanism, DescentRegression):
        return [_descent(mechanism.descent)]
    raise ValueError(f"what a {type(mechanism).__name__} is charged with is not known")


def _statistics(statistics: GaussianStatistics) -> Event:
    return Gaussian.of(statistics.mu * ROUNDED_UP, statistics.distance)


def _descent(descent: GradientDescent) -> Event:
    if descent.law == "gaussian":
        return Gaussian.of(descent.mu * ROUNDED_UP, descent.distance)
    return Pure(descent.sensitivity / descent.scale * ROUNDED_UP, descent.steps)
