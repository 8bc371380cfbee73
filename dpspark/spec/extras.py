"""The extras: what is paid for beside the release itself. Private bounds, squared weights, clipped shares, a row count,
groups' row counts.

Each has its share of the budget; basic composition adds them up.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

from dpspark.core.domain import Domain
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.mechanisms.counts.groups import GroupCounts
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.mechanisms.errors.clip import ResidualBounds
from dpspark.mechanisms.errors.score_bounds import ScoreBounds
from dpspark.mechanisms.gram.base import GramMechanism
from dpspark.mechanisms.gram.noise_model import noise_to_manifest
from dpspark.mechanisms.lines.base import LineMechanism, LineProblem
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism, BoundsProblem
from dpspark.mechanisms.registry import mechanism_named
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Event
from dpspark.spec.choose import Mechanism, problem_of
from dpspark.spec.spec import Spec


@dataclass(frozen=True)
class Extra:
    """One extra: its budget, what it runs, what a manifest says of it, and what `dpspark check` says."""

    name: str
    budget: Budget
    events: tuple[Event, ...]
    facts: dict[str, Any]  # with its budget
    words: str

    @property
    def entry(self) -> dict[str, Any]:
        """Its entry of privacy.spending."""
        return {"stage": self.name, **self.facts}


def extras_of(spec: Spec, mechanism: Mechanism) -> list[Extra]:
    """List a spec's extras, in the order in which they are paid; intervals of lines are their mechanism's own."""
    makers = {
        "bounds": _bounds,
        "squared weights": _squared_weights,
        "diagnostics": _diagnostics,
        "count": _count,
        "group_counts": _group_counts,
        ResidualBounds.name: _residual_bounds,
        ScoreBounds.name: _score_bounds,
    }
    return [make(spec, mechanism.domain) for name, make in makers.items() if name in spec.shares]


def bounds_finder(spec: Spec) -> BoundsMechanism:
    """Make the mechanism that finds the private bounds, by the method that is asked for."""
    asked = spec.bounds_extra
    problem = BoundsProblem(spec.domain, spec.records, axes=spec.axes, options=asked.options)
    return asked.method_class.for_budget(problem, spec.extra_budget("bounds"), None)


def bounds_warnings(spec: Spec) -> list[str]:
    """Warn where private bounds may clip so many rows that it shows: of how many rows there are, the conf alone knows."""
    if not spec.axes:
        return []
    finder, rows = bounds_finder(spec), spec.release.expected_rows
    if finder.enough_rows == 0 or (rows is not None and rows >= finder.enough_rows):
        return []
    if rows is None:
        return [
            f"private bounds by {finder.name} are for {finder.least_rows:,} rows or more, and best from "
            f"{finder.enough_rows:,} on. Say how many there are about: release.expected_rows."
        ]
    return [
        f"private bounds by {finder.name} clip few rows from {finder.enough_rows:,} on; {rows:,} are expected. Clipping may "
        "bias regressions by more than their standard errors: diagnostics would tell."
    ]


def squared_weights(spec: Spec, domain: Domain) -> GramMechanism:
    """Make the same mechanism for the moments of squared weights, within their own share."""
    problem = Problem(domain.with_squared_weights(), spec.records)
    mechanism = cast(type[GramMechanism], mechanism_named("gram", spec.mechanism_name))
    return mechanism.for_budget(problem, spec.extra_budget("squared weights"), None)


def clipped_counts(spec: Spec, domain: Domain) -> ClippedCounts:
    return ClippedCounts.for_budget(Problem(domain, spec.records), spec.extra_budget("diagnostics"))


def counted_rows(spec: Spec) -> RowCount:
    if "count" not in spec.shares:
        return RowCount.public()
    return RowCount.for_budget(Problem(spec.domain, spec.records), spec.extra_budget("count"))


def counted_groups(spec: Spec) -> GroupCounts:
    budget, groups = spec.extra_budget("group_counts"), len(spec.release.group_keys)
    return GroupCounts.for_budget(cast(LineProblem, problem_of(spec)), budget, groups)


def residual_bounds(spec: Spec) -> ResidualBounds:
    """Make the mechanism that finds the clip of each regression's residuals."""
    problem = Problem(spec.domain, spec.records, errors=spec.asked_errors)
    return ResidualBounds.for_budget(problem, spec.extra_budget(ResidualBounds.name))


def _residual_bounds(spec: Spec, domain: Domain) -> Extra:
    found, budget = residual_bounds(spec), spec.extra_budget(ResidualBounds.name)
    words = f"to clip residuals, for standard errors: {found.noise_in_words()}"
    return Extra(ResidualBounds.name, budget, found.events(), {**asdict(budget), **found.facts()}, words)


def score_bounds(spec: Spec) -> ScoreBounds:
    """Make the mechanism that finds the bound of clusters' scores, for each regression."""
    problem = Problem(spec.domain, spec.records, errors=spec.asked_errors)
    return ScoreBounds.for_budget(problem, spec.extra_budget(ScoreBounds.name))


def _score_bounds(spec: Spec, domain: Domain) -> Extra:
    found, budget = score_bounds(spec), spec.extra_budget(ScoreBounds.name)
    words = f"to bound what a cluster adds to standard errors: {found.noise_in_words()}"
    return Extra(ScoreBounds.name, budget, found.events(), {**asdict(budget), **found.facts()}, words)


def _bounds(spec: Spec, domain: Domain) -> Extra:
    finder, budget = bounds_finder(spec), spec.extra_budget("bounds")
    words = f"for the bounds of {', '.join(axis.name for axis in spec.axes)}: {finder.noise_in_words()}"
    return Extra("bounds", budget, finder.events(), {**asdict(budget), **finder.facts()}, words)


def _squared_weights(spec: Spec, domain: Domain) -> Extra:
    assert spec.weight is not None
    squared, budget = squared_weights(spec, domain), spec.extra_budget("squared weights")
    noise = {"noise": noise_to_manifest(squared.noise), "grid_bits": squared.domain.bits}
    facts = {
        **squared.facts(),
        **noise,
        **asdict(budget),
    }  # the budget last: a mechanism's own rho is not what was given to it
    rows = squared.noise.off_diagonal() / spec.weight.upper**2
    words = f"for the moments of squared weights, which standard errors need: ± {rows:.4g} rows of the largest weight"
    return Extra("squared weights", budget, squared.events(), facts, words)


def _diagnostics(spec: Spec, domain: Domain) -> Extra:
    counts, budget = clipped_counts(spec, domain), spec.extra_budget("diagnostics")
    unit = "rows" if spec.weight is None else "in weights"
    words = f"to count clipped values: ± {counts.noise_std:.4g} {unit}, each column and side"
    return Extra("diagnostics", budget, counts.events(), {**asdict(budget), **counts.facts()}, words)


def _count(spec: Spec, domain: Domain) -> Extra:
    counted, budget = counted_rows(spec), spec.extra_budget("count")
    words = f"to count the rows: ± {counted.noise_std:.4g} rows"
    return Extra("count", budget, counted.events(), {**asdict(budget), **counted.facts()}, words)


def _group_counts(spec: Spec, domain: Domain) -> Extra:
    counted, budget = counted_groups(spec), spec.extra_budget("group_counts")
    words = (
        f"to count each group's rows: ± {counted.noise_std:.4g} rows; ± {counted.cells_std:.4g} in cells of all groups"
    )
    return Extra("group_counts", budget, counted.events(), {**asdict(budget), **counted.facts()}, words)


def interval_of(spec: Spec, mechanism: Mechanism) -> Extra | None:
    """Return what a line's intervals take. Their event is among the line's own, after it."""
    if "interval" not in spec.shares:
        return None
    interval, budget = cast(LineMechanism, mechanism).interval, spec.extra_budget("interval")
    if interval is None:  # what the line publishes gives it
        return None
    words = f"for intervals of level {interval.level:g}"
    return Extra("interval", budget, (), {**asdict(budget), **interval.facts()}, words)


def spending(spec: Spec, mechanism: Mechanism) -> list[dict[str, Any]]:
    """Lay out what each part spends, and on what, for the manifest. The mechanism of the release has its own entry there."""
    interval = interval_of(spec, mechanism)
    extras = [*extras_of(spec, mechanism), *([] if interval is None else [interval])]
    # A line that needs no share for its interval has that share, too.
    own = cast(LineMechanism, mechanism).budget if spec.release.kind == "theil_sen" else spec.release_budget
    return [*(extra.entry for extra in extras), {"stage": spec.release.kind, **asdict(own)}]


def spending_lines(spec: Spec, mechanism: Mechanism) -> list[str]:
    """Say the same for `dpspark check`; nothing if there are no extras."""
    interval = interval_of(spec, mechanism)
    extras = [*extras_of(spec, mechanism), *([] if interval is None else [interval])]
    lines = [f"{extra.budget} {extra.words}" for extra in extras]
    asked = spec.asked_errors
    meats = ""
    if asked is not None:
        number = f"{len(asked.texts)} regression{'s' if len(asked.texts) > 1 else ''}"
        meats = f", {asked.share:.0%} of its mu² for the meats of {number}"
    return [*lines, f"{spec.release_budget} for the release itself{meats}"] if lines else []
