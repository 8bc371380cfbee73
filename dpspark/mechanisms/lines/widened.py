"""DPWideTheilSen: as DPExpTheilSen, but an edge is as good as the best one near it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.mechanisms.lines.exponential import ExponentialTheilSen, Runs, runs_of


@dataclass(frozen=True)
class WidenedTheilSen(ExponentialTheilSen):
    """For values that crowd on a few points: without a width, such a point has almost no edges and is hardly ever drawn.

    Privacy
        Unit         as exponential.ExponentialTheilSen
        Requires     as there
        Sensitivity  as there: the least of several losses moves no more than each of them does
        Guarantee    as there
        Source       Alabi et al., Differentially Private Simple Linear Regression, DPWideTheilSen
        Public       as there, and the width
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_theil_sen.py
    """

    width: int = 0  # in cells

    def runs_of(self, at: np.ndarray, counts: np.ndarray) -> Runs:
        return widened_runs(runs_of(at, counts, self.cells), self.width, self.cells)


def widened_runs(of: Runs, width: int, cells: int) -> Runs:
    """Each edge gets the least loss within `width` of it.

    Below − above rises from edge to edge, so losses fall to the best runs and rise after them: what is left of the best moves
    left, what is right of it moves right, and the best run fills the space between.
    """
    first, sizes, losses = (part[of[1] > 0] for part in of)
    last = first + sizes - 1
    best = np.flatnonzero(losses == losses.min())
    low, high = int(best[0]), int(best[-1])
    starts = np.concatenate([first[:low] - width, [first[low] - width], first[high + 1 :] + width])
    ends = np.concatenate([last[:low] - width, [last[high] + width], last[high + 1 :] + width])
    starts, ends = np.maximum(starts, 0), np.minimum(ends, cells)
    return starts, np.maximum(ends - starts + 1, 0), np.concatenate([losses[: low + 1], losses[high + 1 :]])
