"""The axes of a regression's scores: its terms, each less a public multiple of the intercept, in units of the most it can
be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpspark.core.domain import Categorical, Domain

SHIFT_STEPS = 1 << 10


@dataclass(frozen=True)
class ScoreAxes:
    """The axes of one regression: x_j − m_j·x_0, with m_j near the mean of x_j, so that slopes do not share in the intercept.

    The shifts come from what is released. They are public, and the intercept's is 0.
    """

    regressors: Domain
    shifts: tuple[int, ...]  # m_j·SHIFT_STEPS

    @property
    def width(self) -> int:
        return len(self.shifts)

    @property
    def means(self) -> tuple[float, ...]:
        return tuple(shift / SHIFT_STEPS for shift in self.shifts)

    @property
    def extents(self) -> tuple[float, ...]:
        """The most that |x_j − m_j·x_0| can be."""
        found = [0.0] * self.width
        for at, block in self.columns():
            for place in at:
                mean = abs(self.means[place])
                found[place] = max(abs(1 - self.means[place]), mean) if block and self._box else self._most * (1 + mean)
        return tuple(found)

    def columns(self) -> Iterator[tuple[range, bool]]:
        """Yield the places of each column, and whether they are a block, of which one is 1 at most: the intercept's first."""
        yield range(1), False
        start = 1
        for column in self.regressors.columns:
            end = start + len(column.terms)
            yield range(start, end), isinstance(column, Categorical)
            start = end

    @property
    def _box(self) -> bool:
        return self.regressors.row_norm is None

    @property
    def _most(self) -> float:
        return self.regressors.largest
