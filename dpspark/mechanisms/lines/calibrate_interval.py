"""The sums behind a line's interval, for their share of the budget. Runs on the driver."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.calibrate import COVER, LineMechanism, Name
from dpspark.mechanisms.lines.defaults import RESIDUAL
from dpspark.mechanisms.lines.interval import LineWithInterval
from dpspark.mechanisms.lines.plane import Plane
from dpspark.mechanisms.lines.spread import SLACK, UNIT, SpreadSums
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded, largest_mu
from dpspark.privacy.sensitivity import spread_l1, spread_l2

CLIP = 2.0  # of the sums' residuals, in standard deviations as guessed
WITH_INTERVAL: tuple[Name, ...] = ("huber", "depth", "exponential", "all_pairs", "widened")
AT_EACH_CUT: tuple[Name, ...] = ("exponential", "all_pairs", "widened")  # one cut: no slope, and no residuals


def with_interval(
    line: LineMechanism, plane: Plane, budget: Budget, records: Records, level: float, y_spread: float | None = None
) -> LineMechanism:
    """The line's mechanism, and after it the sums that `budget` pays for. `y_spread` is a public guess."""
    if line.name not in WITH_INTERVAL:
        raise ConfError(
            f"release.interval: mechanism {line.name} has none. Use {', '.join(WITH_INTERVAL)} or gram, or remove this key."
        )
    if line.name in AT_EACH_CUT and len(plane.anchors) < 2:
        raise ConfError(f"release.interval: mechanism {line.name} needs two cuts. Give two, or use huber or depth.")
    low, high = plane.candidate_range
    clip = CLIP * (y_spread or RESIDUAL) * (high - low)
    records = replace(records, grouped=True)
    law, scale, sensitivity, route = _noise(budget, records)
    sums = SpreadSums(plane, law, scale, records.public_rows, clip)
    facts = {
        "sampler": f"exact discrete {law.capitalize()} on sums of rows, x, x² and residuals, from a secret drawn once",
        "calibration": route,
        "scale": scale / UNIT,
        "rounding": _slack(records) / UNIT,  # beside the sensitivity: sums are rounded to the grid
        "sensitivity": {"value": sensitivity, "norm": "l1" if law == "laplace" else "l2"},
        "clip": clip,
        "level": level,
    }
    return replace(line, kernel=LineWithInterval(plane, line.kernel, sums, level), interval=facts)


def _noise(budget: Budget, records: Records) -> tuple[Literal["laplace", "gaussian"], float, float, str]:
    """The law with the smaller standard deviation: its scale in steps, the sensitivity in units of 1.0, and the route."""
    slack = _slack(records)
    l1, l2 = (of(records.change, records.rows, records.moves) for of in (spread_l1, spread_l2))
    laplace = math.inf if budget.epsilon is None else (l1 * UNIT + slack) / (budget.epsilon * COVER)
    if budget.rho is not None or budget.delta:
        length = l2 * UNIT + slack
        mu, route = largest_mu(budget, lambda mu: sums_distance(length / mu, records))
        gaussian = length / (mu * COVER)
        if gaussian < math.sqrt(2) * laplace:
            return "gaussian", gaussian, l2, route
    return "laplace", laplace, l1, "pure"


def _slack(records: Records) -> float:
    """What rounding adds to a sensitivity, in steps: in every group that a record has rows in."""
    return SLACK * records.groups


def sums_distance(scale: float, records: Records) -> float:
    """Of the samplers of all groups that a record can change, from rounded Gaussians; `scale` in steps."""
    return distance_from_rounded(4 * records.groups, scale)
