"""Private bounds at two quantiles: a fixed share of the values is beyond each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dpspark.core.domain import Numeric, Side
from dpspark.core.facts import Facts
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.mechanisms.base import Limits, option
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism, BoundsProblem
from dpspark.mechanisms.quantiles.exponential import Quantiles, ordered_edges
from dpspark.mechanisms.quantiles.rank_draws import one_private_edge
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Event
from dpspark.privacy.noise import NoiseSource

LOWER, UPPER = 0.01, 0.99


@dataclass(frozen=True)
class PercentileOptions:
    lower_probability: float = option(Limits("Which quantile becomes the lower bound.", above=0, below=1), LOWER)
    upper_probability: float = option(Limits("Which quantile becomes the upper bound.", above=0, below=1), UPPER)


@dataclass(frozen=True)
class PercentileBounds(BoundsMechanism):
    """`percentile`: a lower and an upper quantile of each column, or one of them.

    Privacy
        Unit         one record, as `Records` says
        Requires     the counts of exact.histogram: a row adds 1 to one cell of each axis, or nothing
        Sensitivity  sensitivity.rank_distance, of each quantile's utility
        Guarantee    that of quantiles.exponential.Quantiles, one for each private side
        Source       McSherry & Talwar (2007), Theorem 6
        Public       the search ranges, the probabilities, epsilon_each; the bounds, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_quantile.py
    """

    name: ClassVar[str] = "percentile"
    words: ClassVar[str] = "Two noisy quantiles of the values in the search range become the bounds."
    Options: ClassVar[type] = PercentileOptions
    limitation: ClassVar[str] = (
        "Some bounds were found in the data, with noise: about the share of values that was asked for is outside them."
    )
    problem: BoundsProblem
    quantiles: Quantiles

    @classmethod
    def check_options(cls, options: PercentileOptions) -> None:
        lower, upper = options.lower_probability, options.upper_probability
        if not lower < upper:
            raise ValueError(
                f"lower_probability={lower:g}, upper_probability={upper:g}; expected the lower one to be smaller."
            )

    @classmethod
    def for_budget(cls, problem: BoundsProblem, budget: Budget, options: None = None) -> Self:
        records = problem.records
        return cls(problem, Quantiles.for_budget(_targets(problem), records.change, records.rows, budget))

    @classmethod
    def from_facts(cls, problem: BoundsProblem, facts: Facts, claimed: Budget) -> Self:
        return cls(problem, Quantiles.from_facts(_targets(problem), problem.records, facts))

    def share_beyond(self, side: Side, rows: float) -> float:
        options = self.problem.options
        return float(options.lower_probability if side == "lower" else 1 - options.upper_probability)

    @classmethod
    def left_beyond(cls, facts: Facts) -> list[tuple[str, Side, float, float]]:
        """The quantiles in the order in which they were drawn: of two of a column the lower first; of one, by its half."""
        found: list[tuple[str, Side, float, float]] = []
        for one in facts.parts("quantiles"):
            p, column = one.number("probability"), one.text("column")
            found.append((column, "lower", p, 0.0) if p < 0.5 else (column, "upper", 1 - p, 0.0))
        return found

    def release(self, histogram: ExactHistogram, noise: NoiseSource) -> dict[str, tuple[float, float]]:
        cells, found = iter(self.quantiles.release(histogram, noise)), {}
        for axis in self.problem.axes:
            drawn = {side: next(cells) for side in self.problem.sides(axis)}
            found[axis.name] = _bounds_at(axis, self.problem.column(axis), drawn)
        return found

    def events(self) -> tuple[Event, ...]:
        return self.quantiles.events()

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.quantiles.sensitivity_in_words()

    def noise_in_words(self) -> str:
        return f"{len(self.quantiles.targets)} quantiles, each with epsilon={self.quantiles.epsilon_each:.3g}"

    def differences(self, stated: Facts) -> tuple[str, ...]:
        return self.quantiles.differences(stated)

    def facts(self) -> dict[str, Any]:
        return self.quantiles.facts()


def _targets(problem: BoundsProblem) -> list[tuple[Any, float]]:
    of: dict[Side, float] = {"lower": problem.options.lower_probability, "upper": problem.options.upper_probability}
    return [(axis, of[side]) for axis in problem.axes for side in problem.sides(axis)]


def _bounds_at(axis: Axis, column: Numeric, drawn: dict[Side, int]) -> tuple[float, float]:
    """Find the bounds that the cells of a column's private sides become. Post-processing: no cost."""
    if column.public_side == "lower":
        return column.lower, one_private_edge(axis, drawn["upper"], "upper", column.lower, 1)
    if column.public_side == "upper":
        return one_private_edge(axis, drawn["lower"], "lower", column.upper, 1), column.upper
    lower, upper = ordered_edges(drawn["lower"], drawn["upper"], axis.cells)
    return axis.edge(lower), axis.edge(upper)
