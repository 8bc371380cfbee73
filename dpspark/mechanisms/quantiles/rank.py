"""Private bounds by rank: about as many values are beyond a bound as the noise of finding it is worth, however many there are.

A fixed share of the values beyond the bounds is a bias that stays while noise shrinks with more rows. Here a fixed number of
them is, k, and head-room on top. Each private side is one draw of quantiles.rank_draws, which has the law and says how to find
one side of anything else, among the candidates of quantiles.steps: they widen away from the public side, or from 0 where both
are private. k = 12/γ: some 300 of them beyond all values weigh 300·e^−12 = 0.002 together. A side that is public is not drawn,
and costs nothing.

Both sides private, of width w between the outer edges of the two cells: each moves out by (headroom − 1)·w. One private, the
other public: its distance from the public one is multiplied by headroom. Neither goes beyond the search range.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from dpspark.core.domain import SIDES, Side
from dpspark.core.facts import Facts
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.mechanisms.base import Limits, option
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism, BoundsProblem
from dpspark.mechanisms.quantiles.exponential import CellLaw, ordered_edges
from dpspark.mechanisms.quantiles.rank_draws import RankDraws, one_private_edge
from dpspark.mechanisms.quantiles.steps import Steps
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Event
from dpspark.privacy.noise import NoiseSource

# Rows, as multiples of k: measured on log-normal values, with many zeros, and with Pareto tails, at epsilon 0.1 and 1.
FEWEST, LEAST, ENOUGH = 10_000, 10, 100
TAIL = 3.0
DEPTH = 12  # γ·k
HEADROOM = 1.35  # 1.1 to 1.5 times the best cap's total error, which had all of the budget (experiments real-bounds)


@dataclass(frozen=True)
class RankOptions:
    headroom: float = option(Limits("How many times wider than what was found, on each side.", least=1), HEADROOM)


@dataclass(frozen=True)
class RankBounds(BoundsMechanism):
    """`rank`: the cells of about the k-th smallest and the k-th largest value of each column, or one of them, with head-room.

    Privacy
        Unit         one record, as `Records` says
        Requires     the counts of exact.histogram: a row adds 1 to one cell of each axis, or nothing
        Sensitivity  sensitivity.values_beyond, of each bound's utility
        Guarantee    that of quantiles.rank_draws.RankDraws, one for each private side. Order and head-room are
                     post-processing
        Source       McSherry & Talwar (2007), Theorem 6; bounds by rank: Huang, Liang & Yi (2021), Amin et al. (2019)
        Public       the search ranges, k, γ, the head-room; the bounds, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_rank_bounds.py
    """

    name: ClassVar[str] = "rank"
    words: ClassVar[str] = "Cells near the k-th smallest and largest value are exponentially more likely to be drawn."
    Options: ClassVar[type] = RankOptions
    limitation: ClassVar[str] = (
        "Some bounds were found in the data, with noise, by rank: about a fixed number of values is outside them, few if there "
        "are many rows, and most of them if there are not."
    )
    problem: BoundsProblem
    draws: RankDraws

    @classmethod
    def for_budget(cls, problem: BoundsProblem, budget: Budget, options: None = None) -> Self:
        """An equal part of the budget for each private side of each column."""
        return cls(problem, RankDraws.for_budget(problem.records.rows, problem.private_sides, budget, DEPTH))

    @classmethod
    def from_facts(cls, problem: BoundsProblem, facts: Facts, claimed: Budget) -> Self:
        return cls(problem, RankDraws.from_facts(problem.records.rows, problem.private_sides, facts, DEPTH))

    @property
    def rank(self) -> int:
        """k: about how many values are beyond each side, before head-room."""
        return self.draws.rank

    @property
    def room(self) -> float:
        return float(self.problem.options.headroom)

    def share_beyond(self, side: Side, rows: float) -> float:
        return min(1.0, self.rank / rows)

    @classmethod
    def left_beyond(cls, facts: Facts) -> list[tuple[str, Side, float, float]]:
        """k values, of which a tail of Pareto's index 3 leaves k/headroom³ beyond the head-room."""
        left = facts.whole("rank") / max(1.0, facts.number("headroom")) ** TAIL
        axes = facts.parts("axes")
        return [(one.text("column"), side, 0.0, left) for one in axes for side in SIDES if side in _sides_of(one)]

    @property
    def least_rows(self) -> int:
        """Ten times k: of fewer, more than a tenth is beyond a side before head-room, and about a twentieth after it."""
        return max(FEWEST, LEAST * self.rank)

    @property
    def enough_rows(self) -> int:
        """A hundred times k: then less than a hundredth is beyond a side, and of a skewed column a 300th after head-room."""
        return max(FEWEST, ENOUGH * self.rank)

    def release(self, histogram: ExactHistogram, noise: NoiseSource) -> dict[str, tuple[float, float]]:
        return {axis.name: self.release_one(histogram, axis, noise) for axis in self.problem.axes}

    def release_one(self, histogram: ExactHistogram, axis: Axis, noise: NoiseSource) -> tuple[float, float]:
        """Draw the private sides of one column."""
        steps = self.steps(axis)
        drawn = {side: self.law(histogram, axis, side).draw(noise) for side in self.problem.sides(axis)}
        return self.bounds_at(axis, {side: steps.outer_cell(step, side) for side, step in drawn.items()})

    def law(self, histogram: ExactHistogram, axis: Axis, side: Side) -> CellLaw:
        """The distribution of the step of one bound."""
        return self.draws.law(histogram, axis, side, self.steps(axis))

    def steps(self, axis: Axis) -> Steps:
        """Find the candidates of a column's bounds."""
        return Steps.around(axis, self.point(axis))

    def point(self, axis: Axis) -> float:
        """Find the point that they widen from: the public side, or 0; the nearest of the search range, if it is beyond."""
        column = self.problem.column(axis)
        points = {None: 0.0, "lower": column.lower, "upper": column.upper}
        return min(max(axis.lowest, points[column.public_side]), axis.highest)

    def bounds_at(self, axis: Axis, cells: dict[Side, int]) -> tuple[float, float]:
        """Find the bounds that the cells of a column's private sides become. Post-processing: no cost."""
        column, room = self.problem.column(axis), self.problem.options.headroom
        if column.public_side == "lower":
            return column.lower, one_private_edge(axis, cells["upper"], "upper", column.lower, room)
        if column.public_side == "upper":
            return one_private_edge(axis, cells["lower"], "lower", column.upper, room), column.upper
        lower, upper = self.widen(cells["lower"], cells["upper"], axis.cells)
        return axis.edge(lower), axis.edge(upper)

    def widen(self, lower: int, upper: int, grid: int) -> tuple[int, int]:
        """Find the edges that two drawn cells become: in order, with head-room in whole cells, inside the search range."""
        first, last = ordered_edges(lower, upper, grid)
        more = math.ceil((Fraction(self.problem.options.headroom) - 1) * (last - first))
        return max(0, first - more), min(grid, last + more)

    def events(self) -> tuple[Event, ...]:
        return self.draws.events()

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.draws.sensitivity_in_words()

    def noise_in_words(self) -> str:
        each, count = self.draws.epsilon_each, self.draws.count
        sides = "one side" if count == 1 else f"{count} sides"
        return (
            f"{sides} by rank, each with epsilon={each:.3g}: about {self.rank:,} values beyond, before head-room. Not for "
            f"fewer than {self.least_rows:,} rows, best from {self.enough_rows:,} on"
        )

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states and is not what was asked for, or costs more than it says."""
        found, differs = self.facts(), []
        if (stated.text("method"), stated.number("headroom")) != (self.name, found["headroom"]):
            differs.append("bounds: another method or head-room than asked for")
        axes = [(one.text("column"), one.numbers("search"), one.whole("cells")) for one in stated.parts("axes")]
        if axes != [(axis.name, (axis.lowest, axis.highest), axis.cells) for axis in self.problem.axes]:
            differs.append("axes: others than those asked for")
        if [one.number("widen_from") for one in stated.parts("axes")] != [
            self.point(axis) for axis in self.problem.axes
        ]:
            differs.append("axes: other candidates than those asked for")
        if [_sides_of(one) for one in stated.parts("axes")] != [self.problem.sides(axis) for axis in self.problem.axes]:
            differs.append("sides: others than those asked for")
        return (*differs, *self.draws.differences(stated))

    def facts(self) -> dict[str, Any]:
        return {
            "method": self.name,
            **self.draws.facts(),
            "headroom": self.problem.options.headroom,
            "axes": [
                {
                    "column": axis.name,
                    "search": [axis.lowest, axis.highest],
                    "cells": axis.cells,
                    "widen_from": self.point(axis),
                    "sides": list(self.problem.sides(axis)),
                }
                for axis in self.problem.axes
            ],
        }


def _sides_of(axis: Facts) -> tuple[str, ...]:
    """Read the sides that were drawn; both, where a manifest does not say."""
    return axis.texts("sides") if axis.has("sides") else SIDES
