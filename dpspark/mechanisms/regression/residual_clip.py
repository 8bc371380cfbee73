"""The size at which residuals are clipped, drawn by rank from how many there are of each size.

A cell of the scale of octaves (exact.residuals) is drawn with probability proportional to exp(−γ·s(c)), where s(c) says how
far it is from leaving k residuals beyond: quantiles.rank has the law. That scale has few cells, so that fewer residuals than a
column's bounds leave beyond are enough: k = 13/γ, rounded up, and all cells beyond all residuals weigh 640·e^−13 = 0.0014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import HIGHEST_OCTAVE, LOWEST_OCTAVE, octave_axis, octave_size
from dpspark.mechanisms.quantiles.exponential import COVER, LARGEST_EXPONENT, CellLaw
from dpspark.privacy.cost import same
from dpspark.privacy.events import Exponential
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import beyond_spread, values_beyond

DEPTH = 13  # γ·k


@dataclass(frozen=True)
class ResidualClip:
    """One draw of a clip.

    Privacy
        Unit         one record, whose `rows_per_record` rows have one residual each
        Requires     the counts of exact.residuals: a row adds 1 to one cell, or nothing; coefficients that are released
        Sensitivity  sensitivity.values_beyond
        Guarantee    pure with epsilon = 2·γ·sensitivity, or epsilon²/8-zCDP
        Source       McSherry & Talwar (2007), Theorem 6; bounds by rank: Huang, Liang & Yi (2021), Amin et al. (2019)
        Public       the scale of octaves, k, γ; the clip, once it is published
        Excluded     timing
        Tested by    tests/mechanisms/test_refined.py
    """

    rows_per_record: int
    epsilon: float
    exponent: float  # γ: what one more residual beyond costs
    rank: int  # k

    @classmethod
    def for_epsilon(cls, rows_per_record: int, epsilon: float) -> Self:
        """Make the draw that costs no more than epsilon."""
        epsilon *= COVER
        if epsilon < 1e-12:
            raise ConfError(f"The clip of residuals has epsilon={epsilon:g}: too little. Use a larger budget.")
        exponent = min(math.nextafter(epsilon / beyond_spread(rows_per_record), 0), LARGEST_EXPONENT)
        return cls(rows_per_record, epsilon, exponent, _rank(exponent))

    @classmethod
    def from_facts(cls, rows_per_record: int, facts: Facts) -> Self:
        """Take the exponent of a manifest, and no less for epsilon than it costs."""
        exponent = facts.positive("exponent")
        epsilon = max(facts.positive("epsilon"), exponent * beyond_spread(rows_per_record))
        return cls(rows_per_record, epsilon, exponent, _rank(exponent))

    def law(self, histogram: ExactHistogram, name: str) -> CellLaw:
        """The distribution of the cell."""
        cells, counts = histogram.reveal(name)
        target = Fraction(int(counts.sum()) - self.rank)
        return CellLaw.at_rank(cells, counts, octave_axis(name).cells, target, self.exponent)

    def draw(self, histogram: ExactHistogram, name: str, noise: NoiseSource) -> float:
        """Draw the cell, once, and take its upper end."""
        return octave_size(octave_axis(name).edge(self.law(histogram, name).draw(noise) + 1))

    def event(self) -> Exponential:
        return Exponential(self.epsilon)

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """List what a manifest states of it and is not so."""
        found, differs = self.facts(), []
        if (stated.numbers("octaves"), stated.whole("cells")) != (tuple(found["octaves"]), found["cells"]):
            differs.append("clip: another scale")
        if stated.whole("rank") != self.rank:
            differs.append("clip: rank")
        told = stated.part("sensitivity")
        if (told.number("value"), told.whole("rows_per_record")) != (
            values_beyond(self.rows_per_record),
            self.rows_per_record,
        ):
            differs.append("clip: sensitivity")
        if not same(stated.number("epsilon"), self.epsilon):
            differs.append("clip: epsilon")
        return tuple(differs)

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "exponential mechanism on the cells of a public scale, by exact integer weights, drawn once",
            "epsilon": self.epsilon,
            "exponent": self.exponent,
            "rank": self.rank,
            "octaves": [LOWEST_OCTAVE, HIGHEST_OCTAVE],
            "cells": octave_axis("").cells,
            "sensitivity": {
                "value": values_beyond(self.rows_per_record),
                "norm": "residuals beyond a cell",
                "rows_per_record": self.rows_per_record,
            },
        }


def _rank(exponent: float) -> int:
    return math.ceil(Fraction(DEPTH) / Fraction(exponent))
