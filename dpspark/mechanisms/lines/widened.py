"""DPWideTheilSen: as DPExpTheilSen, but an edge is as good as the best one near it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpspark.core.facts import Facts
from dpspark.mechanisms.base import Limits, option
from dpspark.mechanisms.lines.base import LineMechanism, LineProblem
from dpspark.mechanisms.lines.errors import height_of
from dpspark.mechanisms.lines.exponential import ExponentialLines, ExponentialTheilSen, PairOptions, Runs, runs_of
from dpspark.mechanisms.lines.pairs import CELLS
from dpspark.mechanisms.lines.plane import Plane
from dpspark.privacy.budget import Budget

WIDTH = 0.01  # in units of the candidates' range


@dataclass(frozen=True)
class WidenedTheilSen(ExponentialTheilSen):
    """Lines for values that crowd on a few points: without a width, such a point has almost no edges and is hardly ever drawn.

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

    @property
    def flat(self) -> float:
        return self.width / self.cells * height_of(self.plane)


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


@dataclass(frozen=True)
class WidenedOptions(PairOptions):
    """The options of `widened`."""

    width: float | None = option(
        Limits("How near a value is as good as the best, as a share of the candidates' range.", above=0, most=1)
    )


@dataclass(frozen=True, kw_only=True)
class WidenedLines(ExponentialLines):
    """`widened`: for each group a WidenedTheilSen."""

    name: ClassVar[str] = "widened"
    kernel_name: ClassVar[str] = "widened"
    words: ClassVar[str] = "Values at the cuts were drawn; as likely as the best value near by."
    Options: ClassVar[type] = WidenedOptions
    line: WidenedTheilSen

    @classmethod
    def made(cls, plane: Plane, exponent: float, matchings: int, options: WidenedOptions) -> WidenedTheilSen:
        cells = options.cells or CELLS
        width = _cells_in(options.width or WIDTH, cells)
        return WidenedTheilSen(plane, exponent, matchings, cells, width)

    @classmethod
    def unlike_options(cls, asked: Facts, facts: Facts) -> tuple[str, ...]:
        """A width is rounded up to whole cells."""
        if asked.has("width"):
            cells = facts.whole("cells")
            asked = asked.overlaid({"width": _cells_in(asked.number("width"), cells) / cells})
        return super().unlike_options(asked, facts)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        matchings, cells = facts.whole("matchings"), facts.whole("cells")
        width = round(facts.number("width") * cells)
        line = WidenedTheilSen(problem.plane, facts.positive("exponent"), matchings, cells, width)
        return cls.read_drawn(problem, line, facts, claimed)

    def option_facts(self) -> dict[str, Any]:
        return {**super().option_facts(), "width": self.line.width / self.line.cells}

    @property
    def distinct(self) -> float:
        return min(self.line.cells, self.line.cells / (2 * self.line.width))


def _cells_in(width: float, cells: int) -> int:
    return math.ceil(width * cells)
