"""Quantiles of columns by the exponential mechanism on a public grid, drawn exactly.

The candidates are the grid's cells. With b(c) values in cells below c, u(c) values up to and in it, and n in all, cell c is at
distance max(0, b(c) − p·n, p·n − u(c)) from the p-quantile: 0 if it holds it, however many values it holds. It is drawn with
probability proportional to exp(−γ·min(distance, reach)). Cells between two occupied ones have one distance: they are drawn as
one run, then one of them uniformly.

Why no delta is added: a distance cut off at the public `reach` moves no more than the distance itself, so the law above is
the exponential mechanism of that utility, pure as it stands. Its weights lie between 2^−128 and 1 and are computed as whole
multiples of 2^−512: each is within a factor 1 ± 2^−300 of what it should be, and so is, twice over, every probability. What
that adds to epsilon is less than 2^−297, and γ is smaller than the budget allows by a factor 1 − 2^−40.
The draw is a uniform whole number below the sum of the weights, by rejection: exact.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts
from dpspark.core.records import Change, Records
from dpspark.errors import ConfError
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism, Problem
from dpspark.mechanisms.quantiles.group_kernel import GroupQuantiles
from dpspark.mechanisms.quantiles.published import QuantileRow, shown_quantiles
from dpspark.privacy.budget import Budget, exponential_epsilon
from dpspark.privacy.cost import same
from dpspark.privacy.events import Event, Exponential
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import groups_drawn_apart, rank_distance, rank_spread
from dpspark.privacy.weights import BITS, exp_minus

FAINTEST = 128 * math.log(2)  # γ·reach: an edge out of reach has a weight of 2^−128
COVER = 1 - 2.0**-40  # leaves room for the rounding of the weights, many times over
LARGEST_EXPONENT = 1e6  # γ: one more rank is already e^1000000 times less likely


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of columns, each at its own probabilities, all within one budget.

    Privacy
        Unit         one record: `change` says what it does to its `rows_per_record` rows
        Requires     the counts of exact.histogram: a row adds 1 to one cell of each axis, or nothing
        Sensitivity  sensitivity.rank_distance, of each quantile's utility
        Guarantee    each draw is pure with epsilon_each = 2·γ·sensitivity; together count·epsilon_each, or
                     count·epsilon_each²/8-zCDP, whichever lets each have more
        Source       McSherry & Talwar (2007), Theorem 6; its zCDP: Rogers & Steinke (2021), Cesar & Rogers (2021)
        Public       the axes, the probabilities, epsilon_each
        Excluded     timing
        Tested by    tests/mechanisms/test_quantile.py
    """

    targets: tuple[tuple[Axis, float], ...]
    change: Change
    rows_per_record: int
    epsilon_each: float
    route: str  # pure or zcdp

    @classmethod
    def for_budget(
        cls, targets: Sequence[tuple[Axis, float]], change: Change, rows_per_record: int, budget: Budget
    ) -> Quantiles:
        """An equal part of the budget for each; every rounding is towards less of it."""
        most, route = exponential_epsilon(budget, len(targets))
        each = most * COVER
        if each < 1e-12:
            raise ConfError(
                f"Each quantile has epsilon={each:g}: too little. Use a larger epsilon or share, or fewer quantiles."
            )
        return cls(tuple(targets), change, rows_per_record, each, route)

    @classmethod
    def from_facts(cls, targets: Sequence[tuple[Axis, float]], records: Records, facts: Facts) -> Quantiles:
        """Take the exponents of a manifest, and no less for epsilon than they cost."""
        costs = [
            one.positive("exponent") * rank_spread(one.number("probability"), records.change, records.rows)
            for one in facts.parts("quantiles")
        ]
        each = max([facts.positive("epsilon_each"), *costs])
        return cls(tuple(targets), records.change, records.rows, each, facts.text("calibration"))

    def events(self, groups: int = 1) -> tuple[Event, ...]:
        """Say what is drawn, in each of the groups that a record can change."""
        return (Exponential(self.epsilon_each, groups * len(self.targets)),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        ranks = [rank_distance(probability, self.change, self.rows_per_record) for _, probability in self.targets]
        return max(ranks, default=0.0), "distance of ranks"

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states and is not what was asked for, or costs more than it says."""
        found, differs = stated.parts("quantiles"), []
        if [(one.text("column"), one.number("probability")) for one in found] != [(a.name, p) for a, p in self.targets]:
            differs.append("quantiles: others than those asked for")
        ranges = {axis.name: (axis.lowest, axis.highest) for axis, _ in self.targets}
        if any(one.numbers("search") != ranges.get(one.text("column")) for one in found):
            differs.append("quantiles: other search ranges than those asked for")
        told = stated.part("sensitivity")
        if (told.text("change"), told.whole("rows_per_record")) != (self.change, self.rows_per_record):
            differs.append("sensitivity")
        if not same(stated.number("epsilon_each"), self.epsilon_each):
            differs.append("epsilon_each")
        return tuple(differs)

    def exponent(self, probability: float) -> float:
        """γ: what one rank away from the target costs."""
        most = self.epsilon_each / rank_spread(probability, self.change, self.rows_per_record)
        return min(most, LARGEST_EXPONENT)

    def release(self, histogram: ExactHistogram, noise: NoiseSource) -> list[int]:
        """The number of each target's cell, drawn once."""
        return [self.law(histogram, axis, probability).draw(noise) for axis, probability in self.targets]

    def law(self, histogram: ExactHistogram, axis: Axis, probability: float) -> CellLaw:
        return CellLaw.of(*histogram.reveal(axis.name), axis.cells, probability, self.exponent(probability))

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "exponential mechanism on the cells of a public grid, by exact integer weights, drawn once",
            "calibration": self.route,
            "epsilon_each": self.epsilon_each,
            "quantiles": [
                {
                    "column": axis.name,
                    "search": [axis.lowest, axis.highest],
                    "cells": axis.cells,
                    "probability": probability,
                    "exponent": self.exponent(probability),
                }
                for axis, probability in self.targets
            ],
            "sensitivity": {
                "norm": "distance of ranks",
                "change": self.change,
                "rows_per_record": self.rows_per_record,
            },
        }


@dataclass(frozen=True, kw_only=True)
class QuantileProblem(Problem):
    """Quantiles of every numeric column, at the same probabilities."""

    probabilities: tuple[float, ...]

    @property
    def targets(self) -> tuple[tuple[Axis, float], ...]:
        axes = [Axis(column.name, column.lower, column.upper) for column in self.domain.numeric]
        return tuple((axis, probability) for axis in axes for probability in self.probabilities)


@dataclass(frozen=True)
class ExponentialQuantiles(Mechanism):
    """`exponential`: every column at every probability, of a whole table or of each group."""

    kind: ClassVar[Kind] = "quantiles"
    name: ClassVar[str] = "exponential"
    words: ClassVar[str] = "Better values are exponentially more likely to be drawn."
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    problem: QuantileProblem
    quantiles: Quantiles

    @classmethod
    def for_budget(cls, problem: QuantileProblem, budget: Budget, options: Any = None) -> Self:
        records = problem.records
        # A record that moves between groups changes two of them: each has half.
        half = budget.part(Fraction(1, groups_drawn_apart(records)))
        return cls(problem, Quantiles.for_budget(problem.targets, records.change, records.rows, half))

    @classmethod
    def from_facts(cls, problem: QuantileProblem, facts: Facts, claimed: Budget) -> Self:
        return cls(problem, Quantiles.from_facts(problem.targets, problem.records, facts))

    @property
    def domain(self) -> Domain:
        return self.problem.domain

    @property
    def count_is_public(self) -> bool:
        return False

    def events(self) -> tuple[Event, ...]:
        return self.quantiles.events(groups_drawn_apart(self.problem.records))

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.quantiles.sensitivity_in_words()

    def differences(self, stated: Facts) -> tuple[str, ...]:
        return self.quantiles.differences(stated)

    def noise_in_words(self) -> str:
        return f"epsilon={self.quantiles.epsilon_each:.4g} for each of {len(self.quantiles.targets)} quantiles"

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(dict.fromkeys(axis for axis, _ in self.quantiles.targets))

    @property
    def kernel(self) -> GroupQuantiles:
        """The same law, for a group on an executor."""
        targets = self.quantiles.targets
        return GroupQuantiles(tuple((axis, p, self.quantiles.exponent(p) * COVER) for axis, p in targets))

    def release(self, histogram: ExactHistogram, noise: NoiseSource) -> list[float]:
        """The middle of the cell that was drawn for each target."""
        cells = self.quantiles.release(histogram, noise)
        return [
            (axis.edge(cell) + axis.edge(cell + 1)) / 2
            for (axis, _), cell in zip(self.quantiles.targets, cells, strict=True)
        ]

    def shown(self, drawn: Sequence[float], rows: float | None, counted: bool = False) -> list[QuantileRow]:
        """The drawn values as they are published; `rows` is how many there are, as far as that is public."""
        return shown_quantiles(self.kernel.targets, drawn, rows, counted)

    def facts(self) -> dict[str, Any]:
        return self.quantiles.facts()


@dataclass(frozen=True, repr=False)
class CellLaw:
    """The distribution of one quantile's cell: runs of cells that are equally likely. As private as the counts."""

    first: list[int]  # cell of each run
    weights: list[int]  # of one cell in each run
    sums: list[int]  # of all cells up to the end of each run

    @classmethod
    def of(cls, cells: np.ndarray, counts: np.ndarray, grid: int, probability: float, exponent: float) -> CellLaw:
        """The law of the cell of a quantile: the target is that share of all values."""
        return cls.at_rank(cells, counts, grid, Fraction(probability) * int(counts.sum()), exponent)

    @classmethod
    def at_rank(cls, cells: np.ndarray, counts: np.ndarray, grid: int, target: Fraction, exponent: float) -> CellLaw:
        """`cells` are the occupied ones, in order. Each is a run, and so is each gap between two of them.

        The target may be below 0 or above the number of values: then no cell is at distance 0.
        """
        total = np.concatenate([[0], np.cumsum(counts)])
        first, below, up_to = (np.empty(2 * len(cells) + 1, dtype=np.int64) for _ in range(3))
        first[1::2], below[1::2], up_to[1::2] = cells, total[:-1], total[1:]
        first[0::2], below[0::2], up_to[0::2] = np.concatenate([[0], cells + 1]), total, total
        sizes = np.diff(np.append(first, grid))
        kept = sizes > 0
        weights = cell_weights(below[kept], up_to[kept], target, exponent)
        sums = accumulate(w * n for w, n in zip(weights, sizes[kept].tolist(), strict=True))
        return cls(first[kept].tolist(), weights, list(sums))

    def draw(self, noise: NoiseSource) -> int:
        """The cell under a uniform whole number below the sum of all weights."""
        ticket = noise.below(self.sums[-1])
        run = bisect_right(self.sums, ticket)
        return self.first[run] + (ticket - (self.sums[run - 1] if run else 0)) // self.weights[run]


def cell_weights(below: np.ndarray, up_to: np.ndarray, target: Fraction, exponent: float) -> list[int]:
    """2^BITS·exp(−exponent·min(distance, reach)) for each run, as whole numbers; `below` and `up_to` rise."""
    gamma = Fraction(exponent)
    reach = Fraction(FAINTEST) / gamma
    faintest = exp_minus(Fraction(FAINTEST))
    # Left of the target, at it, right of it. Beyond reach there is one weight for all, and no long arithmetic.
    left, right = (
        int(np.searchsorted(up_to, math.ceil(target), "left")),
        int(np.searchsorted(below, math.floor(target), "right")),
    )
    start = min(left, int(np.searchsorted(up_to, math.ceil(target - reach), "left")))
    stop = max(right, int(np.searchsorted(below, math.floor(target + reach), "right")))
    return [
        *[faintest] * start,
        *_falling(up_to[start:left][::-1].tolist(), target, gamma)[::-1],
        *[1 << BITS] * (right - left),
        *_falling(below[right:stop].tolist(), target, gamma),
        *[faintest] * (len(below) - stop),
    ]


def _falling(ranks: Sequence[int], target: Fraction, gamma: Fraction) -> list[int]:
    """The weights of ranks that go away from the target: each is the one before times e^(−γ·step).

    2^20 products, each cut off at 2^−384 of a weight or less, lose less than 2^−360 of it.
    """
    if not ranks:
        return []
    weights = [exp_minus(gamma * abs(ranks[0] - target))]
    factors: dict[int, int] = {}
    for before, rank in pairwise(ranks):
        step = abs(rank - before)
        if step not in factors:
            factors[step] = exp_minus(gamma * step)
        weights.append(weights[-1] * factors[step] >> BITS)
    return weights


def ordered_edges(lower: int, upper: int, grid: int) -> tuple[int, int]:
    """The outer edges of two cells, as bounds. Where the noise has the cells in the wrong order they change places; edges
    closer than a 1024th of the grid move apart to that, evenly and inside the grid. Post-processing: no cost.
    """
    first, last = min(lower, upper), max(lower, upper) + 1
    width = max(1, grid // 1024)
    if last - first >= width:
        return first, last
    start = min(max(0, (first + last - width) // 2), grid - width)
    return start, start + width
