"""DPExpTheilSen: the exponential mechanism for the median of pairs' values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.mechanisms.lines.pairs import CELLS, all_pairs, matchings, values_at
from dpspark.mechanisms.lines.plane import Plane, SimpleFit, line_fit
from dpspark.privacy.exponential_draw import draw
from dpspark.privacy.keyed import KeyedRandom, Stream

Runs = tuple[np.ndarray, np.ndarray, np.ndarray]  # where each run of edges starts, how many it has, their loss


@dataclass(frozen=True)
class ExponentialTheilSen:
    """At each anchor, an edge of the public grid drawn with weight exp(−exponent·|below − above|).

    Privacy
        Unit         one record: its rows in one group are added, removed or replaced (calibrate says which)
        Requires     a fresh secret for the release; all_pairs only where one row is replaced and the number of rows is public
        Sensitivity  sensitivity.pair_rank_spread: of below − above, between two edges
        Guarantee    each draw has epsilon' = exponent·spread; the draws of all anchors together anchors·epsilon', or
                     anchors·epsilon'²/8-zCDP
        Source       Alabi et al., Differentially Private Simple Linear Regression, DPExpTheilSen; McSherry & Talwar (2007)
        Public       bounds, anchors, candidates, grid, matchings, exponent
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_theil_sen.py
    """

    plane: Plane
    exponent: float
    matchings: int | None = 10  # None: all pairs
    cells: int = CELLS

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows = self.plane.rows(x, y)
        pairs = (
            all_pairs(len(rows))
            if self.matchings is None
            else matchings(len(rows), self.matchings, random.stream("pairs", *labels))
        )
        low, high = self.plane.candidate_range
        exponent = self.exponent / max(1, len(rows) - 1) if self.matchings is None else self.exponent
        stream = random.stream("draws", *labels)
        drawn = [
            draw_edge(self.runs(values), exponent, stream)
            for values in values_at(rows, pairs, self.plane.anchors, (low, high), self.cells)
        ]
        return line_fit(self.plane, self.plane.anchors, tuple(low + (high - low) * edge / self.cells for edge in drawn))

    def runs(self, values: np.ndarray) -> Runs:
        ordered = np.sort(values)
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else [])
        return self.runs_of(ordered[starts], np.diff(starts, append=len(ordered)))

    def runs_of(self, at: np.ndarray, counts: np.ndarray) -> Runs:
        """Of edges that have values, in order, and how many each has."""
        return runs_of(at, counts, self.cells)


def draw_edge(of: Runs, exponent: float, stream: Stream) -> int:
    """An edge from 0 to cells. No values: any edge."""
    first, sizes, losses = of
    run, offset = draw(losses, exponent, stream, sizes)
    return int(first[run]) + offset


def runs(values: np.ndarray, cells: int) -> Runs:
    return runs_of(*np.unique(values, return_counts=True), cells)


def runs_of(at: np.ndarray, counts: np.ndarray, cells: int) -> Runs:
    """Edges with one loss |below − above|, by the values below and above them."""
    below = np.concatenate([[0], np.cumsum(counts)])
    total = int(below[-1])
    first, sizes, losses = (np.empty(2 * len(at) + 1, dtype=np.int64) for _ in range(3))
    first[0::2], first[1::2] = np.concatenate([[0], at + 1]), at
    sizes[0::2], sizes[1::2] = np.concatenate([at, [cells + 1]]) - first[0::2], 1
    losses[0::2] = abs(2 * below - total)
    losses[1::2] = abs(below[:-1] + below[1:] - total)
    return first, sizes, losses
