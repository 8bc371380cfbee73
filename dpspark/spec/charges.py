"""What a release is charged with: the events that its stages and its mechanism run, from the calibrated mechanism itself.

Never less than what is run. Groups are parallel: a record is in one of them. Where it may move between two, sensitivities
that cover both, and the samplers' distances in all groups that can change, are in the mechanism already; what is drawn in
each group apart counts twice here.
"""

from __future__ import annotations

import math

from dpspark.core.protection import Protection
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.mechanisms.lines.calibrate_interval import sums_distance
from dpspark.mechanisms.lines.gradient_descent import UNIT as GRADIENT_UNIT
from dpspark.mechanisms.lines.gradient_descent import DescentLine
from dpspark.mechanisms.lines.grouped import GroupedLines
from dpspark.mechanisms.lines.gram import MomentsLine
from dpspark.mechanisms.lines.plane import FINE
from dpspark.mechanisms.lines.spread import UNIT
from dpspark.mechanisms.quantiles.exponential import QuantileRelease, Quantiles
from dpspark.mechanisms.regression.descent import GradientDescent
from dpspark.mechanisms.regression.regressions import DescentRegression, ObjectiveRegression, StatisticsRegression
from dpspark.mechanisms.regression.statistics import GaussianStatistics
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.events import ROUNDED_UP, Approximate, Event, Exponential, Gaussian, Pure
from dpspark.releasing.extras import bound_quantiles, clipped_counts, counted_rows
from dpspark.spec.choose import INTERVAL_SHARE, Mechanism, choose_squared_weights
from dpspark.spec.spec import Spec


def charged_events(spec: Spec, mechanism: Mechanism) -> tuple[Event, ...]:
    """Of the whole release, its stages first."""
    groups = 2 if spec.records.moves else 1
    found: list[Event] = []
    if spec.axes:
        found.append(_quantiles(bound_quantiles(spec), 1))
    if "squared weights" in spec.shares:
        found += _events(choose_squared_weights(spec, mechanism.domain), spec.stage_budget("squared weights"), groups)
    if spec.diagnostics is not None:
        found.append(_counts(clipped_counts(spec, mechanism.domain)))
    if "count" in spec.shares:
        found.append(_counts(counted_rows(spec)))
    return (*found, *_events(mechanism, spec.release_budget, groups))


def protection(spec: Spec) -> Protection:
    """Whom the release protects. Columns that stay fixed are used only where they keep every group's records in it."""
    by, privacy = spec.release.group_by, spec.privacy
    uses_fixed = privacy.neighbours == "replace_one" and by is not None and not spec.records.moves
    return Protection(privacy.neighbours, privacy.protected, tuple(sorted(by or ())) if uses_fixed else ())


def _events(mechanism: object, budget: Budget, groups: int) -> list[Event]:
    """`groups`: how many a record can change."""
    if isinstance(mechanism, GaussianGram):
        return [Gaussian.of(mechanism.mu * ROUNDED_UP, mechanism.eta)]
    if isinstance(mechanism, LaplaceGram):  # two rows' sensitivity where records move: both groups are in it
        return [Pure(mechanism.epsilon * ROUNDED_UP)]
    if isinstance(mechanism, QuantileRelease):
        return [_quantiles(mechanism.quantiles, groups)]
    if isinstance(mechanism, GroupedLines):
        return [*_line(mechanism), *_interval(mechanism)]
    if isinstance(mechanism, StatisticsRegression):
        return [_statistics(mechanism.statistics)]
    if isinstance(mechanism, ObjectiveRegression):
        rest = budget.part(1 - INTERVAL_SHARE)
        return [_statistics(mechanism.statistics), Approximate(rest.epsilon or 0.0, rest.delta or 0.0)]
    if isinstance(mechanism, DescentRegression):
        return [_descent(mechanism.descent)]
    # Wishart, Johnson-Lindenstrauss and inverse-Wishart draws, adaptive or not: by their (epsilon, delta).
    assert budget.epsilon is not None
    assert budget.delta
    return [Approximate(budget.epsilon, budget.delta)]


def _quantiles(quantiles: Quantiles, groups: int) -> Event:
    return Exponential(quantiles.epsilon_each, groups * len(quantiles.targets))


def _counts(counts: ClippedCounts | RowCount) -> Event:
    loss = counts.sensitivity / counts.scale * ROUNDED_UP
    return Pure(loss) if counts.law == "laplace" else Gaussian.of(loss, counts.eta)


def _statistics(statistics: GaussianStatistics) -> Event:
    return Gaussian.of(statistics.mu * ROUNDED_UP, statistics.distance)


def _descent(descent: GradientDescent) -> Event:
    if descent.law == "gaussian":
        return Gaussian.of(descent.mu * ROUNDED_UP, descent.distance)
    return Pure(descent.sensitivity / descent.scale * ROUNDED_UP, descent.steps)


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
