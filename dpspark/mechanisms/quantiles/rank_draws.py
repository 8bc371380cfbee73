"""Draw a bound by rank: the cell of about the k-th largest (or smallest) value of an axis, for a public k, without a row count.

With A(c) values above the upper edge of cell c, the cell of an upper bound is at distance
    s(c) = max(0, A(c) − k, k − A(c − 1)),
0 if the k-th largest value is in it; the lower bound is its mirror image. A cell is drawn with probability proportional to
exp(−γ·s(c)), by the weights of quantiles.exponential: of n values, s(c) is the distance from rank n − k (from k, of the lower
bound). No number of rows is needed, and none is used.

k = 20/γ, rounded up: the 2^20 cells beyond all values are at distance k, and weigh 2^20·e^−20 = 0.002 together. Of fewer
candidates, such as those of quantiles.steps, less depth than 20 is enough.

To find one upper side of anything, such as of the size of residuals or of the norm of a group's sums:

    axis = Axis("residual", 0.0, largest)                           # a public range
    draws = RankDraws.for_budget(records.rows, 1, budget)           # one draw has all of the budget
    upper = draws.outer_edge(histogram, axis, "upper", noise)       # histogram: an ExactHistogram with that axis
    draws.events()      what the ledger is charged                  draws.facts()        what the manifest says
    RankDraws.from_facts(records.rows, 1, facts)                    reads them back, and .differences(facts) compares

`records.rows` is how many of the values that are counted one record can change. Head-room is post-processing
(`one_private_edge`). `quantiles.rank` finds the bounds of columns by these draws: one for each private side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from dpspark.core.domain import Side
from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.mechanisms.quantiles.exponential import COVER, LARGEST_EXPONENT, CellLaw
from dpspark.mechanisms.quantiles.steps import Steps
from dpspark.privacy.budget import ROUTES, Budget, exponential_epsilon
from dpspark.privacy.cost import same
from dpspark.privacy.events import Event, Exponential
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import beyond_spread, values_beyond

DEPTH = 20  # γ·k


@dataclass(frozen=True)
class RankDraws:
    """Sides that are drawn by rank: `count` of them, all at the same price.

    Privacy
        Unit         one record, which changes `rows_per_record` of the values that are counted
        Requires     the counts of exact.histogram: a value adds 1 to one cell of its axis, or nothing
        Sensitivity  sensitivity.values_beyond, of each side's utility
        Guarantee    each draw is pure with epsilon_each = 2·γ·sensitivity; together count·epsilon_each, or
                     count·epsilon_each²/8-zCDP, whichever lets each have more
        Source       McSherry & Talwar (2007), Theorem 6; bounds by rank: Huang, Liang & Yi (2021), Amin et al. (2019)
        Public       the axes, k, γ, epsilon_each
        Excluded     timing
        Tested by    tests/mechanisms/test_rank_bounds.py
    """

    rows_per_record: int
    count: int
    epsilon_each: float
    route: str  # pure or zcdp
    exponent: float  # γ: what one more value beyond costs
    rank: int  # k

    @classmethod
    def for_budget(cls, rows_per_record: int, count: int, budget: Budget, depth: int = DEPTH) -> Self:
        """An equal part of the budget for each draw; every rounding is towards less of it. Few cells need less `depth`."""
        most, route = exponential_epsilon(budget, count)
        each = most * COVER
        if each < 1e-12:
            raise ConfError(f"Each bound has epsilon={each:g}: too little. Use a larger epsilon or epsilon_share.")
        exponent = min(math.nextafter(each / beyond_spread(rows_per_record), 0), LARGEST_EXPONENT)
        return cls(rows_per_record, count, each, route, exponent, rank_for(exponent, depth))

    @classmethod
    def from_facts(cls, rows_per_record: int, count: int, facts: Facts, depth: int = DEPTH) -> Self:
        """Take the exponent of a manifest, and no less for epsilon than it costs."""
        exponent = facts.positive("exponent")
        each = max(facts.positive("epsilon_each"), exponent * beyond_spread(rows_per_record))
        return cls(
            rows_per_record, count, each, facts.text("calibration", *ROUTES), exponent, rank_for(exponent, depth)
        )

    def law(self, histogram: ExactHistogram, axis: Axis, side: Side, steps: Steps | None = None) -> CellLaw:
        """The distribution of the cell of one side; with steps, of the step."""
        cells, counts = histogram.reveal(axis.name)
        target = self.rank if side == "lower" else int(counts.sum()) - self.rank
        if steps is not None:
            return CellLaw.at_rank(*steps.gather(cells, counts), steps.count, Fraction(target), self.exponent)
        return CellLaw.at_rank(cells, counts, axis.cells, Fraction(target), self.exponent)

    def draw(self, histogram: ExactHistogram, axis: Axis, side: Side, noise: NoiseSource) -> int:
        """The cell of one side, drawn once."""
        return self.law(histogram, axis, side).draw(noise)

    def outer_edge(self, histogram: ExactHistogram, axis: Axis, side: Side, noise: NoiseSource) -> float:
        """Draw the cell of one side, and take its upper edge as an upper bound, or its lower edge as a lower one."""
        return axis.edge(self.draw(histogram, axis, side, noise) + (side == "upper"))

    def events(self) -> tuple[Event, ...]:
        return (Exponential(self.epsilon_each, self.count),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return values_beyond(self.rows_per_record), "values beyond a cell"

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states and is not what was asked for, or costs more than it says."""
        told, (value, _) = stated.part("sensitivity"), self.sensitivity_in_words()
        own, differs = self.facts(), []
        if not (stated.says(own, "sampler") and told.says(own["sensitivity"], "norm")):
            differs.append("sampler or norm")
        if (told.number("value"), told.whole("rows_per_record")) != (value, self.rows_per_record):
            differs.append("sensitivity")
        if stated.whole("rank") != self.rank:
            differs.append("rank")
        if not same(stated.number("epsilon_each"), self.epsilon_each):
            differs.append("epsilon_each")
        return tuple(differs)

    def facts(self) -> dict[str, Any]:
        value, norm = self.sensitivity_in_words()
        return {
            "sampler": "exponential mechanism on the cells of a public grid, by exact integer weights, drawn once",
            "calibration": self.route,
            "epsilon_each": self.epsilon_each,
            "exponent": self.exponent,
            "rank": self.rank,
            "sensitivity": {"value": value, "norm": norm, "rows_per_record": self.rows_per_record},
        }


def rank_for(exponent: float, depth: int = DEPTH) -> int:
    """k, the public number of values that are left beyond, for γ."""
    return math.ceil(Fraction(depth) / Fraction(exponent))


def one_private_edge(axis: Axis, cell: int, side: Side, public: float, headroom: float) -> float:
    """Find the bound that one drawn cell becomes, where the other side is public. Post-processing: no cost.

    The cell's outer edge, at least a 1024th of the search range away from the public side; then `headroom` times as far from
    it, rounded outwards to an edge, and no further than the search range.
    """
    low, high, fixed = Fraction(axis.lowest), Fraction(axis.highest), Fraction(public)
    least, room = (high - low) / 1024, Fraction(headroom)
    if side == "upper":
        found = low + (high - low) * (cell + 1) / axis.cells
        wide = fixed + room * max(found - fixed, least)
        return axis.edge(min(axis.cells, math.ceil((wide - low) / (high - low) * axis.cells)))
    found = low + (high - low) * cell / axis.cells
    wide = fixed - room * max(fixed - found, least)
    return axis.edge(max(0, math.floor((wide - low) / (high - low) * axis.cells)))
