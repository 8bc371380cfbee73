"""What a release is charged with: the events that its extras and its mechanism run, from the calibrated mechanism itself.

Never less than what is run. Groups are parallel: a record is in one of them. Where it may move between two, sensitivities
that cover both, and the samplers' distances in all groups that can change, are in the mechanism already; what is drawn in
each group apart counts twice here.
"""

from __future__ import annotations

import math

from dpspark.core.protection import Protection
from dpspark.mechanisms.base import Mechanism as ByClass
from dpspark.mechanisms.lines.calibrate_interval import sums_distance
from dpspark.mechanisms.lines.descent import UNIT as GRADIENT_UNIT
from dpspark.mechanisms.lines.descent import DescentLine
from dpspark.mechanisms.lines.grouped import GroupedLines
from dpspark.mechanisms.lines.moments import MomentsLine
from dpspark.mechanisms.lines.plane import FINE
from dpspark.mechanisms.lines.spread import UNIT
from dpspark.mechanisms.quantiles.exponential import QuantileRelease, Quantiles
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.events import ROUNDED_UP, Event, Exponential, Gaussian, Pure
from dpspark.spec.choose import Mechanism
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
    if isinstance(mechanism, QuantileRelease):
        return [_quantiles(mechanism.quantiles, groups)]
    if isinstance(mechanism, GroupedLines):
        return [*_line(mechanism), *_interval(mechanism)]
    raise ValueError(f"what a {type(mechanism).__name__} is charged with is not known")


def _quantiles(quantiles: Quantiles, groups: int) -> Event:
    return Exponential(quantiles.epsilon_each, groups * len(quantiles.targets))


def _line(lines: GroupedLines) -> list[Event]:
    """A kernel's own facts. Those that are drawn apart in each group were given half of the budget for each."""
    facts, kernel, groups = lines.line.facts, lines.line.kernel, 2 if lines.records.moves else 1
    samplers = lines.records.groups  # a record's rows may be spread over as many
    if isinstance(kernel, DescentLine):
        loss = facts["sensitivity"]["value"] / kernel.scale * ROUNDED_UP
        if kernel.law == "laplace":
            return [Pure(loss, kernel.steps)]
        distance = distance_from_rounded(2 * kernel.steps, kernel.scale * GRADIENT_UNIT)
        return [Gaussian.of(math.sqrt(kernel.steps) * loss, samplers * distance)]
    if isinstance(kernel, MomentsLine):
        loss = facts["sensitivity"]["value"] / kernel.diagonal * ROUNDED_UP
        if kernel.law == "laplace":
            return [Pure(loss, groups)]
        return [Gaussian.of(loss, samplers * distance_from_rounded(6, kernel.off_diagonal * float(FINE) ** 2))]
    if lines.name == "sufficient_statistics":
        return [Pure(facts["epsilon_each"], groups * facts["draws"])]
    if lines.name == "smooth_sensitivity":
        return [Pure(facts["epsilon_each"], facts["draws"])]
    return [Exponential(facts["epsilon_each"], facts["draws"])]


def _interval(lines: GroupedLines) -> list[Event]:
    """The sums behind intervals. Their sensitivity covers all groups that a record can change."""
    facts = lines.line.interval
    if facts is None:
        return []
    loss = (facts["sensitivity"]["value"] + facts["rounding"]) / facts["scale"] * ROUNDED_UP
    if facts["sensitivity"]["norm"] == "l1":
        return [Pure(loss)]
    return [Gaussian.of(loss, sums_distance(facts["scale"] * UNIT, lines.records))]
