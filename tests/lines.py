"""Line mechanisms for tests: by the name of their kernel, for a plane of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpspark.core.domain import Domain, Numeric
from dpspark.core.records import Records
from dpspark.mechanisms.lines.base import AskedInterval, LineMechanism, LineProblem
from dpspark.mechanisms.lines.plane import Plane
from dpspark.mechanisms.registry import line_of_kernel, lines
from dpspark.privacy.budget import Budget

NAMES = [each.kernel_name for line in lines() for each in line.drawn_by()]
GUESSES = ("expected_rows", "x_variance", "y_spread", "target")


def problem_of(plane: Plane, records: Records, **guesses: Any) -> LineProblem:
    domain = Domain((Numeric("x", *plane.x_bounds), Numeric("y", *plane.y_bounds)))
    return LineProblem(domain, records, guesses.pop("expected_rows", None), plane=plane, **guesses)


def target_of(kernel: str) -> str | None:
    line = line_of_kernel(kernel)
    assert line is not None
    return line.target


def calibrate(name: str, plane: Plane, budget: Budget, records: Records, **given: Any) -> LineMechanism:
    """`given` are options and guesses."""
    line = line_of_kernel(name)
    assert line is not None
    guesses = {key: given.pop(key) for key in GUESSES if key in given}
    return line.for_budget(problem_of(plane, records, **guesses), budget, line.Options(**given))


def with_interval(line: LineMechanism, budget: Budget, level: float, y_spread: float | None = None) -> LineMechanism:
    """The same line, and beside it the sums that `budget` pays for."""
    problem = replace(line.problem, interval=AskedInterval(level, budget), y_spread=y_spread)
    return type(line).for_budget(problem, line.budget, line.options)
