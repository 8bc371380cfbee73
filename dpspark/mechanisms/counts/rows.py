"""Discrete noise on the number of rows, for whoever watches that as many come as did the last time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.row_count import ExactCount
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism, Problem
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.events import Event
from dpspark.privacy.laws import GAUSSIAN, LAPLACE, Law
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import row_count

ROUNDED_UP = 1 + 1e-12


@dataclass(frozen=True)
class NoisyCount:
    """A number of rows, and the standard deviation of its noise."""

    rows: int
    noise_std: float  # 0 where the number of rows is public


@dataclass(frozen=True)
class RowCount(Mechanism):
    """The number of rows that were used, with noise.

    For one count Laplace noise has the smaller error, so that delta is left alone; in rho it is Gaussian.

    Privacy
        Unit         one record: `Records` says what it does to its rows
        Requires     exact.row_count: a row adds 1 or nothing
        Sensitivity  sensitivity.row_count: whole rows, and the noise is whole too
        Guarantee    pure: epsilon = sensitivity / scale; zCDP: rho = (sensitivity / scale)² / 2
        Source       Canonne, Kamath & Steinke (2020), Theorem 4 and Section 5; Dwork et al. (2006), Proposition 1
        Public       scale; the number itself if records are always replaced by others
        Excluded     timing
        Tested by    tests/mechanisms/test_row_count.py
    """

    kind: ClassVar[Kind] = "extra"
    name: ClassVar[str] = "count"
    words: ClassVar[str] = "Noise, added once to the number of rows."
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    law: Law
    sensitivity: int
    scale: float

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: None = None) -> Self:
        """The least noise within the budget."""
        sensitivity = row_count(problem.records.change, problem.records.rows)
        if budget.rho is not None:
            return cls._checked(GAUSSIAN, sensitivity, sensitivity / math.sqrt(2 * budget.rho))
        assert budget.epsilon is not None
        return cls._checked(LAPLACE, sensitivity, sensitivity / budget.epsilon)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        sensitivity = row_count(problem.records.change, problem.records.rows)
        return cls(law_of_count(claimed), sensitivity, facts.positive("scale"))

    @classmethod
    def public(cls) -> Self:
        """Return the count of replaced records: it is known, and nothing is spent on it."""
        return cls(LAPLACE, 0, 0.0)

    @classmethod
    def _checked(cls, law: Law, sensitivity: int, scale: float) -> Self:
        if not scale * ROUNDED_UP <= law.largest:
            raise ConfError(f"count: the budget asks for noise of {scale:g} rows, which cannot be drawn.")
        return cls(law, sensitivity, scale * ROUNDED_UP)

    @property
    def noise_std(self) -> float:
        return count_std(self.law, self.scale)

    @property
    def eta(self) -> float:
        return distance_from_rounded(1, self.scale) if self.law is GAUSSIAN else 0.0

    def release(self, exact: ExactCount, noise: NoiseSource) -> NoisyCount:
        """Draw the noise, once."""
        if self.sensitivity == 0:
            return NoisyCount(exact.reveal(), 0.0)
        return NoisyCount(exact.reveal() + self.law.draw(noise, self.scale, 1)[0], self.noise_std)

    def events(self) -> tuple[Event, ...]:
        return (self.law.event(self.sensitivity / self.scale, self.eta),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.sensitivity, "number of rows"

    def facts(self) -> dict[str, Any]:
        value, norm = self.sensitivity_in_words()
        return {
            "sampler": f"{self.law.sampler}, drawn once",
            "scale": self.scale,
            "sensitivity": {"value": value, "norm": norm},
        }


def law_of_count(budget: Budget) -> Law:
    """Say which law a budget's count has: Laplace, but in rho."""
    return LAPLACE if budget.rho is None else GAUSSIAN


def count_std(law: Law, scale: float) -> float:
    """Compute the standard deviation of whole noise, however coarse."""
    if law is GAUSSIAN or scale == 0:
        return scale
    q = math.exp(-1 / scale)  # of the discrete Laplace law: variance 2q/(1 − q)²
    return math.sqrt(2 * q) / -math.expm1(-1 / scale)
