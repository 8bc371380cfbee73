"""Quantiles of a small group by the exponential mechanism, on an executor: the law of quantiles.exponential, keyed draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpspark.exact.histogram import Axis
from dpspark.privacy.exponential_draw import draw
from dpspark.privacy.keyed import KeyedRandom

STEPS = 1 << 30  # of a probability, at most: times the rows of a group they stay below 2^63


@dataclass(frozen=True)
class GroupQuantiles:
    """A cell for each column and probability, drawn with weight exp(−γ·distance); quantiles.exponential has the distance.

    Privacy
        Unit         one record: its rows are added, removed or replaced, in one group or several
        Requires     a fresh secret for the release; a row adds 1 to one cell of each axis, or nothing
        Sensitivity  sensitivity.rank_distance, of each quantile's utility
        Guarantee    as quantiles.exponential.Quantiles, for all groups together
        Source       McSherry & Talwar (2007), Theorem 6
        Public       the axes, the probabilities, γ
        Excluded     timing
        Tested by    tests/mechanisms/test_group_quantiles.py
    """

    targets: tuple[tuple[Axis, float, float], ...]  # axis, probability, γ

    def fit(self, columns: dict[str, np.ndarray], random: KeyedRandom, *labels: str | bytes | int) -> list[float]:
        """The middle of each target's cell. A NaN is no value; no values: any cell."""
        stream = random.stream("quantiles", *labels)
        found = []
        for axis, probability, exponent in self.targets:
            values = columns[axis.name]
            cells, counts = np.unique(axis.cell_of(values[~np.isnan(values)]), return_counts=True)
            first, sizes, losses, step = cell_runs(cells, counts, axis.cells, probability)
            run, offset = draw(losses, exponent / step, stream, sizes)
            cell = int(first[run]) + offset
            found.append((axis.edge(cell) + axis.edge(cell + 1)) / 2)
        return found


def cell_runs(
    cells: np.ndarray, counts: np.ndarray, grid: int, probability: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Runs of cells of one distance, and that distance in whole steps of 1/step: the probability as it is written."""
    share = whole_steps(probability)
    up, down = share.numerator, share.denominator
    total = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    first, below, up_to = (np.empty(2 * len(cells) + 1, dtype=np.int64) for _ in range(3))
    first[1::2], below[1::2], up_to[1::2] = cells, total[:-1], total[1:]
    first[0::2], below[0::2], up_to[0::2] = np.concatenate([[0], cells + 1]), total, total
    sizes = np.diff(np.append(first, grid))
    kept = sizes > 0
    target = up * int(total[-1])
    losses = np.maximum(0, np.maximum(down * below - target, target - down * up_to))
    return first[kept], sizes[kept], losses[kept], down


def whole_steps(probability: float) -> Fraction:
    """Read it as written, such as 1/4 for 0.25. One with more digits is cut towards 1/2, where a row moves ranks less."""
    share = Fraction(str(probability))
    if share.denominator <= STEPS:
        return share
    return Fraction(math.floor(share * STEPS) if share > Fraction(1, 2) else math.ceil(share * STEPS), STEPS)
