"""Search for the lines of a grid whose losses are near the best: squares of lines are left out by bounds, the others cut up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from dpspark.privacy.exponential_draw import LARGEST, Near

FEWEST = 5  # squares along an anchor to begin with
FINE = 9  # sides of squares from which it is counted how many lines are left
TRIED = 8  # squares whose middles are looked at for a good line
BLOCK = 1 << 18  # numbers at a time: what memory close to the processor holds
THREAD = 1 << 18  # multiplications of a matrix product that OpenBLAS makes in one thread

# glibc returns memory at once until a large block was freed; without this, a third of a fit is page faults.
np.empty(16 << 20, dtype=np.uint8)


class Losses(Protocol):
    """The losses of all lines for one group's rows, in whole numbers."""

    def span(self) -> int:
        """About what most losses differ by: a search that is to look farther finds most lines."""
        ...

    def many(self) -> int:
        """So many lines take as long as all of them at once."""
        ...

    def all_lines(self) -> np.ndarray:
        """The loss of every line, by its flat index."""
        ...

    def bounds(self, i: np.ndarray, j: np.ndarray, half: int) -> np.ndarray:
        """No line that is up to `half` from (i, j) along both anchors has less. With half = 0, what that line has."""
        ...


def near_lines(losses: Losses, points: int, far: int | None) -> Near:
    """Find all lines with losses less than `far` above the best, or all there are; for the others, bounds.

    The best line is never left out: the bound of its square is at most its loss, and so at most that of any line tried.
    """
    if far is None or far > losses.span() or losses.many() < FEWEST**2:
        return _all_lines(losses)
    side = 3 ** max(0, math.floor(math.log(points / FEWEST, 3)))
    at = np.arange(side // 2, points + side // 2, side)
    i, j = np.repeat(at, len(at)), np.tile(at, len(at))
    best, left_out, counts = LARGEST, [], []
    while side > 1:
        half = side // 2
        bounds = losses.bounds(i, j, half)
        best = min(best, _best_middle(losses, points, i, j, bounds))
        inside = _inside(i, half, points) * _inside(j, half, points)
        out = bounds - best >= far
        if side <= FINE and int(inside[~out].sum()) > losses.many():
            return _all_lines(losses)
        left_out.append(bounds[out])
        counts.append(inside[out])
        i, j = _cut_up(i[~out], j[~out], half, points)
        side //= 3
    return Near(i * points + j, losses.bounds(i, j, 0), _joined(left_out), _joined(counts))


def in_blocks(
    evaluate: Callable[[np.ndarray], np.ndarray],
    i: np.ndarray,
    j: np.ndarray,
    rows: int,
    products: int,
    kind: type[np.floating[Any]] = np.float64,
) -> np.ndarray:
    """Evaluate lines, some at a time: whole numbers come back for each.

    `evaluate` gets matrices of 1, i and j, one a row. They are so small that matrix products with `products` multiplications
    for each row and line are made in one thread.
    """
    found, rows = np.empty(len(i), dtype=np.int64), max(1, rows)
    for start in range(0, len(i), max(1, BLOCK // rows)):
        part = slice(start, start + max(1, BLOCK // rows))
        size = len(i[part])
        blocks = min(size, -(-size * rows * products // THREAD))
        width = -(-size // blocks)
        padded = np.zeros((2, blocks * width), dtype=kind)
        padded[:, :size] = i[part], j[part]
        lines = np.ones((blocks, 3, width), dtype=kind)
        lines[:, 1:] = padded.reshape(2, blocks, width).swapaxes(0, 1)
        found[part] = evaluate(lines).reshape(-1)[:size]
    return found


def _all_lines(losses: Losses) -> Near:
    found, none = losses.all_lines(), np.zeros(0, dtype=np.int64)
    return Near(np.arange(len(found)), found, none, none)


def _best_middle(losses: Losses, points: int, i: np.ndarray, j: np.ndarray, bounds: np.ndarray) -> int:
    """Find the least loss of the lines in the middle of the squares with the least bounds."""
    tried = np.argpartition(bounds, TRIED)[:TRIED] if len(bounds) > TRIED else slice(None)
    return int(losses.bounds(np.minimum(i[tried], points - 1), np.minimum(j[tried], points - 1), 0).min())


def _inside(at: np.ndarray, half: int, points: int) -> np.ndarray:
    """Count the values up to `half` from each that are on the grid."""
    return np.minimum(at + half + 1, points) - (at - half)


def _cut_up(i: np.ndarray, j: np.ndarray, half: int, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut each square into nine; those beyond the grid fall away."""
    third = (2 * half + 1) // 3
    shifts = np.arange(-third, third + 1, third)
    i = (i[:, None] + np.repeat(shifts, 3)).ravel()
    j = (j[:, None] + np.tile(shifts, 3)).ravel()
    on_grid = np.maximum(i, j) - third // 2 < points
    return i[on_grid], j[on_grid]


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
