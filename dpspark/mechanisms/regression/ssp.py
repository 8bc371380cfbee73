"""ssp: plain least squares on noisy statistics, without any safeguard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dpspark.core.domain import Domain
from dpspark.mechanisms.regression.base import RidgeMechanism
from dpspark.mechanisms.regression.ridge import RidgeRule
from dpspark.mechanisms.regression.statistics import PLAIN, GaussianStatistics
from dpspark.privacy.budget import Budget
from dpspark.privacy.sensitivity import RegressionSensitivity


@dataclass(frozen=True)
class Ssp(RidgeMechanism):
    """Sufficient statistics with noise, and no ridge."""

    name: ClassVar[str] = "ssp"
    words: ClassVar[str] = "Gaussian noise, added once to the sums that the regression needs."

    @classmethod
    def for_sensitivity(
        cls, domain: Domain, sensitivity: RegressionSensitivity, budget: Budget, options: Any = None
    ) -> Self:
        return cls(GaussianStatistics.for_budget(domain, sensitivity, budget, PLAIN), RidgeRule("none", known=True))
