"""Regression depth as the score of an exponential mechanism over lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.robust.draw import draw
from dpspark.robust.grid import Grid
from dpspark.robust.keyed import KeyedRandom
from dpspark.robust.plane import Rows, SimpleFit


@dataclass(frozen=True)
class DepthLine:
    """A line on the grid, both of its values at once, drawn with weight exp(exponent·depth).

    The depth of a line (Rousseeuw & Hubert, 1999): the least number of records to remove before it is no fit, i.e. before all
    residuals change sign at one x. Needs no pairs, no k, no scale of residuals.

    Privacy
        Unit         one record: its rows in one group are added, removed or replaced (calibrate says which)
        Requires     a fresh secret for the release
        Sensitivity  sensitivity.depth_spread: an added record raises depths by 0 or 1, a replaced one moves them by 1
        Guarantee    epsilon = exponent·spread, or epsilon²/8-zCDP: one draw for the whole line
        Source       MATH 14; McSherry & Talwar (2007), and for added records the monotone case
        Public       bounds, anchors, candidates, grid, exponent
        Excluded     timing
        Tested by    tests/privacy/test_robust_lines.py
    """

    grid: Grid
    exponent: float

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        depths = line_depths(self.grid, self.grid.plane.rows(x, y))
        line, _ = draw(int(depths.max()) - depths.astype(np.int64).ravel(), self.exponent, random.stream("draws", *labels))
        return self.grid.fit(line)


def line_depths(grid: Grid, rows: Rows) -> np.ndarray:
    """The depth of every line, as a matrix over (value at the first anchor, value at the second).

    With s_i the sign of a residual, S_j the sum of the first j signs by x, P = #{s >= 0} and N = #{s <= 0}, the depth is
    min(N + min_j S_j, P − max_j S_j), over j that do not split records with one x.
    """
    n, points = len(rows), grid.points
    kind = np.int8 if n <= 126 else np.int16 if n <= 32766 else np.int32
    sums, least, most, zeros = (np.zeros((points, points), dtype=kind) for _ in range(4))
    if n == 0:
        return sums
    y, first, second = grid.steps(rows)
    at = np.arange(points)
    left = y[:, None] - first[:, None] * at  # residual + second·(value at the second anchor)
    across = second[:, None] * at
    touches = _may_be_zero(left, second, points)
    last_of_x = np.append(rows.x[1:] != rows.x[:-1], True)
    above = np.empty((points, points), dtype=bool)
    signs = np.empty((points, points), dtype=np.int8)
    for i in range(n):
        np.greater(left[i][:, None], across[i], out=above)
        np.left_shift(above.view(np.int8), 1, out=signs)
        signs -= 1
        if touches[i]:
            zero = left[i][:, None] == across[i]
            signs += zero
            zeros += zero
        sums += signs
        if last_of_x[i]:
            np.minimum(least, sums, out=least)
            np.maximum(most, sums, out=most)
    # P = (n + S + Z)/2 and N = (n − S + Z)/2, Z of the residuals being 0.
    total, zeros = sums.astype(np.int32), zeros.astype(np.int32)
    return np.minimum((n - total + zeros) // 2 + least, (n + total + zeros) // 2 - most)


def _may_be_zero(left: np.ndarray, second: np.ndarray, points: int) -> np.ndarray:
    """Whether some line of the grid goes through a record exactly."""
    size = np.where(second == 0, 1, second)[:, None]
    reached = (left % size == 0) & (left // size >= 0) & (left // size < points)
    return np.where(second == 0, (left == 0).any(axis=1), reached.any(axis=1))
