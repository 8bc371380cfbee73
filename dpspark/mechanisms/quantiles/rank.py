"""Private bounds by rank: about as many values are beyond a bound as the noise of finding it is worth, however many there are.

A fixed share of the values beyond the bounds is a bias that stays while noise shrinks with more rows. Here a fixed number of
them is, k, and head-room on top. With A(c) values above the upper edge of cell c, the cell of the upper bound is at distance
    s(c) = max(0, A(c) − k, k − A(c − 1)),
0 if the k-th largest value is in it; the lower bound is its mirror image. A cell is drawn with probability proportional to
exp(−γ·s(c)), by the weights of quantiles.exponential: of n values, s(c) is the distance from rank n − k (from k, of the lower
bound). No number of rows is needed, and none is used.

k = 20/γ, rounded up: the 2^20 cells beyond all values are at distance k, and weigh 2^20·e^−20 = 0.002 together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, get_args

from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.mechanisms.base import Limits, option
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism, BoundsProblem
from dpspark.mechanisms.quantiles.exponential import COVER, LARGEST_EXPONENT, CellLaw, ordered_edges
from dpspark.privacy.budget import Budget, exponential_epsilon
from dpspark.privacy.cost import same
from dpspark.privacy.events import Event, Exponential
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import beyond_spread, values_beyond

Side = Literal["lower", "upper"]
SIDES: tuple[Side, ...] = get_args(Side)
DEPTH = 20  # γ·k
HEADROOM = 1.5


@dataclass(frozen=True)
class RankOptions:
    headroom: float = option(Limits("How many times wider than what was found, on each side.", least=1), HEADROOM)


@dataclass(frozen=True)
class RankBounds(BoundsMechanism):
    """`rank`: the cells of about the k-th smallest and the k-th largest value of each column, with head-room.

    Privacy
        Unit         one record, as `Records` says
        Requires     the counts of exact.histogram: a row adds 1 to one cell of each axis, or nothing
        Sensitivity  sensitivity.values_beyond, of each bound's utility
        Guarantee    each draw is pure with epsilon_each = 2·γ·sensitivity; together count·epsilon_each, or
                     count·epsilon_each²/8-zCDP, whichever lets each have more. Order and head-room are post-processing
        Source       McSherry & Talwar (2007), Theorem 6; bounds by rank: Huang, Liang & Yi (2021), Amin et al. (2019)
        Public       the search ranges, k, γ, the head-room; the bounds, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_rank_bounds.py
    """

    name: ClassVar[str] = "rank"
    words: ClassVar[str] = "Cells near the k-th smallest and largest value are exponentially more likely to be drawn."
    Options: ClassVar[type] = RankOptions
    least_rows: ClassVar[int] = 10_000
    limitation: ClassVar[str] = (
        "Some bounds were found in the data, with noise, by rank: few values are outside them if there are many rows. Of "
        "fewer than 10,000 rows most values may be."
    )
    problem: BoundsProblem
    epsilon_each: float
    route: str  # pure or zcdp
    exponent: float  # γ: what one more value beyond costs
    rank: int  # k

    @classmethod
    def for_budget(cls, problem: BoundsProblem, budget: Budget, options: None = None) -> Self:
        """An equal part of the budget for each side of each column; every rounding is towards less of it."""
        most, route = exponential_epsilon(budget, len(SIDES) * len(problem.axes))
        each = most * COVER
        if each < 1e-12:
            raise ConfError(f"Each bound has epsilon={each:g}: too little. Use a larger epsilon or epsilon_share.")
        exponent = min(math.nextafter(each / beyond_spread(problem.records.rows), 0), LARGEST_EXPONENT)
        return cls(problem, each, route, exponent, _rank(exponent))

    @classmethod
    def from_facts(cls, problem: BoundsProblem, facts: Facts, claimed: Budget) -> Self:
        """Take the exponent of a manifest, and no less for epsilon than it costs."""
        exponent = facts.positive("exponent")
        each = max(facts.positive("epsilon_each"), exponent * beyond_spread(problem.records.rows))
        return cls(problem, each, facts.text("calibration"), exponent, _rank(exponent))

    def release(self, histogram: ExactHistogram, noise: NoiseSource) -> dict[str, tuple[float, float]]:
        found = {}
        for axis in self.problem.axes:
            low, high = (self.law(histogram, axis, side).draw(noise) for side in SIDES)
            lower, upper = self.widen(low, high, axis.cells)
            found[axis.name] = axis.edge(lower), axis.edge(upper)
        return found

    def law(self, histogram: ExactHistogram, axis: Axis, side: Side) -> CellLaw:
        """The distribution of the cell of one bound."""
        cells, counts = histogram.reveal(axis.name)
        target = self.rank if side == "lower" else int(counts.sum()) - self.rank
        return CellLaw.at_rank(cells, counts, axis.cells, Fraction(target), self.exponent)

    def widen(self, lower: int, upper: int, grid: int) -> tuple[int, int]:
        """Find the edges that two drawn cells become: in order, with head-room in whole cells, inside the search range."""
        first, last = ordered_edges(lower, upper, grid)
        more = math.ceil((Fraction(self.problem.options.headroom) - 1) * (last - first))
        return max(0, first - more), min(grid, last + more)

    def events(self) -> tuple[Event, ...]:
        return (Exponential(self.epsilon_each, len(SIDES) * len(self.problem.axes)),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return values_beyond(self.problem.records.rows), "values beyond a cell"

    def noise_in_words(self) -> str:
        return (
            f"both sides by rank, each with epsilon={self.epsilon_each:.3g}: about {self.rank:,} values beyond, before "
            f"head-room. For {self.least_rows:,} rows or more"
        )

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states and is not what was asked for, or costs more than it says."""
        found, differs = self.facts(), []
        if (stated.text("method"), stated.number("headroom")) != (self.name, found["headroom"]):
            differs.append("bounds: another method or head-room than asked for")
        axes = [(one.text("column"), one.numbers("search"), one.whole("cells")) for one in stated.parts("axes")]
        if axes != [(axis.name, (axis.lowest, axis.highest), axis.cells) for axis in self.problem.axes]:
            differs.append("axes: others than those asked for")
        told, own = stated.part("sensitivity"), found["sensitivity"]
        if (told.number("value"), told.whole("rows_per_record")) != (own["value"], own["rows_per_record"]):
            differs.append("sensitivity")
        if stated.whole("rank") != self.rank:
            differs.append("rank")
        if not same(stated.number("epsilon_each"), self.epsilon_each):
            differs.append("epsilon_each")
        return tuple(differs)

    def facts(self) -> dict[str, Any]:
        value, norm = self.sensitivity_in_words()
        return {
            "method": self.name,
            "sampler": "exponential mechanism on the cells of a public grid, by exact integer weights, drawn once",
            "calibration": self.route,
            "epsilon_each": self.epsilon_each,
            "exponent": self.exponent,
            "rank": self.rank,
            "headroom": self.problem.options.headroom,
            "axes": [
                {"column": axis.name, "search": [axis.lowest, axis.highest], "cells": axis.cells}
                for axis in self.problem.axes
            ],
            "sensitivity": {"value": value, "norm": norm, "rows_per_record": self.problem.records.rows},
        }


def _rank(exponent: float) -> int:
    return math.ceil(Fraction(DEPTH) / Fraction(exponent))
