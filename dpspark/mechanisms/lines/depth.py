"""Regression depth as the score of an exponential mechanism over lines."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.mechanisms.base import option
from dpspark.mechanisms.lines.base import COVER, DrawnLines, LineMechanism, LineProblem, Target, epsilon_for_draws
from dpspark.mechanisms.lines.errors import Drawn, Error, drawn_error, is_near, rounding_variance
from dpspark.mechanisms.lines.grid import Grid, lines_for
from dpspark.mechanisms.lines.plane import Rows, SimpleFit
from dpspark.mechanisms.lines.search import in_blocks, near_lines
from dpspark.mechanisms.lines.spread import Spread
from dpspark.mechanisms.options import CELLS
from dpspark.privacy.budget import Budget
from dpspark.privacy.exponential_draw import draw_near
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.sensitivity import depth_spread

LAW = Drawn(1.2, 4.8, 7.5)
ROW_BY_ROW = 350  # lines from which adding up row by row is faster


@dataclass(frozen=True)
class DepthLine:
    """A line on the grid, both of its values at once, drawn with weight exp(exponent·depth).

    The depth of a line (Rousseeuw & Hubert, 1999): the least number of records to remove before it is no fit, i.e. before all
    residuals change sign at one x. Needs no pairs, no k, no scale of residuals.

    Privacy
        Unit         one record: its rows in one group are added, removed or replaced (`records` says which)
        Requires     a fresh secret for the release
        Sensitivity  sensitivity.depth_spread: an added record raises depths by 0 or 1, a replaced one moves them by 1
        Guarantee    epsilon = exponent·spread, or epsilon²/8-zCDP: one draw for the whole line
        Source       depth: Rousseeuw & Hubert (1999); McSherry & Talwar (2007), and for added records the monotone case
        Public       bounds, anchors, candidates, grid, exponent
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_lines.py
    """

    grid: Grid
    exponent: float

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        losses = DepthLosses(self.grid, self.grid.plane.rows(x, y))
        line = draw_near(
            lambda far: near_lines(losses, self.grid.points, far),
            self.exponent,
            lambda: random.stream("draws", *labels),
        )
        return self.grid.fit(line)

    def quieter(self, times: float) -> Self:
        return replace(self, exponent=self.exponent * times)

    def error_at(self, of: Spread, x: float, alpha: float) -> Error:
        sigma = of.residual * math.sqrt(math.pi / 2)
        scale = 2 * sigma / (self.exponent * of.rows)
        return drawn_error(LAW, of, x, alpha, sigma, scale, rounding_variance(self.grid, x))

    def is_sharp(self, of: Spread, width: float) -> bool:
        return is_near(self.exponent * of.rows / 2, 2, width)


class DepthLosses:
    """Minus the depths of lines, and bounds of them for squares of lines.

    With p records whose residual is >= 0 for some line of a square, n with <= 0 for some, and D_j the difference of both among
    the first j by x, no line in it is deeper than min(n + min_j D_j, p − max_j D_j): each record counts wherever it can.
    """

    def __init__(self, grid: Grid, rows: Rows):
        self.grid, self.rows = grid, rows
        y, first, second = grid.steps(rows)
        sure = (grid.cells + 1) * (abs(first) + abs(second)) + 1  # beyond, no line changes the sign
        self._wide = abs(first) + abs(second)
        self._steps = np.stack([np.clip(y, -sure, sure), -first, -second], axis=1).astype(float)
        largest = (sure + 2 * grid.points * self._wide).max(initial=0)
        self._kind: type[np.floating[Any]] = np.float32 if largest < 1 << 24 else np.float64  # exact, in any order
        last = np.append(rows.x[1:] != rows.x[:-1], True)
        self._splits = None if last.all() else np.flatnonzero(last)

    def span(self) -> int:
        return len(self.rows) // 6

    def many(self) -> int:
        return self.grid.points**2 // 2 if len(self.rows) else 0

    def all_lines(self) -> np.ndarray:
        return -line_depths(self.grid, self.rows).astype(np.int64).ravel()

    def bounds(self, i: np.ndarray, j: np.ndarray, half: int) -> np.ndarray:
        reach = np.zeros_like(self._steps)
        reach[:, 0] = half * self._wide
        high, low = ((self._steps + sign * reach).astype(self._kind) for sign in (1, -1))

        def deepest(lines: np.ndarray) -> np.ndarray:
            above = high @ lines
            return self._depths(above, low @ lines if half else above)

        return -in_blocks(deepest, i, j, len(self.rows), 3, self._kind)

    def _depths(self, high: np.ndarray, low: np.ndarray) -> np.ndarray:
        kind = _kind(len(self.rows))
        up, down = high >= 0, low <= 0
        downs = np.add.reduce(down, axis=1, dtype=kind)
        sums = np.subtract(up, down, dtype=kind)
        if sums[:, 0].size < ROW_BY_ROW:
            np.add.accumulate(sums, axis=1, out=sums)
        else:
            for before, row in itertools.pairwise(sums.swapaxes(0, 1)):
                row += before
        ups = downs + sums[:, -1]
        if self._splits is not None:
            sums = sums[:, self._splits]
        return np.minimum(downs + np.minimum(sums.min(axis=1), 0), ups - np.maximum(sums.max(axis=1), 0))


def _kind(n: int) -> np.dtype[Any]:
    """Choose the shortest whole numbers that hold n."""
    return np.dtype(np.int8 if n <= 126 else np.int16 if n <= 32766 else np.int32)


def line_depths(grid: Grid, rows: Rows) -> np.ndarray:
    """The depth of every line, as a matrix over (value at the first anchor, value at the second).

    With s_i the sign of a residual, S_j the sum of the first j signs by x, P = #{s >= 0} and N = #{s <= 0}, the depth is
    min(N + min_j S_j, P − max_j S_j), over j that do not split records with one x.
    """
    n, points = len(rows), grid.points
    kind = _kind(n)
    sums, least, most, zeros = (np.zeros((points, points), dtype=kind) for _ in range(4))
    if n == 0:
        return sums
    upto, falls, touches = _flips(grid, rows)
    last_of_x = np.append(rows.x[1:] != rows.x[:-1], True)
    tables = _tables(points, kind)
    signs = np.empty((points, points), dtype=kind)
    for i in range(n):
        np.take(tables[falls[i]], upto[i], axis=0, out=signs, mode="clip")
        if touches[i] is not None:
            signs += touches[i]
            zeros += touches[i]
        sums += signs
        if last_of_x[i]:
            np.minimum(least, sums, out=least)
            np.maximum(most, sums, out=most)
    # P = (n + S + Z)/2 and N = (n − S + Z)/2, Z of the residuals being 0.
    total, zeros = sums.astype(np.int32), zeros.astype(np.int32)
    return np.minimum((n - total + zeros) // 2 + least, (n + total + zeros) // 2 - most)


@lru_cache(maxsize=1)
def _tables(points: int, kind: np.dtype[Any]) -> list[np.ndarray]:
    """Make two tables of signs along the second anchor's values. In row t they change at t: to +1, and to −1."""
    before = np.arange(points) < np.arange(points + 1)[:, None]
    return [np.where(before, sign, -sign).astype(kind) for sign in (-1, 1)]


def _flips(grid: Grid, rows: Rows) -> tuple[np.ndarray, np.ndarray, list[np.ndarray | None]]:
    """Find where each record's residual turns positive or stops being so, at each value of the first anchor.

    With `falls` it is positive before `upto`, else from `upto` on. Also which lines go through the record exactly, if any.
    """
    y, first, second = grid.steps(rows)
    points = grid.points
    left = y[:, None] - first[:, None] * np.arange(points)  # the residual is left − second·j
    size = np.where(second == 0, 1, second)[:, None]
    falls = second >= 0
    quotient, rest = np.divmod(left, size)  # floor
    upto = np.where(falls[:, None], quotient + (rest != 0), quotient + 1)
    flat = second == 0
    upto[flat] = np.where(left[flat] > 0, points, 0)
    zero = (rest == 0) & (quotient >= 0) & (quotient < points)
    zero[flat] = left[flat] == 0
    touches: list[np.ndarray | None] = [None] * len(y)
    for i in np.flatnonzero(zero.any(axis=1)).tolist():
        touches[i] = zero[i][:, None] & (flat[i] | (quotient[i][:, None] == np.arange(points)))
    return np.clip(upto, 0, points), falls.astype(int), touches


@dataclass(frozen=True)
class DepthOptions:
    """The options of `depth`."""

    cells: int | None = option(CELLS)


@dataclass(frozen=True, kw_only=True)
class DepthLines(DrawnLines):
    """`depth`: for each group a DepthLine."""

    name: ClassVar[str] = "depth"
    kernel_name: ClassVar[str] = "depth"
    words: ClassVar[str] = (
        "A line was drawn for each group; lines that lie deeper among its points are exponentially more likely."
    )
    target: ClassVar[Target] = "median"
    Options: ClassVar[type] = DepthOptions
    paid_interval: ClassVar[bool] = True
    slow: ClassVar[bool] = True
    line: DepthLine

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: DepthOptions) -> LineMechanism:
        grid = Grid.asked_for(problem.plane, options.cells, problem.expected_rows)
        epsilon, route = epsilon_for_draws(budget, 1)
        spread = depth_spread(problem.records.change, problem.records.rows, problem.records.moves)
        line = DepthLine(grid, epsilon / spread * COVER)
        return cls(problem=problem, line=line, route=route, budget=budget, options=options, epsilon_each=epsilon)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        line = DepthLine(Grid(problem.plane, facts.whole("cells")), facts.positive("exponent"))
        return cls.read_drawn(problem, line, facts, claimed)

    @classmethod
    def _coarser(cls, options: DepthOptions, rows: int, most_cells: int) -> DepthOptions:
        return replace(options, cells=min(options.cells or lines_for(rows), most_cells))

    @property
    def spread(self) -> int:
        return depth_spread(self.records.change, self.records.rows, self.records.moves)

    def option_facts(self) -> dict[str, Any]:
        return {"cells": self.line.grid.cells}
