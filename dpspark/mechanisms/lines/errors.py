"""How far a private line is from that of the population: two parts, for a group of known size and spread.

Sampling: σ²·(1/n + d²/(n·var x)) at distance d from the mean of x, times what the estimator loses to least squares. Privacy:
the law of the draw around the best line. Of a draw with weight exp(−γ·max|Σψφ|/c) it is, near that line, of one shape, with
the scale c/(γ·n·share of residuals inside the clip); the depth is the limit c -> 0; a median of pairs has a Laplace law, with
the scale of a rank over the density of pairs' values. Residuals are taken as normal. The constants below are measured:
tests/mechanisms/test_intervals.py has the coverage that comes of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from dpspark.mechanisms.lines.depth import DepthLine
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.huber import HuberLine
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import Plane
from dpspark.mechanisms.lines.spread import Spread
from dpspark.mechanisms.lines.widened import WidenedTheilSen


@dataclass(frozen=True)
class Error:
    """At one x, in units of y's bounds: the variance of sampling and rounding; what the draw exceeds with probability alpha."""

    sampling: float
    privacy: float


@dataclass(frozen=True)
class Drawn:
    """Constants of a line drawn in one piece: the efficiency's inverse, and the draw's variance at the mean of x and away."""

    loss: float
    level: float
    slope: float


SEVERAL_RAMPS = Drawn(1.14, 4.3, 9.0)
ONE_RAMP = Drawn(1.10, 4.2, 5.8)
DEPTH = Drawn(1.2, 4.8, 7.5)


def error_at(kernel: Kernel, of: Spread, x: float, alpha: float) -> Error | None:
    """At a scaled x. None: this mechanism has no formula."""
    if isinstance(kernel, HuberLine):
        height = _height(kernel.grid.plane)
        sigma, inside = _clipped_residuals(of.residual, kernel.clip * height)
        scale = kernel.clip * height / (kernel.exponent * of.rows * inside)
        law = SEVERAL_RAMPS if len(kernel.knots) > 1 else ONE_RAMP
        return _drawn(law, of, x, alpha, sigma, scale, _rounding(kernel.grid, x))
    if isinstance(kernel, DepthLine):
        sigma = of.residual * math.sqrt(math.pi / 2)
        scale = 2 * sigma / (kernel.exponent * of.rows)
        return _drawn(DEPTH, of, x, alpha, sigma, scale, _rounding(kernel.grid, x))
    if isinstance(kernel, ExponentialTheilSen):
        return _median(kernel, of, x, alpha)
    return None


def is_sharp(kernel: Kernel, of: Spread, width: float) -> bool:
    """Whether the draw is near the best line: all others together must weigh little against it.

    The best weighs e^(`drop`) times a line far away, of which there are 1/width in each direction.
    """
    if isinstance(kernel, ExponentialTheilSen):
        drop, free = _rank_exponent(kernel, of.rows), 1
    elif isinstance(kernel, HuberLine):
        drop, free = kernel.exponent * of.rows * 0.8, 2
    else:
        assert isinstance(kernel, DepthLine)
        drop, free = kernel.exponent * of.rows / 2, 2
    return drop - free * math.log(1 / min(1.0, width)) > 4


def _height(plane: Plane) -> float:
    low, high = plane.candidate_range
    return high - low


def _clipped_residuals(residual: float, clip: float) -> tuple[float, float]:
    """Of Huber's scores of normal residuals: √(E ψ²) over the share inside the clip, and that share."""
    if residual * 1e6 < clip:
        return residual, 1.0
    u = clip / residual
    inside = math.erf(u / math.sqrt(2))
    density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    squares = residual**2 * (inside - 2 * u * density) + clip**2 * (1 - inside)
    return math.sqrt(squares) / inside, inside


def _rounding(grid: Grid, x: float) -> float:
    """The variance of rounding both of a line's values to the grid: in large groups more than all else."""
    first, last = grid.plane.joint_anchors
    share = (x - first) / (last - first)
    return (_height(grid.plane) / grid.cells) ** 2 / 12 * ((1 - share) ** 2 + share**2)


def _drawn(of_law: Drawn, of: Spread, x: float, alpha: float, sigma: float, scale: float, rounding: float) -> Error:
    away = of.distance(x)
    sampling = of_law.loss * sigma**2 * (1 + away) / of.rows + rounding
    std = scale * math.sqrt(of_law.level + of_law.slope * away)
    return Error(sampling, std * _joint_tail(alpha))


@lru_cache(maxsize=64)
def _joint_tail(alpha: float) -> float:
    """Of one coordinate with density ∝ exp(−max(|u|, |v|)): where (1 + t/2)·e^(−t) is alpha, in standard deviations (2)."""
    t = 1.0
    for _ in range(60):
        t = math.log((1 + t / 2) / alpha)
    return t / 2


def _median(kernel: ExponentialTheilSen, of: Spread, x: float, alpha: float) -> Error:
    """Of pairs' values, drawn at each of the two anchors by itself; a line through them elsewhere."""
    away = of.distance(x)
    pairs = 0.0 if kernel.matchings is None else 2.6 / kernel.matchings
    sampling = (1.12 + 0.66 / (1 + away) + pairs) * of.residual**2 * (1 + away) / of.rows
    first, last = kernel.plane.anchors
    shares = ((last - x) / (last - first), (x - first) / (last - first))
    ends = (_rank_error(kernel, of, anchor, alpha) for anchor in (first, last))
    return Error(sampling, math.hypot(*(share * end for share, end in zip(shares, ends, strict=True))))


def _rank_exponent(kernel: ExponentialTheilSen, rows: float) -> float:
    """γ times the number of pairs."""
    return kernel.exponent * rows / 2 * (1 if kernel.matchings is None else kernel.matchings)


def _rank_error(kernel: ExponentialTheilSen, of: Spread, anchor: float, alpha: float) -> float:
    away = of.distance(anchor)
    # The density of pairs' values at the anchor, times σ√(2π): E 1/√(½ + 2w²), w from the middle of a pair in units of its run.
    density = (0.97 - 0.05 * math.log(1 + away)) / math.sqrt(1 + away)
    scale = math.sqrt(2 * math.pi) * of.residual / (2 * _rank_exponent(kernel, of.rows) * density)
    flat = kernel.width / kernel.cells * _height(kernel.plane) if isinstance(kernel, WidenedTheilSen) else 0.0
    # Even up to `flat`, then exponential.
    beyond = flat + scale * math.log(scale / ((flat + scale) * alpha)) if scale > 0 else 0.0
    return max(beyond, min(flat, (flat + scale) * (1 - alpha)))


@lru_cache(maxsize=64)
def normal_quantile(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)
