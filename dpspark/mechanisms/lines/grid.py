"""A public grid of lines: pairs of values at two anchors, and records in whole steps of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpspark.errors import ConfError
from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, line_fit

LINES = 200  # cells along each anchor
MOST_LINES = 1000  # unless an option says more
MOST_CELLS = 2000  # the work grows with their square
STEP = 1 << 12  # fine steps of a cell


@dataclass(frozen=True)
class Grid:
    """The lines through (first anchor, i cells up) and (second anchor, j cells up), i and j from 0 to `cells`."""

    plane: Plane
    cells: int = LINES

    @classmethod
    def asked_for(cls, plane: Plane, cells: int | None, expected_rows: float | None) -> Grid:
        """Make the grid that an option asks for, or one as fine as estimates are."""
        if (cells or 0) > MOST_CELLS:
            raise ConfError(f"mechanism.cells={cells}; for lines on a grid at most {MOST_CELLS}.")
        return cls(plane, cells or lines_for(expected_rows))

    @property
    def points(self) -> int:
        return self.cells + 1

    def steps(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whole numbers y, a, b of each record: its residual from line (i, j) is y − a·i − b·j fine steps, with a + b = STEP.

        Each record's by itself, so that a residual depends on one record and the line only.
        """
        first, last = self.plane.joint_anchors
        low, high = self.plane.candidate_range
        share = np.rint((rows.x / FINE - first) * (STEP / (last - first))).astype(np.int64)
        height = np.rint((rows.y / FINE - low) * (self.cells * STEP / (high - low))).astype(np.int64)
        return height, STEP - share, share

    def fit(self, line: int) -> SimpleFit:
        """The released line of a flat index."""
        low, high = self.plane.candidate_range
        values = tuple(low + (high - low) * at / self.cells for at in divmod(line, self.points))
        return line_fit(self.plane, self.plane.joint_anchors, values)


def lines_for(expected_rows: float | None) -> int:
    """Cells along an anchor: the grid is finer where estimates are."""
    return LINES if expected_rows is None else min(MOST_LINES, max(LINES, 2 * math.ceil(10 * math.sqrt(expected_rows))))
