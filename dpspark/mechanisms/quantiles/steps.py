"""Candidates of a bound: the cells of an axis put together, ever wider away from a public point.

A bound of twice the distance is as far off as one of half of it, so that candidates need not be finer far out. Each of them is
about an 18th of its distance wide, and there are some 300 on either side of the point instead of 2^20 cells. An exponential
mechanism among fewer candidates finds a rank nearer to the end. The steps are whole numbers of cells, the same everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpspark.core.domain import Side
from dpspark.exact.histogram import Axis

PARTS = 18  # a step is this part of its distance from the point


@dataclass(frozen=True)
class Steps:
    """Edges of an axis, from the first to the last, between which its cells are one candidate."""

    edges: tuple[int, ...]

    @classmethod
    def around(cls, axis: Axis, point: float) -> Steps:
        """Cut the axis into steps that widen away from a point; from the nearer end, if the point is beyond."""
        low, high = Fraction(axis.lowest), Fraction(axis.highest)
        middle = min(max(0, int((Fraction(point) - low) / (high - low) * axis.cells)), axis.cells)
        away = 1
        found = {0, middle, axis.cells}
        while away < axis.cells:
            found |= {middle - away, middle + away}
            away += max(1, away // PARTS)
        return cls(tuple(sorted(edge for edge in found if 0 <= edge <= axis.cells)))

    @property
    def count(self) -> int:
        return len(self.edges) - 1

    def gather(self, cells: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Put the counts of occupied cells together: the occupied steps, in order, and their counts."""
        steps, places = np.unique(np.searchsorted(self.edges, cells, side="right") - 1, return_inverse=True)
        totals = np.zeros(len(steps), dtype=np.int64)
        np.add.at(totals, places, counts)
        return steps, totals

    def outer_cell(self, step: int, side: Side) -> int:
        """Find the cell of a step that is nearest to a side: its outer edge is the step's."""
        return self.edges[step] if side == "lower" else self.edges[step + 1] - 1
