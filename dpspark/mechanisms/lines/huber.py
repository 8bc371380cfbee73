"""Bounded residuals against bounded instruments: an exponential mechanism that looks for the line whose two sums vanish."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.mechanisms.base import option
from dpspark.mechanisms.lines.base import (
    COVER,
    DrawnLines,
    LineMechanism,
    LineProblem,
    Target,
    epsilon_for_draws,
)
from dpspark.mechanisms.lines.defaults import RESIDUAL, ROWS
from dpspark.mechanisms.lines.errors import Drawn, Error, drawn_error, height_of, is_near, rounding_variance
from dpspark.mechanisms.lines.grid import STEP, Grid, lines_for
from dpspark.mechanisms.lines.huber_losses import UNIT, HuberLosses
from dpspark.mechanisms.lines.plane import FINE, Rows, SimpleFit
from dpspark.mechanisms.lines.search import near_lines
from dpspark.mechanisms.lines.spread import Spread
from dpspark.mechanisms.options import CELLS, LINE_CLIP
from dpspark.privacy.budget import Budget
from dpspark.privacy.exponential_draw import draw_near
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.sensitivity import score_spread

WIDE_X = 1 / 16  # x on one side of the middle of [0, 1] have a variance of 1/16 at most; evenly spread ones have 1/12
KNOTS, REACH = (0.1, 0.3, 0.5, 0.7, 0.9), 0.1
SEVERAL_RAMPS, ONE_RAMP = Drawn(1.14, 4.3, 9.0), Drawn(1.10, 4.2, 5.8)


@dataclass(frozen=True)
class HuberLine:
    """A line on the grid, both of its values at once, drawn with weight exp(−exponent·max(|Σψ|, |Σψφ| for every φ)).

    ψ is a record's residual, clipped to ±clip (Huber's score). φ is a ramp of x: its distance from a knot in units of reach,
    clipped to ±1. Least squares is the line where Σψ and Σψφ are 0 without any clipping; with it the line is robust and one
    record moves a sum by at most clip. The score falls off linearly around the best line, so that the private error is of order
    1/(epsilon·n), where a clipped loss has 1/√(epsilon·n); and a clip below the residuals' spread costs next to nothing. With
    several knots some ramp has its slope where the x are, wherever they are; with all of them and clip -> 0 it is the depth.

    Privacy
        Unit         one record: its rows in one group are added, removed or replaced (`records` says which)
        Requires     a fresh secret for the release
        Sensitivity  sensitivity.score_spread: |ψ| <= clip and |φ| <= 1 for every record, line and knot
        Guarantee    epsilon = exponent·spread, or epsilon²/8-zCDP: one draw for the whole line
        Source       Reimherr & Awan (2019), KNG: the K-norm gradient mechanism, with bounded scores; McSherry & Talwar (2007)
        Public       bounds, anchors, candidates, grid, clip, knots, reach, exponent
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_lines.py
    """

    grid: Grid
    exponent: float  # of a score in units of clip
    clip: float  # of a residual, in units of the candidates' range
    knots: tuple[float, ...] = KNOTS  # in units of x's bounds
    reach: float = REACH  # likewise

    @property
    def clip_steps(self) -> int:
        return max(1, round(self.clip * self.grid.cells * STEP))

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows = self.grid.plane.rows(x, y)
        exponent = self.exponent / (self.clip_steps * UNIT) * (1 - 2.0**-50)
        losses = self.losses(rows)
        line = draw_near(
            lambda far: near_lines(losses, self.grid.points, far),
            exponent,
            lambda: random.stream("draws", *labels),
        )
        return self.grid.fit(line)

    def losses(self, rows: Rows) -> HuberLosses:
        return HuberLosses(*self.steps(rows), self.instruments(rows), self.clip_steps, self.grid.points)

    def scores(self, rows: Rows) -> np.ndarray:
        """The score in whole steps, over (value at the first anchor, value at the second).

        A record adds at most clip_steps·UNIT to any of the sums.
        """
        return self.losses(rows).all_lines().reshape(self.grid.points, -1)

    def steps(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Take the grid's steps, but bring a record beyond the clip of every line as near as that: sums stay below 2^53."""
        y, first, second = self.grid.steps(rows)
        most = self.clip_steps + self.grid.cells * (abs(first) + abs(second))
        return np.clip(y, -most, most), first, second

    def instruments(self, rows: Rows) -> np.ndarray:
        """1 and the ramps, in whole steps of 1/UNIT: one a row, one record a column."""
        ramps = [np.clip((rows.x / FINE - knot) / self.reach, -1.0, 1.0) for knot in self.knots]
        return np.rint(np.stack([np.ones(len(rows)), *ramps]) * UNIT)

    def quieter(self, times: float) -> Self:
        return replace(self, exponent=self.exponent * times)

    def error_at(self, of: Spread, x: float, alpha: float) -> Error:
        height = height_of(self.grid.plane)
        sigma, inside = _clipped_residuals(of.residual, self.clip * height)
        scale = self.clip * height / (self.exponent * of.rows * inside)
        law = SEVERAL_RAMPS if len(self.knots) > 1 else ONE_RAMP
        return drawn_error(law, of, x, alpha, sigma, scale, rounding_variance(self.grid, x))

    def is_sharp(self, of: Spread, width: float) -> bool:
        return is_near(self.exponent * of.rows * 0.8, 2, width)


def _clipped_residuals(residual: float, clip: float) -> tuple[float, float]:
    """Compute √(E ψ²) of Huber's scores of normal residuals over the share inside the clip, and that share."""
    if residual * 1e6 < clip:
        return residual, 1.0
    u = clip / residual
    inside = math.erf(u / math.sqrt(2))
    density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    squares = residual**2 * (inside - 2 * u * density) + clip**2 * (1 - inside)
    return math.sqrt(squares) / inside, inside


def clip_for(
    epsilon: float, expected_rows: float | None, y_spread: float | None = None, smoothed: bool = False
) -> float:
    """Choose the clip of Huber's scores, in units of the candidates' range; `y_spread` guesses the residuals' deviation.

    The best clip is half of that or less at epsilon·rows = 100, and all of it at 1500; the error is within 10% of the best from
    half to twice that. Too small a clip makes it a median of residuals, with a floor of 0.75 standard errors; one far above the
    residuals adds noise in proportion. Lines that will be `smoothed` have a clip twice as wide: other groups take the noise
    off, and not that a line is of few residuals or away from that of means.
    """
    usual = RESIDUAL if y_spread is None else y_spread
    share = 0.26 * math.sqrt(epsilon * (expected_rows or ROWS) / 90)
    return usual * min(2.6, max(0.1, 2 * share if smoothed else share))


def ramps_for(epsilon: float, expected_rows: float | None, x_variance: float | None) -> tuple[tuple[float, ...], float]:
    """Knots and reach. x that fill their bounds need one ramp, in the middle; others, or unknown ones, need several.

    A short ramp gives the slope more weight against the noise, the longest is that of least squares: as with the clip.
    """
    if x_variance is None or x_variance < WIDE_X:
        return KNOTS, REACH
    return (0.5,), min(0.5, max(0.12, 0.15 * (epsilon * (expected_rows or ROWS) / 180) ** (1 / 3)))


@dataclass(frozen=True)
class HuberOptions:
    """The options of `huber`."""

    cells: int | None = option(CELLS)
    clip: float | None = option(LINE_CLIP)


@dataclass(frozen=True, kw_only=True)
class HuberLines(DrawnLines):
    """`huber`: for each group a HuberLine."""

    name: ClassVar[str] = "huber"
    kernel_name: ClassVar[str] = "huber"
    words: ClassVar[str] = (
        "A line was drawn for each group; lines with smaller clipped residuals are exponentially more likely."
    )
    target: ClassVar[Target] = "mean"
    Options: ClassVar[type] = HuberOptions
    paid_interval: ClassVar[bool] = True
    slow: ClassVar[bool] = True
    line: HuberLine

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: HuberOptions) -> LineMechanism:
        rows, records = problem.expected_rows, problem.records
        grid = Grid.asked_for(problem.plane, options.cells, rows)
        epsilon, route = epsilon_for_draws(budget, 1)
        spread = score_spread(records.change, records.rows, records.moves)
        replaced = epsilon * 4 / spread  # as if one row were replaced
        clip = options.clip or clip_for(replaced, rows, problem.y_spread, problem.smoothed)
        line = HuberLine(grid, epsilon / spread * COVER, clip, *ramps_for(replaced, rows, problem.x_variance))
        return cls(problem=problem, line=line, route=route, budget=budget, options=options, epsilon_each=epsilon)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        grid, ramps = Grid(problem.plane, facts.whole("cells")), (facts.numbers("knots"), facts.positive("reach"))
        line = HuberLine(grid, facts.positive("exponent"), facts.positive("clip"), *ramps)
        return cls.read_drawn(problem, line, facts, claimed)

    @classmethod
    def _coarser(cls, options: HuberOptions, rows: int, most_cells: int) -> HuberOptions:
        return replace(options, cells=min(options.cells or lines_for(rows), most_cells))

    @property
    def spread(self) -> int:
        return score_spread(self.records.change, self.records.rows, self.records.moves)

    def option_facts(self) -> dict[str, Any]:
        line = self.line
        return {"cells": line.grid.cells, "clip": line.clip, "knots": line.knots, "reach": line.reach}

    @classmethod
    def aim(cls, x: str, y: str, facts: dict[str, Any], height: float | None) -> str:
        text, clip = super().aim(x, y, facts, height), facts.get("clip")
        if height is None or not isinstance(clip, int | float):  # a stranger's
            return text
        return f"{text}, with residuals clipped to ±{clip * height:.3g}: nearer to the median where they are larger"
