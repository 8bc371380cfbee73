"""Discrete noise on a vector of exact counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from dpspark.core.domain import Domain
from dpspark.core.records import Change
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import Route, distance_from_rounded, largest_mu
from dpspark.privacy.noise import LARGEST_SCALE, LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import clipped_l1, clipped_l2

FINE = 1 << 20  # counts are multiplied by it, so that the noise has a grid fine enough for the analytic route
SIDES = ("lower", "upper")


@dataclass(frozen=True)
class NoisyShares:
    """Shares of the release's rows, with noise; NaN if the noise leaves no rows."""

    column: tuple[str, ...]
    side: tuple[str, ...]
    share: tuple[float, ...]
    noise_std: tuple[float, ...]


@dataclass(frozen=True)
class ClippedCounts:
    """How many values of each numeric column were below and above its bounds, with noise.

    Privacy
        Unit         one record: `change` says what it does to its rows
        Requires     data.clipped: a row adds its weight to at most one side of a column
        Sensitivity  sensitivity.clipped_l2 (Gaussian) or clipped_l1 (Laplace), of all counts together
        Guarantee    (epsilon, delta) or rho by calibration.largest_mu; pure: epsilon = sensitivity / scale
        Source       as for mechanisms.gaussian and mechanisms.laplace
        Public       column names, bounds, scale
        Excluded     timing
        Tested by    tests/mechanisms/test_clipped.py
    """

    domain: Domain
    law: Literal["gaussian", "laplace"]
    sensitivity: float  # in rows
    scale: float  # in rows: sigma of a Gaussian, scale of a Laplace
    fine: int
    route: Route | None = None

    @classmethod
    def for_budget(cls, domain: Domain, change: Change, rows_per_record: int, budget: Budget) -> ClippedCounts:
        """The least noise within the budget; every rounding is towards more noise."""
        if budget.rho is None and not budget.delta:
            assert budget.epsilon is not None
            sensitivity = clipped_l1(domain, change, rows_per_record)
            return cls._at(domain, "laplace", sensitivity, budget.epsilon, None)
        sensitivity = clipped_l2(domain, change, rows_per_record)
        mu, route = largest_mu(budget, lambda mu: cls._at(domain, "gaussian", sensitivity, mu, "analytic").eta)
        return cls._at(domain, "gaussian", sensitivity, mu, route)

    @classmethod
    def _at(
        cls, domain: Domain, law: Literal["gaussian", "laplace"], sensitivity: float, loss: float, route: Route | None
    ) -> ClippedCounts:
        scale = sensitivity / loss * (1 + 1e-12) if loss > 0 else math.inf
        largest = LARGEST_SIGMA if law == "gaussian" else LARGEST_SCALE
        fine = FINE
        while fine > 1 and scale * _steps_per_row(domain, fine) > largest:
            fine //= 2
        if not 0 < scale * _steps_per_row(domain, fine) <= largest:
            raise ConfError(f"diagnostics: the budget asks for noise of {scale:g} rows, which cannot be drawn.")
        return cls(domain, law, sensitivity, scale, fine, route)

    @property
    def entries(self) -> int:
        return self.domain.clip_counts

    @property
    def steps(self) -> float:
        """The noise's scale in grid steps."""
        return self.scale * _steps_per_row(self.domain, self.fine)

    @property
    def eta(self) -> float:
        return distance_from_rounded(self.entries, self.steps)

    @property
    def noise_std(self) -> float:
        return self.scale if self.law == "gaussian" else math.sqrt(2) * self.scale

    def release(self, gram: ExactGram, noisy_rows: float, noise: NoiseSource) -> NoisyShares:
        """Draw the noise, once. `noisy_rows` is the released number of rows, unless it is counted here too."""
        draw = noise.discrete_gaussian if self.law == "gaussian" else noise.discrete_laplace
        draws = draw(self.steps, self.entries)
        noisy = [exact * self.fine + drawn for exact, drawn in zip(gram.reveal_clipped(), draws, strict=True)]
        counts = [count / _steps_per_row(self.domain, self.fine) for count in noisy]
        if not self.domain.first_entry_counts:
            noisy_rows = counts.pop()
        rows = noisy_rows if noisy_rows >= 1 else math.nan
        return NoisyShares(
            tuple(column.name for column in self.domain.numeric for _ in SIDES),
            SIDES * len(self.domain.numeric),
            tuple(count / rows for count in counts),
            (self.noise_std / rows,) * len(counts),
        )

    def facts(self) -> dict[str, Any]:
        norm = "l2" if self.law == "gaussian" else "l1"
        return {
            "sampler": f"exact discrete {self.law.title()}, independent for each column and side, drawn once",
            **({"calibration": self.route, "sampler_distance": self.eta} if self.route else {}),
            "scale": self.scale,
            "grid_steps_per_row": _steps_per_row(self.domain, self.fine),
            "sensitivity": {"value": self.sensitivity, "norm": f"{norm} of all counts"},
        }


def _steps_per_row(domain: Domain, fine: int) -> float:
    return fine if domain.weight is None else fine * (domain.weight.steps / domain.weight.most)
