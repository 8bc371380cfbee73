"""The public plane of a simple regression, a group's rows in it, and the line that comes out.

Rows are clipped to the public bounds, scaled to [0, 1]² and rounded to a fine public grid, each by itself. Stability: one row
in, one row out. A line is known by its values at two anchors, which are looked for in a public range of candidates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NoReturn

import numpy as np

FINE = 1 << 26  # steps of a scaled coordinate: products of two, summed over 2^10 rows, are exact in float64

CLOSE = 0.1  # of two anchors, in units of x's bounds
FARTHEST = (
    1e6  # of cuts and candidates, in units of the bounds: beyond, values of lines are no longer doubles, or no numbers
)

Status = Literal["ok", "not_identified", "weakly_identified"]


@dataclass(frozen=True)
class Plane:
    """Bounds of x and y, the x values at which predictions are wanted, and the range in which they are looked for."""

    x_bounds: tuple[float, float]
    y_bounds: tuple[float, float]
    cuts: tuple[float, ...] = ()  # default: the quarter points of x's bounds
    candidates: tuple[float, float] | None = None  # default: y's bounds

    def __post_init__(self) -> None:
        for name in ("x_bounds", "y_bounds", "candidates"):
            pair = getattr(self, name)
            if pair is not None and not (math.isfinite(pair[1] - pair[0]) and pair[0] < pair[1]):
                raise ValueError(f"{name}={pair}; expected two finite numbers, the first below the second")
        if not all(map(math.isfinite, self.cuts)) or len(set(self.cuts)) != len(self.cuts):
            raise ValueError(f"cuts={self.cuts}; expected finite numbers, all different")
        for name, scaled in (("cuts", self.anchors), ("candidates", self.candidate_range)):
            if not all(abs(at) <= FARTHEST for at in scaled):
                raise ValueError(
                    f"{name}={getattr(self, name)}; expected numbers at most {FARTHEST:g} times the bounds away"
                )

    @property
    def wanted(self) -> tuple[float, ...]:
        low, high = self.x_bounds
        return self.cuts or (low + (high - low) / 4, high - (high - low) / 4)

    @property
    def anchors(self) -> tuple[float, ...]:
        """Scaled x of the first and the last cut; the values there give all the others. One cut: that one alone."""
        low, high = self.x_bounds
        ends = (min(self.wanted), max(self.wanted)) if len(self.wanted) > 1 else self.wanted
        return tuple((end - low) / (high - low) for end in ends)

    @property
    def joint_anchors(self) -> tuple[float, float]:
        """Two anchors for mechanisms that draw a line in one piece.

        The quarter points of x's bounds where there is a single cut, or where cuts are so close, or so far outside, that small
        steps of the values there would be large ones of the line.
        """
        first, last = self.anchors[0], self.anchors[-1]
        return (first, last) if last - first >= CLOSE and first >= -1 and last <= 2 else (0.25, 0.75)

    @property
    def candidate_range(self) -> tuple[float, float]:
        """The range of candidates in units of y's bounds."""
        low, high = self.y_bounds
        first, last = self.candidates or self.y_bounds
        return (first - low) / (high - low), (last - low) / (high - low)

    def rows(self, x: np.ndarray, y: np.ndarray) -> Rows:
        return Rows(_scaled(x, self.x_bounds), _scaled(y, self.y_bounds))

    def slope_limit(self) -> float:
        """The steepest line between two candidates, in scaled units."""
        low, high = self.candidate_range
        first, last = self.joint_anchors
        return (high - low) / (last - first)


def _scaled(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Whole steps from 0 to FINE. A NaN, of which none is left here, counts as the middle."""
    low, high = bounds
    shares = (np.clip(np.asarray(values, dtype=float), low, high) - low) / (high - low)
    return np.rint(np.where(np.isnan(shares), 0.5, shares) * FINE).astype(np.int64)


class Rows:
    """A group's rows in whole steps of 1/FINE, sorted by x, then y: their order of arrival leaves no trace."""

    __slots__ = ("x", "y")

    def __init__(self, x: np.ndarray, y: np.ndarray):
        order = np.lexsort((y, x))
        self.x, self.y = x[order], y[order]

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        return "Rows(not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Rows are private: release them through a mechanism")


@dataclass(frozen=True)
class SimpleFit:
    """A released line. Intervals are NaN where the mechanism's output alone supports none."""

    x: tuple[float, ...]
    estimate: tuple[float, ...]
    ci_low: tuple[float, ...]
    ci_high: tuple[float, ...]
    slope: float
    intercept: float
    status: Status


def line_fit(
    plane: Plane,
    anchors: tuple[float, ...],
    values: tuple[float, ...],
    status: Status = "ok",
    half_widths: tuple[float, ...] | None = None,
) -> SimpleFit:
    """Turn scaled values at scaled anchors into predictions in original units. Post-processing: no cost."""
    x_low, x_high = plane.x_bounds
    y_low, y_high = plane.y_bounds
    height, width = y_high - y_low, x_high - x_low
    wanted = plane.wanted
    if len(anchors) == 1:
        slope = intercept = math.nan
        estimate = [y_low + height * values[0]] * len(wanted)
    else:
        steep = (values[1] - values[0]) / (anchors[1] - anchors[0])
        estimate = [y_low + height * (values[0] + steep * ((cut - x_low) / width - anchors[0])) for cut in wanted]
        slope = steep * height / width
        intercept = y_low + height * (values[0] + steep * (-x_low / width - anchors[0]))
    half = [math.nan] * len(wanted) if half_widths is None else [height * h for h in half_widths]
    return SimpleFit(
        wanted,
        tuple(estimate),
        tuple(e - h for e, h in zip(estimate, half, strict=True)),
        tuple(e + h for e, h in zip(estimate, half, strict=True)),
        slope,
        intercept,
        status,
    )


def no_fit(plane: Plane) -> SimpleFit:
    """The noise left no line. The budget is spent all the same."""
    none = (math.nan,) * len(plane.wanted)
    return SimpleFit(plane.wanted, none, none, none, math.nan, math.nan, "not_identified")


def exact_sum(products: np.ndarray) -> int:
    """Add up whole numbers up to 2^54 in size, however many: high and low halves by themselves."""
    return (int((products >> 27).sum()) << 27) + int((products & ((1 << 27) - 1)).sum())
