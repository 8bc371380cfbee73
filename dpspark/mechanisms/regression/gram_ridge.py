"""gram_ridge: least squares on noisy statistics, with a ridge where the signal is weak. The default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from dpspark.core.domain import Domain
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.regression.base import RidgeMechanism
from dpspark.mechanisms.regression.ridge import weak_rule
from dpspark.mechanisms.regression.statistics import PLAIN, GaussianStatistics
from dpspark.privacy.budget import Budget
from dpspark.privacy.sensitivity import RegressionSensitivity, group_statistics


@dataclass(frozen=True)
class GramRidge(RidgeMechanism):
    """Noisy statistics, and a ridge that is known before any data, added where the noise drowns the signal."""

    name: ClassVar[str] = "gram_ridge"
    robust_errors: ClassVar[bool] = True
    words: ClassVar[str] = (
        "Gaussian noise, added once to the sums that the regression needs; a ridge where the signal is weak."
    )

    @classmethod
    def for_sensitivity(
        cls, domain: Domain, sensitivity: RegressionSensitivity, budget: Budget, options: Any = None
    ) -> Self:
        return cls._of(GaussianStatistics.for_budget(domain, sensitivity, budget, PLAIN))

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: Any = None) -> Self:
        sensitivity = group_statistics(problem.domain, problem.records)
        return cls._of(GaussianStatistics.for_budget(problem.domain, sensitivity, budget, PLAIN, problem))

    @classmethod
    def _of(cls, statistics: GaussianStatistics) -> Self:
        domain = statistics.domain
        return cls(statistics, weak_rule(statistics.noise, domain.width - 1, domain.regressors.known))
