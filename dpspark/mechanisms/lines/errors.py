"""How far a private line is from that of the population: two parts, for a group of known size and spread.

Sampling: σ²·(1/n + d²/(n·var x)) at distance d from the mean of x, times what the estimator loses to least squares. Privacy:
the law of the draw around the best line. Of a draw with weight exp(−γ·max|Σψφ|/c) it is, near that line, of one shape, with
the scale c/(γ·n·share of residuals inside the clip); the depth is the limit c -> 0; a median of pairs has a Laplace law, with
the scale of a rank over the density of pairs' values. Residuals are taken as normal. Each kernel has its own formula, with
constants that are measured: tests/mechanisms/test_intervals.py has the coverage that comes of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Protocol

from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import Plane
from dpspark.mechanisms.lines.spread import Spread


@dataclass(frozen=True)
class Error:
    """An error at one x, in units of y's bounds: the variance without the draw; what the draw exceeds with chance alpha."""

    sampling: float
    privacy: float


@dataclass(frozen=True)
class Drawn:
    """Constants of a line drawn in one piece: the efficiency's inverse, and the draw's variance at the mean of x and away."""

    loss: float
    level: float
    slope: float


class KernelWithError(Kernel, Protocol):
    """A kernel of which it is known how far its lines are off, so that an interval can be made."""

    def error_at(self, of: Spread, x: float, alpha: float) -> Error:
        """The error at a scaled x, in a group of this size and spread."""
        ...

    def is_sharp(self, of: Spread, width: float) -> bool:
        """Tell whether the draw is near the best line."""
        ...


def is_near(drop: float, directions: int, width: float) -> bool:
    """Tell whether a draw is near the best line: all others together must weigh little against it.

    The best weighs e^(`drop`) times a line far away, of which there are 1/width in each direction.
    """
    return drop - directions * math.log(1 / min(1.0, width)) > 4


def height_of(plane: Plane) -> float:
    """The candidates' range, in units of y's bounds."""
    low, high = plane.candidate_range
    return high - low


def rounding_variance(grid: Grid, x: float) -> float:
    """The variance of rounding both of a line's values to the grid: in large groups more than all else."""
    first, last = grid.plane.joint_anchors
    share = (x - first) / (last - first)
    return (height_of(grid.plane) / grid.cells) ** 2 / 12 * ((1 - share) ** 2 + share**2)


def drawn_error(
    of_law: Drawn, of: Spread, x: float, alpha: float, sigma: float, scale: float, rounding: float
) -> Error:
    """Predict the error of a line drawn in one piece; `sigma` is of the scores, `scale` of the draw."""
    away = of.distance(x)
    sampling = of_law.loss * sigma**2 * (1 + away) / of.rows + rounding
    std = scale * math.sqrt(of_law.level + of_law.slope * away)
    return Error(sampling, std * _joint_tail(alpha))


@lru_cache(maxsize=64)
def _joint_tail(alpha: float) -> float:
    """Find the tail of one coordinate with density ∝ exp(−max(|u|, |v|)): where (1 + t/2)·e^(−t) is alpha, in its std (2)."""
    t = 1.0
    for _ in range(60):
        t = math.log((1 + t / 2) / alpha)
    return t / 2


@lru_cache(maxsize=64)
def normal_quantile(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)
