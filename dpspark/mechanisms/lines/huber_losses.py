"""Sums of clipped residuals times instruments: for all lines of a grid, for some of them, and bounds for squares of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpspark.mechanisms.lines.search import in_blocks

UNIT = 1 << 10  # the largest instrument
RECORDS = 1024  # at a time, for all lines
FEW = 40  # records up to which lines are looked at one by one


class HuberLosses:
    """The largest of |Σ ψ·instrument| for each line, and bounds of it for squares of lines.

    A residual y − first·i − second·j moves by half·(|first| + |second|) at most in a square, so that its ψ has an interval, and
    each sum one too. All numbers are whole and below 2^53: float64 adds them exactly in any order.
    """

    def __init__(
        self, y: np.ndarray, first: np.ndarray, second: np.ndarray, instruments: np.ndarray, clip: int, points: int
    ):
        self._steps = np.stack([y, -first, -second], axis=1).astype(float)
        self._wide = (abs(first) + abs(second)).astype(float)
        self._instruments, self._clip, self._points = instruments, float(clip), points

    def span(self) -> int:
        return len(self._wide) * int(self._clip) * UNIT // 2

    def many(self) -> int:
        n = len(self._wide)
        return self._points**2 if n <= FEW else self._points**2 * (n + 8 * FEW) // (10 * n)

    def all_lines(self) -> np.ndarray:
        points = self._points
        if len(self._wide) <= FEW:
            return self.bounds(np.repeat(np.arange(points), points), np.tile(np.arange(points), points), 0)
        totals = np.zeros((len(self._instruments), points, points), dtype=np.int64)
        y, first, second = self._steps.T * [[1], [-1], [-1]]
        for start in range(0, len(y), RECORDS):
            part = slice(start, start + RECORDS)
            sums = _clipped_sums(y[part], first[part], second[part], self._instruments[:, part], self._clip, points)
            for total, more in zip(totals, sums, strict=True):
                np.add(total, more, out=total, casting="unsafe")  # whole numbers all the same
        best = np.zeros((points, points), dtype=np.int64)
        for total in totals:
            np.maximum(best, np.abs(total, out=total), out=best)
        return best.ravel()

    def bounds(self, i: np.ndarray, j: np.ndarray, half: int) -> np.ndarray:
        evaluate = (lambda lines: self._least_scores(lines, half)) if half else self._scores
        return in_blocks(evaluate, i, j, len(self._wide), 2 * len(self._instruments))

    def _scores(self, lines: np.ndarray) -> np.ndarray:
        sums = self._instruments @ self._clipped(self._steps, lines)
        return np.abs(sums, out=sums).max(axis=1)

    def _least_scores(self, lines: np.ndarray, half: int) -> np.ndarray:
        reach = np.zeros_like(self._steps)
        reach[:, 0] = half * self._wide
        signed = np.concatenate([np.maximum(self._instruments, 0), np.minimum(self._instruments, 0)])
        high, low = (signed @ self._clipped(self._steps + sign * reach, lines) for sign in (1, -1))
        k = len(self._instruments)
        return np.maximum(low[:, :k] + high[:, k:], -(high[:, :k] + low[:, k:])).max(axis=1)

    def _clipped(self, steps: np.ndarray, lines: np.ndarray) -> np.ndarray:
        residuals = steps @ lines
        return np.clip(residuals, -self._clip, self._clip, out=residuals)


def _clipped_sums(
    y: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    instruments: np.ndarray,
    clip: float,
    points: int,
) -> Iterator[np.ndarray]:
    """Yield Σ clip(y − first·i − second·j, ±clip)·instrument over the records for each instrument, at all lines (i, j).

    Along j a clipped residual is the constant ±clip, then a straight line, then ∓clip. So the sum of many is a straight line
    between breaks: breaks of level and slope are counted where they happen, and summed up along j. All numbers are whole and
    far below 2^53: float64 adds them exactly in any order, and a quotient is whole, or 2^−13 from it and floored correctly.
    """
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
    breaks += at * (points + 1)
    places = breaks.astype(np.int64).ravel()
    jumps = np.stack([level - clip, -clip - level])
    weighted = np.empty_like(jumps)
    sides = np.array([-1.0, 1.0])[:, None, None]
    for weight in turn * instruments:
        np.multiply(jumps, weight[:, None], out=weighted)
        levels = _summed(places, weighted, points)
        np.multiply(sides, (weight * fall)[:, None], out=weighted)
        slopes = _summed(places, weighted, points)
        slopes *= at
        levels += slopes
        levels += clip * float(weight.sum())
        yield levels


def _summed(places: np.ndarray, breaks: np.ndarray, points: int) -> np.ndarray:
    counted = np.bincount(places, weights=breaks.ravel(), minlength=points * (points + 1))
    return counted.reshape(points, points + 1)[:, :-1].cumsum(axis=1)
