"""The size at which residuals are clipped, drawn by rank from how many there are of each size.

quantiles.rank_draws has the law. The scale of octaves (exact.residuals) has fewer cells than a column's axis, so that fewer
residuals beyond are enough: k = 13/γ, rounded up, and all cells beyond all residuals weigh 640·e^−13 = 0.0014.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from dpspark.core.facts import Facts
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import HIGHEST_OCTAVE, LOWEST_OCTAVE, octave_axis, octave_size
from dpspark.mechanisms.quantiles.rank_draws import RankDraws
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Event
from dpspark.privacy.noise import NoiseSource

DEPTH = 13  # γ·k


@dataclass(frozen=True)
class ResidualClip:
    """Clips of some regressions' residuals, each drawn once.

    Privacy
        Unit         one record, whose rows have one residual each in every regression
        Requires     the counts of exact.residuals: a row adds 1 to one cell, or nothing; coefficients that are released
        Sensitivity  sensitivity.values_beyond
        Guarantee    that of quantiles.rank_draws.RankDraws
        Source       as for quantiles.rank_draws.RankDraws
        Public       the scale of octaves, k, γ; the clips, once they are published
        Excluded     timing
        Tested by    tests/mechanisms/test_refined.py
    """

    draws: RankDraws

    @classmethod
    def for_epsilon(cls, rows_per_record: int, epsilon: float, count: int = 1) -> Self:
        """Make draws that cost no more than epsilon together."""
        return cls(RankDraws.for_budget(rows_per_record, count, Budget(epsilon), DEPTH))

    @classmethod
    def from_facts(cls, rows_per_record: int, facts: Facts, count: int = 1) -> Self:
        """Read it back from a manifest."""
        return cls(RankDraws.from_facts(rows_per_record, count, facts, DEPTH))

    @property
    def epsilon(self) -> float:
        return self.draws.epsilon_each * self.draws.count

    @property
    def rank(self) -> int:
        return self.draws.rank

    def draw(self, histogram: ExactHistogram, name: str, noise: NoiseSource) -> float:
        """Draw the cell of one regression, and take its upper end."""
        return octave_size(self.draws.outer_edge(histogram, octave_axis(name), "upper", noise))

    def events(self) -> tuple[Event, ...]:
        return self.draws.events()

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states of it and is not so."""
        scale = (stated.numbers("octaves"), stated.whole("cells"))
        other = () if scale == ((LOWEST_OCTAVE, HIGHEST_OCTAVE), octave_axis("").cells) else ("scale",)
        return tuple(f"clip: {what}" for what in (*self.draws.differences(stated), *other))

    def facts(self) -> dict[str, Any]:
        return {
            **self.draws.facts(),
            "octaves": [LOWEST_OCTAVE, HIGHEST_OCTAVE],
            "cells": octave_axis("").cells,
        }
