"""What the mechanisms share that draw from Wishart laws in floating point: proved for one row, by an exact profile."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from dpspark.core.facts import Facts, Garbled
from dpspark.mechanisms.base import Currency, Limits, Problem
from dpspark.mechanisms.gram.base import GramMechanism
from dpspark.mechanisms.options import CALIBRATION
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import Cost, profile_cost
from dpspark.privacy.events import Approximate, Event
from dpspark.privacy.profiles import for_one_row
from dpspark.privacy.sensitivity import squared_row_norm

DEGREES = Limits("Of the Wishart or inverse Wishart law.", whole=True, least=1)


@dataclass(frozen=True)
class FloatingGram(GramMechanism):
    """A mechanism with (epsilon, delta) alone, whose sampler is floating point."""

    currencies: ClassVar[tuple[Currency, ...]] = ("both",)
    exact_sampler: ClassVar[bool] = False
    one_row: ClassVar[bool] = True
    budget: Budget
    replaced: bool  # a row may be replaced by another: two changes of one added row each
    calibration: str  # exact, or by the paper's theorem

    @property
    def count_is_public(self) -> bool:
        return False

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Compute the smallest delta at epsilon, for one row added or removed."""

    def cost(self) -> Cost:
        return profile_cost(self.delta, self.replaced)

    def events(self) -> tuple[Event, ...]:
        """Its (epsilon, delta): what a profile says more of is not kept."""
        assert self.budget.epsilon is not None
        assert self.budget.delta
        return (Approximate(self.budget.epsilon, self.budget.delta),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return squared_row_norm(self.domain), "squared l2 of a row"


def checked(problem: Problem) -> Problem:
    """Refuse what the proofs do not cover: more rows a record than one, and weights."""
    if problem.records.rows != 1 or problem.domain.weight is not None:
        raise ValueError("proved for one row a record, of weight 1")
    return problem


def checked_facts(name: str, problem: Problem, claimed: Budget) -> tuple[float, float]:
    """Refuse the same in a manifest, and a budget that has no delta. Returns what one added row must meet."""
    if problem.records.rows != 1 or problem.domain.weight is not None:
        raise Garbled(f"{name} is proved for one row a record, of weight 1")
    if claimed.epsilon is None or not claimed.delta:
        raise Garbled("this mechanism has epsilon and delta, and its budget has not")
    return for_one_row(claimed.epsilon, claimed.delta, problem.records.replaced)


def calibration_of(facts: Facts) -> str:
    """Read which constants a manifest's noise has."""
    return facts.text("calibration", *CALIBRATION.choices)
