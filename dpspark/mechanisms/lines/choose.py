"""`auto`: which line mechanism to use, from public quantities alone.

Of lines of means, what decides is epsilon·n·var(x), as Alabi et al. found: noise on moments is negligible where it is large;
below that, scores that one record moves little win by far. Of lines of medians it is epsilon·n: where it is small, the depth
wins, which is drawn in one piece and needs no guess of any scale; where it is large, medians over pairs are as precise, and
take a moment where the depth takes seconds. The limits are measured: tests/mechanisms/test_robust_choose.py has the tables.
"""

from __future__ import annotations

import math
from typing import Literal

from dpspark.core.records import Records
from dpspark.mechanisms.lines.calibrate import LineMechanism, Name, calibrate
from dpspark.mechanisms.lines.defaults import ROWS
from dpspark.mechanisms.lines.moments import MomentsLine
from dpspark.mechanisms.lines.plane import Plane
from dpspark.privacy.budget import Budget

EVEN = 1 / 12  # the variance of x spread evenly over its bounds
STRONG = 1500.0  # of epsilon·n·var(x), one row replaced: from here on noise on moments is small
CLEAR = 500.0  # of epsilon·n: from here on medians over pairs are as good as the depth
MOST_DEEP = 2000  # rows of which the depth is found within a second or so


def choose(
    plane: Plane,
    budget: Budget,
    records: Records,
    expected_rows: float | None = None,
    x_variance: float | None = None,
    target: Literal["median", "mean"] = "median",
) -> tuple[Name, str]:
    """The name of a mechanism that aims at the target, and why.

    `x_variance` is a public guess of the variance of x in units of its bounds.
    """
    epsilon = math.sqrt(8 * budget.rho) if budget.rho is not None else budget.epsilon
    assert epsilon is not None
    rows, variance = expected_rows or ROWS, EVEN if x_variance is None else x_variance
    each = epsilon / records.rows * rows
    guess = "" if expected_rows else f" if a group has {ROWS:.0f} rows (release.expected_rows is not set)"
    if target == "median":
        shown = (
            f"epsilon·rows is about {each:,.0f}{guess}" if each >= 10 else f"epsilon·rows is about {each:.2g}{guess}"
        )
        if each < CLEAR and rows <= MOST_DEEP:
            return "depth", f"{shown}: little; the depth is drawn in one piece, and needs no scale of x or y"
        return "exponential", f"{shown}: enough for medians over pairs of rows"
    strength = each * variance
    # Where rows are only added or removed, scores may weigh twice as much.
    doubled = 2 if records.change == "added" and not records.moves else 1
    shown = f"epsilon·rows·var(x) is about {strength:.2g}{guess}"
    if strength < STRONG * doubled:
        return "huber", f"{shown}: too little for noise on moments"
    name = _quieter(plane, budget, records)
    return name, f"{shown}: noise on moments is small, and they give intervals"


def _quieter(plane: Plane, budget: Budget, records: Records) -> Name:
    """The law with the smaller standard deviation."""
    names: list[Name] = ["laplace"] if budget.rho is None and not budget.delta else ["laplace", "gaussian"]
    return min(names, key=lambda name: _deviation(calibrate(name, plane, budget, records)))


def _deviation(mechanism: LineMechanism) -> float:
    assert isinstance(mechanism.kernel, MomentsLine)
    return mechanism.kernel.std(mechanism.kernel.off_diagonal)
