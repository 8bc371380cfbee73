"""Bounded residuals against bounded instruments: an exponential mechanism that looks for the line whose two sums vanish."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpspark.mechanisms.lines.grid import STEP, Grid
from dpspark.mechanisms.lines.plane import FINE, Rows, SimpleFit
from dpspark.privacy.exponential_draw import draw, last_level
from dpspark.privacy.keyed import KeyedRandom

UNIT = 1 << 10  # the largest instrument
BLOCK = 1024  # records at a time
MANY, STRIDE = (
    256,
    16,
)  # records from which not every line is looked at; values of the first anchor between those that are

# glibc returns memory at once until a large block was freed; without this, a third of a fit is page faults.
np.empty(16 << 20, dtype=np.uint8)


@dataclass(frozen=True)
class HuberLine:
    """A line on the grid, both of its values at once, drawn with weight exp(−exponent·max(|Σψ|, |Σψφ| for every φ)).

    ψ is a record's residual, clipped to ±clip (Huber's score). φ is a ramp of x: its distance from a knot in units of reach,
    clipped to ±1. Least squares is the line where Σψ and Σψφ are 0 without any clipping; with it the line is robust and one
    record moves a sum by at most clip. The score falls off linearly around the best line, so that the private error is of order
    1/(epsilon·n), where a clipped loss has 1/√(epsilon·n); and a clip below the residuals' spread costs next to nothing. With
    several knots some ramp has its slope where the x are, wherever they are; with all of them and clip -> 0 it is the depth.

    Privacy
        Unit         one record: its rows in one group are added, removed or replaced (calibrate says which)
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
    knots: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)  # in units of x's bounds
    reach: float = 0.1  # likewise

    @property
    def clip_steps(self) -> int:
        return max(1, round(self.clip * self.grid.cells * STEP))

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows = self.grid.plane.rows(x, y)
        exponent = self.exponent / (self.clip_steps * UNIT) * (1 - 2.0**-50)
        losses = self.losses(rows, min(last_level(exponent), 1 << 62)).ravel()
        line, _ = draw(losses, exponent, random.stream("draws", *labels), exact=lambda line: self.score(rows, line))
        return self.grid.fit(line)

    def losses(self, rows: Rows, far: int) -> np.ndarray:
        """The scores; of lines that are at least `far` above the best one, what shows that they are.

        A step of the first value moves a residual by `first` at most, and so a score by what all records together move. So
        scores at every STRIDE-th of these values say which others need to be known.
        """
        points = self.grid.points
        if len(rows) < MANY:
            return self.scores(rows)
        coarse = np.append(np.arange(0, points - 1, STRIDE), points - 1)
        known = self.scores(rows, coarse)
        _, first, _ = self.grid.steps(rows)
        step = UNIT * int(abs(first).sum())
        at = np.arange(points)
        after = np.clip(np.searchsorted(coarse, at), 1, len(coarse) - 1)
        losses = np.maximum(
            known[after - 1] - (step * abs(at - coarse[after - 1]))[:, None],
            known[after] - (step * abs(coarse[after] - at))[:, None],
        )
        near = np.flatnonzero((losses - known.min() < far).any(axis=1))
        losses[near] = self.scores(rows, near)
        return losses

    def score(self, rows: Rows, line: int) -> int:
        """Of one line, by its flat index."""
        y, first, second = self.steps(rows)
        i, j = divmod(line, self.grid.points)
        clipped = np.clip(y - first * i - second * j, -self.clip_steps, self.clip_steps)
        return max(abs(int((clipped * weights.astype(np.int64)).sum())) for weights in self.instruments(rows))

    def scores(self, rows: Rows, at: np.ndarray | None = None) -> np.ndarray:
        """The score in whole steps, over (value at the first anchor, value at the second), or over some of the first.

        A record adds at most clip_steps·UNIT to any of the sums.
        """
        y, first, second = self.steps(rows)
        points = self.grid.points
        at = np.arange(points) if at is None else at
        instruments = self.instruments(rows)
        totals = [np.zeros((len(at), points), dtype=np.int64) for _ in instruments]
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            sums = _clipped_sums(y[part], first[part], second[part], instruments[:, part], self.clip_steps, at, points)
            for total, more in zip(totals, sums, strict=True):
                np.add(total, more, out=total, casting="unsafe")  # whole numbers below 2^53 all the same
        best = np.zeros_like(totals[0])
        for total in totals:
            np.maximum(best, np.abs(total, out=total), out=best)
        return best

    def steps(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As the grid's, but a record beyond the clip of every line comes as near as that: sums stay below 2^53."""
        y, first, second = self.grid.steps(rows)
        most = self.clip_steps + self.grid.cells * (abs(first) + abs(second))
        return np.clip(y, -most, most), first, second

    def instruments(self, rows: Rows) -> np.ndarray:
        """1 and the ramps, in whole steps of 1/UNIT: one a row, one record a column."""
        ramps = [np.clip((rows.x / FINE - knot) / self.reach, -1.0, 1.0) for knot in self.knots]
        return np.rint(np.stack([np.ones(len(rows)), *ramps]) * UNIT)


def _clipped_sums(
    y: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    instruments: np.ndarray,
    clip: int,
    rows: np.ndarray,
    points: int,
) -> Iterator[np.ndarray]:
    """For each instrument, Σ clip(y − first·i − second·j, ±clip)·instrument over the records, at i of `rows` and all j.

    Along j a clipped residual is the constant ±clip, then a straight line, then ∓clip. So the sum of many is a straight line
    between breaks: breaks of level and slope are counted where they happen, and summed up along j. All numbers are whole and
    far below 2^53: float64 adds them exactly in any order, and a quotient is whole, or 2^−13 from it and floored correctly.
    """
    at = np.arange(points, dtype=float)
    turn = np.where(second < 0, -1.0, 1.0)  # clip(−r) = −clip(r): make all of them fall along j
    level = turn[:, None] * (y[:, None] - first[:, None] * rows)
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
    breaks += np.arange(len(rows), dtype=float) * (points + 1)
    places = breaks.astype(np.int64).ravel()
    jumps = np.stack([level - clip, -clip - level])
    weighted = np.empty_like(jumps)
    sides = np.array([-1.0, 1.0])[:, None, None]
    for weight in turn * instruments:
        np.multiply(jumps, weight[:, None], out=weighted)
        levels = _summed(places, weighted, len(rows), points)
        np.multiply(sides, (weight * fall)[:, None], out=weighted)
        slopes = _summed(places, weighted, len(rows), points)
        slopes *= at
        levels += slopes
        levels += clip * float(weight.sum())
        yield levels


def _summed(places: np.ndarray, breaks: np.ndarray, rows: int, points: int) -> np.ndarray:
    counted = np.bincount(places, weights=breaks.ravel(), minlength=rows * (points + 1))
    return counted.reshape(rows, points + 1)[:, :-1].cumsum(axis=1)
