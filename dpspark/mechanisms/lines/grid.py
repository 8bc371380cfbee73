"""A public grid of lines: pairs of values at two anchors, and records in whole steps of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, line_fit

LINES = 200  # cells along each anchor
STEP = 1 << 12  # fine steps of a cell


@dataclass(frozen=True)
class Grid:
    """The lines through (first anchor, i cells up) and (second anchor, j cells up), i and j from 0 to `cells`."""

    plane: Plane
    cells: int = LINES

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
