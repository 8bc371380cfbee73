"""The mechanism of a theil_sen release: which kernel runs on each group, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from dpspark.core.domain import Domain, Numeric
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.calibrate import LineMechanism, Name, calibrate
from dpspark.mechanisms.lines.calibrate_interval import with_interval
from dpspark.mechanisms.lines.choose import choose as choose_line
from dpspark.mechanisms.lines.defaults import ROWS_PER_BUCKET
from dpspark.mechanisms.lines.plane import Plane
from dpspark.privacy.budget import Budget
from dpspark.spec.mechanism import target_of
from dpspark.spec.spec import Spec

ON_A_GRID = ("depth", "huber")  # of lines: with the square of `cells`
MOST_GRID_CELLS = 2000
WITH_MOMENTS = ("gaussian", "laplace")
BUCKETED = ("exponential", "widened")  # whose pairs can be found bucket by bucket


@dataclass(frozen=True)
class GroupedLines:
    """One line for each group, all with the whole budget: a row is in one group (parallel composition).

    Privacy
        Unit         one record (or person: `records` says how many rows that is, in one group or several); where a replaced
                     one may move to other groups, twice as many rows change
        Requires     a public list of groups; rows of other groups are not used
        Guarantee    that of the kernel, for all groups together
        Public       the list of groups, bounds, cuts, the kernel's options
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_*.py, tests/releasing/test_theil_sen.py
    """

    domain: Domain
    plane: Plane
    line: LineMechanism
    records: Records
    reason: str  # why `auto` chose it; empty if it was named
    budget: Budget  # of the line alone, less what its interval takes
    buckets: int = 1  # of a table without groups: how many tasks share its rows

    @property
    def count_is_public(self) -> bool:
        return self.records.public_rows

    @property
    def name(self) -> str:
        return self.line.name

    def for_domain(self, domain: Domain) -> GroupedLines:
        raise NotImplementedError("bounds of lines are public")

    def facts(self) -> dict[str, Any]:
        return {
            **self.line.facts,
            "kernel": self.line.name,
            "target": target_of(self.line.name),
            **({"chosen": self.reason} if self.reason else {}),
            "composition": self.records.composition,
            "cuts": list(self.plane.wanted),
            **({"buckets": self.buckets} if self.buckets > 1 else {}),
        }


def choose_lines(spec: Spec) -> GroupedLines:
    domain, release, options = spec.domain, spec.release, spec.options
    x, y = domain.columns
    assert isinstance(x, Numeric)
    assert isinstance(y, Numeric)
    try:
        plane = Plane((x.lower, x.upper), (y.lower, y.upper), release.cuts or (), release.candidates)
    except ValueError as error:
        raise ConfError(f"release: {error}.") from None
    low, high = plane.candidate_range
    if not (high - low > 1e-5 and len(set(plane.joint_anchors)) == 2 and len(set(plane.anchors)) == len(plane.anchors)):
        raise ConfError("release: cuts or candidates are too close together for the bounds of the columns.")
    if spec.mechanism_name in ON_A_GRID and (options.cells or 0) > MOST_GRID_CELLS:
        raise ConfError(f"mechanism.cells={options.cells}; for lines on a grid at most {MOST_GRID_CELLS}.")
    buckets = 1
    if release.group_by is None:
        buckets = -(-(release.expected_rows or 1) // ROWS_PER_BUCKET)
    # A replaced row may leave its bucket for another, as one may leave its group.
    moves = spec.records.moves or (buckets > 1 and spec.records.change != "added")
    records = replace(spec.records, moves=moves, grouped=True)
    name, reason = spec.mechanism_name, ""
    if name == "auto" and buckets > 1 and spec.target == "median":
        name, reason = "exponential", f"{release.expected_rows:,} expected rows are too many for one task"
    elif name == "auto":
        guesses = release.expected_rows, release.x_variance
        name, reason = choose_line(plane, spec.release_budget, records, *guesses, spec.target)
    elif name == "gram":
        name = "gaussian" if spec.privacy.rho is not None or spec.privacy.delta is not None else "laplace"
    if buckets > 1 and name not in BUCKETED:
        raise ConfError(
            f"mechanism {name}: {release.expected_rows:,} expected rows are too many for one line without groups.\n"
            f"Use mechanism exponential, which aims at medians, or kind regression, of means."
        )
    line, budget = _calibrated(spec, cast(Name, name), plane, records)
    return GroupedLines(domain, plane, line, records, reason, budget, buckets)


def _calibrated(spec: Spec, name: Name, plane: Plane, records: Records) -> tuple[LineMechanism, Budget]:
    """The mechanism, with its interval if that is asked for, and what the line itself may spend."""
    release, options = spec.release, spec.options
    given = {key: getattr(options, key, None) for key in ("matchings", "cells", "width", "clip", "steps")}
    guesses = {key: getattr(release, key) for key in ("expected_rows", "x_variance", "y_spread")}
    budget, interval = spec.release_budget, release.interval
    if interval is None:
        return calibrate(name, plane, budget, records, **given, **guesses), budget
    if name in WITH_MOMENTS:
        # Moments hold all that an interval needs: it takes no share.
        others = sum(share for stage, share in spec.shares.items() if stage != "interval")
        budget = spec.privacy.budget.part(1 - Fraction(others))
        return calibrate(name, plane, budget, records, level=interval.level, **given, **guesses), budget
    line = calibrate(name, plane, budget, records, **given, **guesses)
    part = spec.stage_budget("interval")
    return with_interval(line, plane, part, records, interval.level, release.y_spread), budget
