"""`auto`: which line mechanism to use, from public quantities alone.

What decides is epsilon·n·var(x), as Alabi et al. found: noise on moments is negligible where it is large. Below that, scores
that one record moves little win by far; and where it is next to nothing, the depth, which needs no guess of any scale, does.
The two limits are measured: tests/unit/test_robust_choose.py has the table.
"""

from __future__ import annotations

import math

from dpspark.privacy.budget import Budget
from dpspark.robust.calibrate import LineMechanism, Name, Records, calibrate
from dpspark.robust.defaults import ROWS
from dpspark.robust.gram import MomentsLine
from dpspark.robust.plane import Plane

EVEN = 1 / 12  # the variance of x spread evenly over its bounds
FAINT, STRONG = 2.0, 1500.0  # of epsilon·n·var(x), one row replaced


def choose(
    plane: Plane,
    budget: Budget,
    records: Records,
    expected_rows: float | None = None,
    x_variance: float | None = None,
) -> tuple[Name, str]:
    """A mechanism's name, and why. `x_variance` is a public guess of the variance of x in units of its bounds."""
    epsilon = math.sqrt(8 * budget.rho) if budget.rho is not None else budget.epsilon
    assert epsilon is not None
    rows, variance = expected_rows or ROWS, EVEN if x_variance is None else x_variance
    # Where rows are only added or removed, scores and depths may weigh twice as much.
    strength = epsilon / records.rows_per_record * rows * variance
    doubled = 2 if records.change == "added" and not records.moves else 1
    guess = "" if expected_rows else f" if a group has {ROWS:.0f} rows (release.expected_rows is not set)"
    shown = f"epsilon·rows·var(x) is about {strength:.2g}{guess}"
    if strength * doubled < FAINT:
        return "depth", f"{shown}: little; the depth needs no scale of x or y"
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
