"""Discrete Laplace noise on the exact second-moment matrix: pure differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dpspark.core.facts import Facts
from dpspark.core.records import Change
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Currency, Problem
from dpspark.mechanisms.gram.base import GramMechanism, GramOptions, check_count
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoisyGram
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import ROUNDED_UP, Event, Pure
from dpspark.privacy.noise import LARGEST_SCALE, NoiseSource
from dpspark.privacy.sensitivity import group_moments_l1


@dataclass(frozen=True)
class LaplaceGram(GramMechanism):
    """Discrete Laplace noise of one scale on every entry of the integer Gram matrix of bounded rows.

    Privacy
        Unit         one record: `change` says what it does to its row
        Requires     every row inside `domain` (bounds.grid_rows)
        Sensitivity  sensitivity.second_moment_l1: of all entries together, not of each
        Guarantee    epsilon = sensitivity / scale, pure
        Source       Dwork, McSherry, Nissim & Smith (2006); Ghosh, Roughgarden & Sundararajan (2009)
        Public       column names, bounds, scale; the number of rows only if rows are only replaced
        Excluded     timing
        Tested by    tests/mechanisms/test_laplace.py, tests/privacy/test_sensitivity.py
    """

    name: ClassVar[str] = "laplace"
    words: ClassVar[str] = "Laplace noise, added once to each entry of the matrix."
    currencies: ClassVar[tuple[Currency, ...]] = ("epsilon",)
    weighted: ClassVar[bool] = True
    change: Change
    sensitivity: float
    scale: float  # in units of 1.0

    @classmethod
    def check_currency(cls, given: Currency, options: GramOptions) -> None:
        if given != "epsilon":
            raise ValueError("mechanism laplace is pure: give privacy.epsilon alone, without delta or rho.")

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: GramOptions | None = None) -> Self:
        domain, epsilon = problem.domain, budget.epsilon
        assert epsilon is not None
        change, sensitivity = group_moments_l1(domain, problem.records)
        scale = sensitivity / epsilon * (1 + 1e-12)
        bits = domain.most_bits
        while bits > 0 and scale * domain.with_bits(bits).steps_per_row > LARGEST_SCALE:
            bits -= 1
        if not 0 < scale * domain.with_bits(bits).steps_per_row <= LARGEST_SCALE:
            raise ConfError(f"privacy.epsilon={epsilon:g} asks for noise of {scale:g} rows, which cannot be drawn.")
        return cls(domain.with_bits(bits), change, sensitivity, scale)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        change, sensitivity = group_moments_l1(problem.domain, problem.records)
        noise = facts.part("noise")
        noise.text("law", "laplace")
        check_count(noise.flag("count_is_exact"), change == "replaced")
        stds = [noise.positive(key) / math.sqrt(2) for key in ("diagonal_std", "off_diagonal_std")]
        return cls(problem.domain, change, sensitivity, min(facts.positive("scale"), *stds))

    @property
    def count_is_public(self) -> bool:
        return self.change == "replaced"

    @property
    def epsilon(self) -> float:
        return self.sensitivity / self.scale

    @property
    def noise(self) -> AdditiveNoise:
        std = math.sqrt(2) * self.scale
        return AdditiveNoise(std, std, self.count_is_public, "laplace")

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw the noise, once, and add it."""
        self._check_domain(gram)
        exact = gram.reveal()
        draws = noise.discrete_laplace(self.scale * self.domain.steps_per_row, len(exact))
        upper = [value + draw for value, draw in zip(exact, draws, strict=True)]
        if self.count_is_public:
            upper[0] = exact[0]
        return NoisyGram(self.domain, tuple(upper), self.noise)

    def events(self) -> tuple[Event, ...]:
        return (Pure(self.epsilon * ROUNDED_UP),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.sensitivity, "l1 of the upper triangle"

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "exact discrete Laplace, independent in each entry of the upper triangle, drawn once",
            "scale": self.scale,
            "sensitivity": {"value": self.sensitivity, "norm": "l1 of the upper triangle", "change": self.change},
        }
