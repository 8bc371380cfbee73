"""The clip of residuals: about the k-th largest |y − xβ| of each regression whose meat is released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import octave_axis, octave_size, octaves
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism, Problem
from dpspark.mechanisms.errors.asked import AskedErrors
from dpspark.mechanisms.quantiles.rank_draws import RankDraws
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Event
from dpspark.privacy.noise import NoiseSource

# Of the budget. Noise grows with R², and residuals beyond R are made up for: few of them need to be found exactly.
CLIP_SHARE = Fraction(1, 50)
LARGEST_RESIDUAL = 2.0  # half-ranges: of predictions that are within the bounds
LARGEST_BEYOND = 1.5  # how many times as long as the second largest residual the largest is taken to be


@dataclass(frozen=True)
class ResidualBounds(Mechanism):
    """The size that residuals are clipped to, for each regression: drawn by rank, without head-room.

    Privacy
        Unit         one record, as `Records` says
        Requires     the counts of exact.residuals: a row adds 1 to one cell for each regression, or nothing; coefficients that
                     are published
        Sensitivity  sensitivity.values_beyond, of each draw's utility
        Guarantee    that of quantiles.rank_draws.RankDraws, one draw for each regression
        Source       McSherry & Talwar (2007), Theorem 6
        Public       formulas, k, γ; the clips, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_meats.py, tests/mechanisms/test_rank_bounds.py
    """

    kind: ClassVar[Kind] = "extra"
    name: ClassVar[str] = "residual bounds"
    words: ClassVar[str] = "Sizes near that of the k-th largest residual are exponentially more likely to be drawn."
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    asked: AskedErrors
    draws: RankDraws

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: None = None) -> Self:
        """An equal part of the budget for each regression."""
        assert problem.errors is not None
        return cls(problem.errors, RankDraws.for_budget(problem.records.rows, len(problem.errors.texts), budget))

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        assert problem.errors is not None
        draws = RankDraws.from_facts(problem.records.rows, len(problem.errors.texts), facts)
        return cls(problem.errors, draws)

    def release(self, histogram: ExactHistogram, noise: NoiseSource) -> tuple[float, ...]:
        """Draw the clips, once: upper edges of cells, in half-ranges of each response."""
        edges = (self.draws.outer_edge(histogram, octave_axis(text), "upper", noise) for text in self.asked.texts)
        return tuple(octave_size(edge) for edge in edges)

    def events(self) -> tuple[Event, ...]:
        return self.draws.events()

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.draws.sensitivity_in_words()

    def noise_in_words(self) -> str:
        return f"about {self.draws.rank:,} residuals beyond it"

    def differences(self, stated: Facts) -> tuple[str, ...]:
        named = () if stated.texts("regressions") == self.asked.texts else ("regressions: others than asked for",)
        return (*named, *self.draws.differences(stated))

    def facts(self) -> dict[str, Any]:
        return {**self.draws.facts(), "regressions": list(self.asked.texts)}


def widened(drawn: float, quiet: float, rank: int) -> float:
    """Choose the clip: what was drawn, or more where noise allows it, up to the largest residual that a fit should have.

    Where the rank is 1, as of a very large budget, one residual at most is beyond what was drawn: little more is needed. An
    edge of a cell. Post-processing: all are released or public.
    """
    axis = octave_axis("")
    most = min(quiet, LARGEST_RESIDUAL, LARGEST_BEYOND * drawn if rank == 1 else math.inf)
    if not most > drawn:
        return drawn
    at = float(octaves(np.array([most]))[0])
    cell = math.floor((at - axis.lowest) / (axis.highest - axis.lowest) * axis.cells)
    return max(drawn, octave_size(axis.edge(max(1, cell))))
