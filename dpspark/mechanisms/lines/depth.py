"""Regression depth as the score of an exponential mechanism over lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.plane import Rows, SimpleFit
from dpspark.privacy.exponential_draw import draw
from dpspark.privacy.keyed import KeyedRandom


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
        Source       depth: Rousseeuw & Hubert (1999); McSherry & Talwar (2007), and for added records the monotone case
        Public       bounds, anchors, candidates, grid, exponent
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_lines.py
    """

    grid: Grid
    exponent: float

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        depths = line_depths(self.grid, self.grid.plane.rows(x, y))
        line, _ = draw(
            int(depths.max()) - depths.astype(np.int64).ravel(), self.exponent, random.stream("draws", *labels)
        )
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
    upto, falls, touches = _flips(grid, rows)
    last_of_x = np.append(rows.x[1:] != rows.x[:-1], True)
    # Row t of a table: the signs along the second anchor's values if they change at t.
    before = np.arange(points) < np.arange(points + 1)[:, None]
    tables = [np.where(before, sign, -sign).astype(kind) for sign in (-1, 1)]
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


def _flips(grid: Grid, rows: Rows) -> tuple[np.ndarray, np.ndarray, list[np.ndarray | None]]:
    """Where each record's residual turns positive or stops being so, at each value of the first anchor.

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
