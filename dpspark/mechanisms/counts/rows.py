"""Discrete noise on the number of rows, for whoever watches that as many come as did the last time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from dpspark.core.records import Change
from dpspark.errors import ConfError
from dpspark.exact.row_count import ExactCount
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.noise import LARGEST_SCALE, LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import row_count

ROUNDED_UP = 1 + 1e-12


@dataclass(frozen=True)
class NoisyCount:
    rows: int
    noise_std: float  # 0 where the number of rows is public


@dataclass(frozen=True)
class RowCount:
    """How many rows were used, with noise.

    For one count Laplace noise has the smaller error, so that delta is left alone; in rho it is Gaussian.

    Privacy
        Unit         one record: `change` says what it does to its rows
        Requires     data.row_count: a row adds 1 or nothing
        Sensitivity  sensitivity.row_count: whole rows, and the noise is whole too
        Guarantee    pure: epsilon = sensitivity / scale; zCDP: rho = (sensitivity / scale)² / 2
        Source       Canonne, Kamath & Steinke (2020), Theorem 4 and Section 5; Dwork et al. (2006), Proposition 1
        Public       scale; the number itself if records are always replaced by others
        Excluded     timing
        Tested by    tests/mechanisms/test_row_count.py
    """

    law: Literal["gaussian", "laplace"]
    sensitivity: int
    scale: float

    @classmethod
    def for_budget(cls, change: Change, rows_per_record: int, budget: Budget) -> RowCount:
        """The least noise within the budget."""
        sensitivity = row_count(change, rows_per_record)
        if budget.rho is not None:
            return cls._checked("gaussian", sensitivity, sensitivity / math.sqrt(2 * budget.rho), LARGEST_SIGMA)
        assert budget.epsilon is not None
        return cls._checked("laplace", sensitivity, sensitivity / budget.epsilon, LARGEST_SCALE)

    @classmethod
    def public(cls) -> RowCount:
        """Where records are replaced their number is known: nothing is spent on it."""
        return cls("laplace", 0, 0.0)

    @classmethod
    def _checked(cls, law: Literal["gaussian", "laplace"], sensitivity: int, scale: float, largest: float) -> RowCount:
        if not scale * ROUNDED_UP <= largest:
            raise ConfError(f"count: the budget asks for noise of {scale:g} rows, which cannot be drawn.")
        return cls(law, sensitivity, scale * ROUNDED_UP)

    @property
    def noise_std(self) -> float:
        if self.law == "gaussian" or self.scale == 0:
            return self.scale
        q = math.exp(-1 / self.scale)  # of the discrete Laplace law: variance 2q/(1 − q)²
        return math.sqrt(2 * q) / -math.expm1(-1 / self.scale)

    @property
    def eta(self) -> float:
        return distance_from_rounded(1, self.scale) if self.law == "gaussian" else 0.0

    def release(self, exact: ExactCount, noise: NoiseSource) -> NoisyCount:
        """Draw the noise, once."""
        if self.sensitivity == 0:
            return NoisyCount(exact.reveal(), 0.0)
        draw = noise.discrete_gaussian if self.law == "gaussian" else noise.discrete_laplace
        return NoisyCount(exact.reveal() + draw(self.scale, 1)[0], self.noise_std)

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": f"exact discrete {self.law.title()}, drawn once",
            "scale": self.scale,
            "sensitivity": {"value": self.sensitivity, "norm": "number of rows"},
        }
