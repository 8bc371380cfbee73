"""Discrete noise on a vector of exact counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism, Problem
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import Route, distance_from_rounded, largest_mu
from dpspark.privacy.events import Event
from dpspark.privacy.laws import GAUSSIAN, LAPLACE, LAWS, Law, law_for
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import clipped_l1, clipped_l2

FINE = 1 << 20  # counts are multiplied by it, so that the noise has a grid fine enough for the analytic route
SIDES = ("lower", "upper")
LAWS_BY_NORM: dict[str, Law] = {
    f"{law.norm} of all counts": law for law in LAWS.values()
}  # by the norm that each needs


@dataclass(frozen=True)
class NoisyShares:
    """Shares of the release's rows, with noise; NaN if the noise leaves no rows."""

    column: tuple[str, ...]
    side: tuple[str, ...]
    share: tuple[float, ...]
    noise_std: tuple[float, ...]


@dataclass(frozen=True)
class ClippedCounts(Mechanism):
    """The numbers of values of each numeric column below and above its bounds, with noise.

    Privacy
        Unit         one record: `Records` says what it does to its rows
        Requires     exact.clipped: a row adds its weight to at most one side of a column
        Sensitivity  sensitivity.clipped_l2 (Gaussian) or clipped_l1 (Laplace), of all counts together
        Guarantee    (epsilon, delta) or rho by calibration.largest_mu; pure: epsilon = sensitivity / scale
        Source       as for mechanisms.gram.gaussian and mechanisms.gram.laplace
        Public       column names, bounds, scale
        Excluded     timing
        Tested by    tests/mechanisms/test_clipped.py
    """

    kind: ClassVar[Kind] = "extra"
    name: ClassVar[str] = "diagnostics"
    words: ClassVar[str] = "Noise, added once to the number of values beyond each bound."
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    domain: Domain
    law: Law
    sensitivity: float  # in rows
    scale: float  # in rows: sigma of a Gaussian, scale of a Laplace
    steps_per_row: float  # of the grid on which the noise is drawn
    route: Route | str | None = None

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: None = None) -> Self:
        """The least noise within the budget; every rounding is towards more noise."""
        domain, law = problem.domain, law_for(budget)
        sensitivity = _moved(law, problem)
        if law is LAPLACE:
            assert budget.epsilon is not None
            return cls._at(domain, law, sensitivity, budget.epsilon, None)
        mu, route = largest_mu(budget, lambda mu: cls._at(domain, law, sensitivity, mu, "analytic").eta)
        return cls._at(domain, law, sensitivity, mu, route)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        law = LAWS_BY_NORM[facts.part("sensitivity").text("norm", *LAWS_BY_NORM)]
        scale, steps = facts.positive("scale"), facts.positive("grid_steps_per_row")
        route = facts.text("calibration") if law is GAUSSIAN else None
        return cls(problem.domain, law, _moved(law, problem), scale, steps, route)

    @classmethod
    def _at(cls, domain: Domain, law: Law, sensitivity: float, loss: float, route: Route | None) -> Self:
        scale = sensitivity / loss * (1 + 1e-12) if loss > 0 else math.inf
        fine = FINE
        while fine > 1 and scale * _steps_per_row(domain, fine) > law.largest:
            fine //= 2
        if not 0 < scale * _steps_per_row(domain, fine) <= law.largest:
            raise ConfError(f"diagnostics: the budget asks for noise of {scale:g} rows, which cannot be drawn.")
        return cls(domain, law, sensitivity, scale, _steps_per_row(domain, fine), route)

    @property
    def entries(self) -> int:
        return self.domain.clip_counts

    @property
    def fine(self) -> int:
        """The factor that exact counts are multiplied by."""
        return round(self.steps_per_row / _steps_per_row(self.domain, 1))

    @property
    def steps(self) -> float:
        """The noise's scale in grid steps."""
        return self.scale * self.steps_per_row

    @property
    def eta(self) -> float:
        return distance_from_rounded(self.entries, self.steps)

    @property
    def noise_std(self) -> float:
        return self.law.std(self.scale)

    def release(self, gram: ExactGram, noisy_rows: float, noise: NoiseSource) -> NoisyShares:
        """Draw the noise, once. `noisy_rows` is the released number of rows, unless it is counted here too."""
        draws = self.law.draw(noise, self.steps, self.entries)
        fine = self.fine
        noisy = [exact * fine + drawn for exact, drawn in zip(gram.reveal_clipped(), draws, strict=True)]
        counts = [count / self.steps_per_row for count in noisy]
        if not self.domain.first_entry_counts:
            noisy_rows = counts.pop()
        rows = noisy_rows if noisy_rows >= 1 else math.nan
        return NoisyShares(
            tuple(column.name for column in self.domain.numeric for _ in SIDES),
            SIDES * len(self.domain.numeric),
            tuple(count / rows for count in counts),
            (self.noise_std / rows,) * len(counts),
        )

    def events(self) -> tuple[Event, ...]:
        return (self.law.event(self.sensitivity / self.scale, self.eta),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.sensitivity, next(norm for norm, law in LAWS_BY_NORM.items() if law is self.law)

    def facts(self) -> dict[str, Any]:
        value, norm = self.sensitivity_in_words()
        return {
            "sampler": f"{self.law.sampler}, independent for each column and side, drawn once",
            **({"calibration": self.route, "sampler_distance": self.eta} if self.route else {}),
            "scale": self.scale,
            "grid_steps_per_row": self.steps_per_row,
            "sensitivity": {"value": value, "norm": norm},
        }


def _moved(law: Law, problem: Problem) -> float:
    """Compute how far one record moves all counts together, in the norm that the law needs."""
    of = clipped_l1 if law is LAPLACE else clipped_l2
    return of(problem.domain, problem.records.change, problem.records.rows)


def _steps_per_row(domain: Domain, fine: int) -> float:
    return fine if domain.weight is None else fine * (domain.weight.steps / domain.weight.most)
