"""A line mechanism for a budget. Runs on the driver; what it makes (`kernel`) runs on executors.

Every exponent is what the budget allows or less: by COVER, for the rounding of weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from dpspark.core.domain import Clip, Domain, Numeric
from dpspark.core.records import Change, Records
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.defaults import clip_for, lines_for, ramps_for
from dpspark.mechanisms.lines.depth import DepthLine
from dpspark.mechanisms.lines.descent import UNIT as GRADIENT_UNIT
from dpspark.mechanisms.lines.descent import DescentLine
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.huber import HuberLine
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.moments import MomentsLine
from dpspark.mechanisms.lines.pairs import CELLS
from dpspark.mechanisms.lines.plane import FINE, Plane
from dpspark.mechanisms.lines.smooth import SmoothTheilSen, best_split
from dpspark.mechanisms.lines.sufficient import SufficientStatistics
from dpspark.mechanisms.lines.widened import WidenedTheilSen
from dpspark.privacy.budget import Budget, exponential_epsilon
from dpspark.privacy.calibration import distance_from_rounded, largest_mu
from dpspark.privacy.sensitivity import (
    all_pairs_rank_spread,
    clipped_gradient,
    depth_spread,
    moved_moment,
    pair_rank_spread,
    score_spread,
    second_moment,
    second_moment_l1,
)

COVER = 1 - 2.0**-40
MATCHINGS = 10
WIDTH = 0.01  # of DPWideTheilSen, in units of the candidates' range
STEPS, CLIP = 20, 0.3  # of gradient descent

RANGES: dict[str, tuple[float, float]] = {
    "matchings": (1, 1000),
    "width": (0.0, 1.0),  # of DPWideTheilSen, in units of the candidates' range
    "cells": (1, 1 << 24),
    "clip": (1e-6, 10.0),
    "steps": (1, 10_000),
    "level": (0.5, 0.9999),
    "expected_rows": (1, 1e12),
    "x_variance": (0.0, 0.25),  # of x in units of its bounds
    "y_spread": (1e-6, 1.0),  # standard deviation of residuals, in units of the candidates' range
}

Name = Literal[
    "huber",
    "depth",
    "exponential",
    "all_pairs",
    "widened",
    "smooth_sensitivity",
    "sufficient_statistics",
    "gradient_descent",
    "gaussian",
    "laplace",
]


@dataclass(frozen=True)
class LineMechanism:
    name: Name
    kernel: Kernel
    facts: dict[str, Any]  # for the manifest: every number needed to recompute the guarantee
    interval: dict[str, Any] | None = None  # likewise, of what is paid for an interval


def calibrate(name: Name, plane: Plane, budget: Budget, records: Records, **options: Any) -> LineMechanism:
    """`options` are public: those of RANGES, of which None is the default. The last three are guesses (robust.defaults)."""
    given = {key: value for key, value in options.items() if value is not None}
    for key, value in given.items():
        low, high = RANGES[key]
        if not low <= value <= high:
            raise ConfError(f"mechanism.{key}={value}; expected a number from {low:g} to {high:g}.")
    return _BUILDERS[name](plane, budget, replace(records, grouped=True), given)


def _epsilon_each(budget: Budget, draws: int) -> tuple[float, str]:
    """Of each of some exponential mechanisms: epsilon / draws, or by zCDP √(8ρ/draws), whichever is more."""
    epsilon, route = exponential_epsilon(budget, draws)
    return _enough(epsilon * COVER), route


def _pure_each(budget: Budget, parts: int) -> tuple[float, str]:
    """Of each of some other pure mechanisms, which are epsilon²/2-zCDP."""
    if budget.rho is not None:
        return _enough(math.sqrt(2 * budget.rho / parts) * COVER), "zcdp"
    assert budget.epsilon is not None
    return _enough(budget.epsilon / parts * COVER), "pure"


def _enough(epsilon: float) -> float:
    if not epsilon >= 1e-9:
        raise ConfError(f"epsilon={epsilon:g} for one draw: too little. Use a larger budget.")
    return min(epsilon, 1e6)


def _refuse_private_rows(name: str, records: Records) -> None:
    if not records.public_rows:
        raise ConfError(
            f"mechanism {name} needs the number of rows of each group to be public.\n"
            "Use neighbours: replace_one with the group columns under privacy.fixed and without a unit, or mechanism "
            "exponential."
        )


def _drawn(
    name: Name,
    kernel: ExponentialTheilSen | DepthLine | HuberLine,
    epsilon: float,
    route: str,
    draws: int,
    spread: int,
    **more: Any,
) -> LineMechanism:
    facts = {
        "sampler": "exponential mechanism on a public grid, by exact integer weights, from a secret drawn once",
        "calibration": route,
        "epsilon_each": epsilon,
        "exponent": kernel.exponent,
        "draws": draws,
        "sensitivity": {"value": spread, "norm": "spread of scores"},
        **more,
    }
    return LineMechanism(name, kernel, facts)


def _theil_sen(name: Name, plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    draws, cells = len(plane.anchors), options.get("cells", CELLS)
    epsilon, route = _epsilon_each(budget, draws)
    k: int | None = options.get("matchings", MATCHINGS)
    if name == "all_pairs":
        _refuse_private_rows(name, records)
        k, spread = None, all_pairs_rank_spread(records.rows)
    else:
        assert k is not None
        spread = pair_rank_spread(k, records.rows, records.moves)
    exponent = epsilon / spread * COVER
    if name == "widened":
        width = math.ceil(options.get("width", WIDTH) * cells)
        wide = WidenedTheilSen(plane, exponent, k, cells, width)
        return _drawn(name, wide, epsilon, route, draws, spread, matchings=k, cells=cells, width=width / cells)
    kernel = ExponentialTheilSen(plane, exponent, k, cells)
    return _drawn(name, kernel, epsilon, route, draws, spread, matchings=k, cells=cells)


def _exponential(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    return _theil_sen("exponential", plane, budget, records, options)


def _all_pairs(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    return _theil_sen("all_pairs", plane, budget, records, options)


def _widened(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    return _theil_sen("widened", plane, budget, records, options)


def _smooth(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    _refuse_private_rows("smooth_sensitivity", records)
    draws = len(plane.anchors)
    epsilon, route = _pure_each(budget, draws)
    noise, decay = best_split(epsilon)
    k, cells = options.get("matchings", MATCHINGS), options.get("cells", CELLS)
    kernel = SmoothTheilSen(plane, noise, decay, k, records.rows, cells)
    facts = {
        "sampler": "Student noise with 2 degrees of freedom, by inverting 512-bit numbers, from a secret drawn once",
        "calibration": route,
        "epsilon_each": epsilon,
        "draws": draws,
        "noise": noise,
        "decay": decay,
        "matchings": k,
        "cells": cells,
    }
    return LineMechanism("smooth_sensitivity", kernel, facts)


def _depth(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    epsilon, route = _epsilon_each(budget, 1)
    spread = depth_spread(records.change, records.rows, records.moves)
    grid = Grid(plane, options.get("cells") or lines_for(options.get("expected_rows")))
    kernel = DepthLine(grid, epsilon / spread * COVER)
    return _drawn("depth", kernel, epsilon, route, 1, spread, cells=grid.cells)


def _huber(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    epsilon, route = _epsilon_each(budget, 1)
    spread = score_spread(records.change, records.rows, records.moves)
    rows = options.get("expected_rows")
    grid = Grid(plane, options.get("cells") or lines_for(rows))
    replaced = epsilon * 4 / spread  # as if one row were replaced
    clip = options.get("clip") or clip_for(replaced, rows, options.get("y_spread"))
    knots, reach = ramps_for(replaced, rows, options.get("x_variance"))
    kernel = HuberLine(grid, epsilon / spread * COVER, clip, knots, reach)
    return _drawn("huber", kernel, epsilon, route, 1, spread, cells=grid.cells, clip=clip, knots=knots, reach=reach)


def _sufficient(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    # Where a record moves, groups change by twice as many rows, each as if it were added or removed.
    epsilon, route = _pure_each(budget.part(Fraction(1, 2)) if records.moves else budget, 3)
    kernel = SufficientStatistics(plane, epsilon, records.public_rows, records.rows)
    facts = {
        "sampler": "exact discrete Laplace, from a secret drawn once",
        "calibration": route,
        "epsilon_each": epsilon,
        "draws": 3,
        "scale": kernel.scale,
        "level_scale": kernel.level_scale,
        "rows_are_public": records.public_rows,
    }
    return LineMechanism("sufficient_statistics", kernel, facts)


def _descent(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    steps, size = options.get("steps", STEPS), options.get("clip", CLIP)
    change: Change = "replaced" if records.moves else records.change
    if budget.rho is None and not budget.delta:
        assert budget.epsilon is not None
        clip = Clip("box", size)
        sensitivity = clipped_gradient(clip, 2, change, records.rows)
        scale, route = sensitivity * steps / _enough(budget.epsilon * COVER), "pure"
    else:
        clip = Clip("ball", size)
        sensitivity = clipped_gradient(clip, 2, change, records.rows)
        root, entries = sensitivity * math.sqrt(steps), 2 * steps * records.groups
        mu, route = largest_mu(budget, lambda mu: distance_from_rounded(entries, root / mu * GRADIENT_UNIT))
        scale = root / _enough(mu * COVER)
    law: Literal["gaussian", "laplace"] = "laplace" if clip.shape == "box" else "gaussian"
    facts = {
        "sampler": f"exact discrete {law.capitalize()} in each coordinate and step, from a secret drawn once",
        "calibration": route,
        "steps": steps,
        "clip": {"shape": clip.shape, "size": size},
        "scale": scale,
        "sensitivity": {"value": sensitivity, "norm": "l1" if law == "laplace" else "l2", "of": "one step"},
    }
    return LineMechanism("gradient_descent", DescentLine(plane, law, scale, clip, steps), facts)


UNIT_SQUARE = Domain((Numeric("x", -1.0, 1.0), Numeric("y", -1.0, 1.0)))


def _gaussian(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    if budget.rho is None and not budget.delta:
        raise ConfError("mechanism gaussian needs delta > 0 or rho. Use mechanism laplace.")
    sensitivity = (
        moved_moment(UNIT_SQUARE, records.rows)
        if records.moves
        else second_moment(UNIT_SQUARE, records.change, records.rows)
    )
    step, entries = float(FINE) ** 2, 6 * records.groups
    mu, route = largest_mu(budget, lambda mu: distance_from_rounded(entries, sensitivity.value / mu / 2 * step))
    sigma = sensitivity.value / _enough(mu * COVER)
    off = math.nextafter(sigma / math.sqrt(2), math.inf) if sensitivity.shape == "symmetric" else sigma
    kernel = MomentsLine(plane, "gaussian", sigma, off, records.public_rows, options.get("level", 0.95))
    facts = {
        "sampler": "exact discrete Gaussian on the upper triangle, from a secret drawn once",
        "calibration": route,
        "sigma": sigma,
        "off_diagonal_sigma": off,
        "sensitivity": {"value": sensitivity.value, "norm": sensitivity.shape, "reason": sensitivity.reason},
    }
    return LineMechanism("gaussian", kernel, facts)


def _laplace(plane: Plane, budget: Budget, records: Records, options: dict[str, Any]) -> LineMechanism:
    epsilon, route = _pure_each(budget.part(Fraction(1, 2)) if records.moves else budget, 1)
    change: Change = "either" if records.moves else records.change
    sensitivity = second_moment_l1(UNIT_SQUARE, change, records.rows)
    scale = sensitivity / epsilon * (1 + 1e-12)
    kernel = MomentsLine(plane, "laplace", scale, scale, records.public_rows, options.get("level", 0.95))
    facts = {
        "sampler": "exact discrete Laplace on the upper triangle, from a secret drawn once",
        "calibration": route,
        "scale": scale,
        "sensitivity": {"value": sensitivity, "norm": "l1 of the upper triangle"},
    }
    return LineMechanism("laplace", kernel, facts)


_BUILDERS = {
    "huber": _huber,
    "depth": _depth,
    "exponential": _exponential,
    "all_pairs": _all_pairs,
    "widened": _widened,
    "smooth_sensitivity": _smooth,
    "sufficient_statistics": _sufficient,
    "gradient_descent": _descent,
    "gaussian": _gaussian,
    "laplace": _laplace,
}
