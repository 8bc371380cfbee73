"""Bounded residuals against bounded instruments: an exponential mechanism that looks for the line whose two sums vanish."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpspark.robust.draw import draw
from dpspark.robust.grid import STEP, Grid
from dpspark.robust.keyed import KeyedRandom
from dpspark.robust.plane import FINE, Rows, SimpleFit

UNIT = 1 << 12  # the largest instrument
BLOCK = 1024  # records at a time


@dataclass(frozen=True)
class HuberLine:
    """A line on the grid, both of its values at once, drawn with weight exp(−exponent·max(|Σψ|, |Σψφ|)).

    ψ is a record's residual, clipped to ±clip (Huber's score); φ its x, measured from the middle of the anchors and clipped to
    ±reach, in units of reach. Least squares is the line where both sums are 0 without clipping; with it the line is robust and
    one record moves either sum by at most clip. The score falls off linearly around the best line, so the private error is of order
    1/(epsilon·n), where a clipped loss has 1/√(epsilon·n); and a clip below the residuals' spread costs next to nothing.

    Privacy
        Unit         one record: its rows in one group are added, removed or replaced (calibrate says which)
        Requires     a fresh secret for the release
        Sensitivity  sensitivity.score_spread: |ψ| <= clip and |φ| <= 1 for every record and line
        Guarantee    epsilon = exponent·spread, or epsilon²/8-zCDP: one draw for the whole line
        Source       Reimherr & Awan (2019), KNG: the K-norm gradient mechanism, with bounded scores; McSherry & Talwar (2007)
        Public       bounds, anchors, candidates, grid, clip, reach, exponent
        Excluded     timing
        Tested by    tests/privacy/test_robust_lines.py
    """

    grid: Grid
    exponent: float  # of a score in units of clip
    clip: float  # of a residual, in units of the candidates' range
    reach: float  # of x around the middle of the anchors, in units of x's bounds

    @property
    def clip_steps(self) -> int:
        return max(1, round(self.clip * self.grid.cells * STEP))

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        scores = self.scores(self.grid.plane.rows(x, y))
        exponent = self.exponent / (self.clip_steps * UNIT)
        line, _ = draw(scores.ravel(), exponent * (1 - 2.0**-50), random.stream("draws", *labels))
        second, first = divmod(line, self.grid.points)
        return self.grid.fit(first * self.grid.points + second)

    def scores(self, rows: Rows) -> np.ndarray:
        """max(|Σψ|, |Σψφ|) in whole steps, over (value at the second anchor, value at the first).

        A record adds at most clip_steps·UNIT to either.
        """
        points = self.grid.points
        y, first, second = self.grid.steps(rows)
        instrument = self.instrument(rows)
        plain, turned = np.zeros((points, points)), np.zeros((points, points))
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            _add_clipped(y[part], first[part], second[part], instrument[part], self.clip_steps, plain, turned)
        plain *= UNIT
        np.maximum(np.abs(plain, out=plain), np.abs(turned, out=turned), out=plain)
        return plain.astype(np.int64)

    def instrument(self, rows: Rows) -> np.ndarray:
        """φ in whole steps of 1/UNIT."""
        middle = sum(self.grid.plane.joint_anchors) / 2
        return np.rint(np.clip((rows.x / FINE - middle) / self.reach, -1.0, 1.0) * UNIT).astype(np.int64)


def _add_clipped(
    y: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    instrument: np.ndarray,
    clip: int,
    plain: np.ndarray,
    turned: np.ndarray,
) -> None:
    """Add every record's clip(y − first·i − second·j, ±clip), and that times its instrument, to all (j, i).

    Along j a clipped residual is the constant ±clip, then a straight line, then ∓clip. So the sum of many is a straight line
    between breaks: breaks of level and slope are counted where they happen, and summed up along j. All numbers are whole and
    far below 2^53: float64 adds them exactly in any order, and a quotient is whole, or 2^−13 from it and floored correctly.
    """
    points = len(plain)
    at = np.arange(points, dtype=float)
    turn = np.where(second < 0, -1.0, 1.0)  # clip(−r) = −clip(r): make all of them fall along j
    level = turn[:, None] * (y[:, None] - first[:, None] * at)
    fall = abs(second).astype(float)
    safe = np.maximum(fall, 1.0)[:, None]
    # The line holds from `enter` up to `leave` - 1: level − fall·j <= clip, and >= −clip.
    enter = np.clip(np.ceil((level - clip) / safe), 0, points)
    leave = np.clip(np.floor((level + clip) / safe) + 1, 0, points)
    flat = fall == 0
    if flat.any():
        enter[flat], leave[flat] = 0, points
        level[flat] = np.clip(level[flat], -clip, clip)
    breaks = np.stack([enter, leave])
    breaks *= points
    breaks += at
    places = breaks.astype(np.int64).ravel()
    jumps = np.stack([level - clip, -clip - level])
    weighted = np.empty_like(jumps)
    sides = np.array([-1.0, 1.0])[:, None, None]
    for weight, total in ((turn, plain), (turn * instrument, turned)):
        np.multiply(jumps, weight[:, None], out=weighted)
        levels = _summed(places, weighted, points)
        np.multiply(sides, (weight * fall)[:, None], out=weighted)
        slopes = _summed(places, weighted, points)
        slopes *= at[:, None]
        levels += slopes
        levels += clip * float(weight.sum())
        total += levels


def _summed(places: np.ndarray, breaks: np.ndarray, points: int) -> np.ndarray:
    counted = np.bincount(places, weights=breaks.ravel(), minlength=points * (points + 1))
    return counted.reshape(points + 1, points)[:-1].cumsum(axis=0)


def reach_of(first: float, last: float) -> float:
    """Half the way between the anchors: x beyond them counts in full, and no further."""
    return math.nextafter((last - first) / 2, math.inf)
