"""Cells of rows around released lines: where x lies, and how far y is from the line of the row's own group.

The cells are public. Stability: one row is in one cell, by itself and its group's released line alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_UP = (0.15, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
STEPS = (*(-step for step in _UP[::-1]), 0.0, *_UP)  # edges of residuals, in spreads as guessed


@dataclass(frozen=True)
class LineCells:
    """Cells of x, all of one width, and of residuals; both in units of the bounds."""

    x_cells: int
    spread: float  # of residuals, as guessed

    @property
    def count(self) -> int:
        return self.x_cells * (len(STEPS) + 1)

    @property
    def x_edges(self) -> np.ndarray:
        return np.linspace(0.0, 1.0, self.x_cells + 1)

    @property
    def residual_edges(self) -> np.ndarray:
        """The edges, the outermost included: no residual of rows inside the bounds is beyond."""
        return np.concatenate([[-np.inf], np.array(STEPS) * self.spread, [np.inf]])

    def cell_of(self, x: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Find each row's cell. Elementwise, so that it does not depend on the batch."""
        at_x = np.clip(np.floor(x * self.x_cells), 0, self.x_cells - 1).astype(np.int64)
        return at_x * (len(STEPS) + 1) + np.searchsorted(np.array(STEPS) * self.spread, residual, side="right")

    def columns(self) -> dict[str, list[float]]:
        """The edges of every cell, in their order, as columns of a table; the outermost residuals are infinite."""
        x, residual = self.x_edges.tolist(), self.residual_edges.tolist()
        pairs = [(i, j) for i in range(self.x_cells) for j in range(len(STEPS) + 1)]
        return {
            "x_low": [x[i] for i, _ in pairs],
            "x_high": [x[i + 1] for i, _ in pairs],
            "residual_low": [residual[j] for _, j in pairs],
            "residual_high": [residual[j + 1] for _, j in pairs],
        }
