"""Outlines of areas in few characters: all their points at once, on a grid of whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Outlines:
    """The rings of all areas, one after the other."""

    groups: np.ndarray  # of each area: its group's place and 1, or 0 for none
    areas: np.ndarray  # of each ring: its area's place
    counts: np.ndarray  # of each ring: its points
    points: np.ndarray  # points × 2

    @classmethod
    def of(cls, rings: Sequence[Sequence[np.ndarray]], groups: Sequence[int]) -> Outlines:
        """Put the rings of each area together; each area has one at least."""
        flat = [ring for area in rings for ring in area]
        areas = np.repeat(np.arange(len(rings)), [len(area) for area in rings])
        return cls(np.array(groups), areas, np.array([len(ring) for ring in flat]), np.concatenate(flat))

    def packed(self, low: np.ndarray, high: np.ndarray, scale: np.ndarray) -> bytes:
        """Write each area as whole numbers: its group, its rings, their points, and steps from point to point."""
        cells, ring = _on_grid(self, low, high, scale)
        counts = np.bincount(ring, minlength=len(self.counts))
        kept = self._kept(counts)
        cells, counts, areas = cells[kept[ring]], counts[kept], self.areas[kept]
        first = np.diff(areas, prepend=-1) != 0  # every area keeps a ring: there its group and its rings are said
        places = np.cumsum(1 + 2 * first + 2 * counts) - 2 * counts  # where the steps of each ring begin
        numbers = np.zeros(2 * len(cells) + len(counts) + 2 * len(self.groups), dtype=np.int64)
        numbers[places - 1] = counts
        numbers[places[first] - 3] = self.groups
        numbers[places[first] - 2] = np.bincount(areas)
        steps = np.diff(cells, axis=0, prepend=np.zeros((1, 2), dtype=np.int64))
        at = np.repeat(places - 2 * (np.cumsum(counts) - counts), counts) + 2 * np.arange(len(cells))
        numbers[np.stack([at, at + 1], axis=1)] = np.where(steps < 0, -2 * steps - 1, 2 * steps)
        return _variable(numbers)

    def _kept(self, counts: np.ndarray) -> np.ndarray:
        """Keep rings that are still rings; of an area that has none, the first, a point or a line."""
        large = counts > 2
        none = np.bincount(self.areas, large) == 0
        return large | (none[self.areas] & (np.diff(self.areas, prepend=-1) != 0))


def _on_grid(found: Outlines, low: np.ndarray, high: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round points to the grid, y downwards, and give each its ring; points that repeat, or lie straight between others, go."""
    shifted = np.stack([found.points[:, 0] - low[0], high[1] - found.points[:, 1]], axis=1)
    cells = np.rint(shifted * scale).astype(np.int64)
    ring = np.repeat(np.arange(len(found.counts)), found.counts)
    new = np.append(True, (np.diff(cells, axis=0) != 0).any(axis=1) | (np.diff(ring) != 0))
    cells, ring = cells[new], ring[new]
    first, last = _ends(ring)
    closing = last[(last > first) & (cells[first] == cells[last]).all(axis=1)]
    cells, ring = np.delete(cells, closing, axis=0), np.delete(ring, closing)
    first, last = _ends(ring)
    before, after = np.arange(len(ring)) - 1, np.arange(len(ring)) + 1
    before[first], after[last] = last, first
    into, out = cells - cells[before], cells[after] - cells
    bends = into[:, 0] * out[:, 1] != into[:, 1] * out[:, 0]
    kept = bends | (np.bincount(ring, bends) <= 2)[ring]
    return cells[kept], ring[kept]


def _ends(ring: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the first and the last point of each ring."""
    first = np.flatnonzero(np.diff(ring, prepend=-1))
    return first, np.append(first[1:], len(ring)) - 1


def _variable(numbers: np.ndarray) -> bytes:
    """Seven bits a byte, the lowest first; a high bit says that more follow."""
    found = np.zeros((len(numbers), 5), dtype=np.uint8)
    kept = np.zeros((len(numbers), 5), dtype=bool)
    rest = numbers.astype(np.int64)
    follows = np.ones(len(numbers), dtype=bool)
    for at in range(5):
        kept[:, at] = follows
        follows = follows & (rest > 127)
        found[:, at] = (rest & 127) | (follows.astype(np.uint8) << 7)
        rest = rest >> 7
    return found[kept].tobytes()
