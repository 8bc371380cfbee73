"""One private regression: which statistics get noise, and how coefficients come from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from dpspark.core.domain import Clip, Domain
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.gradient import ExactGradient
from dpspark.mechanisms.gram.simulated import norm_quantile
from dpspark.mechanisms.regression.descent import GradientDescent
from dpspark.mechanisms.regression.objective import ObjectivePerturbation
from dpspark.mechanisms.regression.ridge import RidgeRule, solve_ridge, weak_rule
from dpspark.mechanisms.regression.statistics import GaussianStatistics, NoisyStatistics, Shares
from dpspark.privacy.budget import Budget
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import RegressionSensitivity

if TYPE_CHECKING:
    from typing import Self

# Σ y² is for the residual variance alone, which needs little.
PLAIN = Shares(squares=0.48, cross=0.48, response=0.04)
WITH_EIGENVALUE = Shares(squares=0.43, cross=0.43, response=0.04, least_eigenvalue=0.1)
THIRDS = Shares(squares=1 / 3, cross=1 / 3, least_eigenvalue=1 / 3)
FAILURE = 0.05  # the papers' probability that the ridge is too small
NORMAL_95 = 1.6448536269514722

Constants = Literal["joint", "wang", "kalaja"]


class Rows(Protocol):
    """What a mechanism may ask of the data."""

    def gram(self, domain: Domain) -> ExactGram: ...
    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient: ...


@dataclass(frozen=True)
class NoisyRegression:
    """Coefficients in scaled coordinates, and the noisy statistics that tell how sure they are, if there are any."""

    theta: np.ndarray
    statistics: NoisyStatistics | None


@dataclass(frozen=True)
class _HasStatistics:
    """What reads the data once and releases its statistics."""

    statistics: GaussianStatistics
    passes: ClassVar[int] = 1

    @property
    def domain(self) -> Domain:
        return self.statistics.domain

    @property
    def count_is_public(self) -> bool:
        return self.statistics.count_is_public

    def for_domain(self, domain: Domain) -> Self:
        return replace(self, statistics=replace(self.statistics, domain=domain))


@dataclass(frozen=True)
class StatisticsRegression(_HasStatistics):
    """gram_ridge, ssp and adassp: coefficients from noisy statistics by a ridge rule."""

    rule: RidgeRule

    def release(self, rows: Rows, noise: NoiseSource, report: Callable[[str], None]) -> NoisyRegression:
        gram = rows.gram(self.domain)
        report("adding noise")
        noisy = self.statistics.release(gram, noise)
        return NoisyRegression(solve_ridge(self.rule, noisy).scaled, noisy)

    def facts(self) -> dict[str, Any]:
        return {**self.statistics.facts(), "ridge": self.rule.to_manifest()}


@dataclass(frozen=True)
class ObjectiveRegression(_HasStatistics):
    """objective: coefficients from a tilted problem; its own share of the budget buys statistics for the intervals."""

    objective: ObjectivePerturbation
    share: float

    def release(self, rows: Rows, noise: NoiseSource, report: Callable[[str], None]) -> NoisyRegression:
        gram = rows.gram(self.domain)
        report("adding noise")
        return NoisyRegression(self.objective.release(gram, noise), self.statistics.release(gram, noise))

    def facts(self) -> dict[str, Any]:
        return {
            **self.objective.facts(),
            "intervals": {"epsilon_share": self.share, **self.statistics.facts()},
            "noise": self.statistics.facts()["noise"],
        }


@dataclass(frozen=True)
class DescentRegression:
    """gradient_descent."""

    descent: GradientDescent

    @property
    def passes(self) -> int:
        return self.descent.steps

    @property
    def domain(self) -> Domain:
        return self.descent.domain

    @property
    def count_is_public(self) -> bool:
        return False

    def for_domain(self, domain: Domain) -> DescentRegression:
        return replace(self, descent=replace(self.descent, domain=domain))

    def release(self, rows: Rows, noise: NoiseSource, report: Callable[[str], None]) -> NoisyRegression:
        def gradient(theta: np.ndarray, clip: Clip) -> ExactGradient:
            return rows.gradient(self.domain, theta, clip)

        def pass_begins(step: int) -> None:
            report(f"pass {step + 1} of {self.descent.steps}")

        return NoisyRegression(self.descent.release(gradient, noise, pass_begins), None)

    def facts(self) -> dict[str, Any]:
        return self.descent.facts()


RegressionMechanism = StatisticsRegression | ObjectiveRegression | DescentRegression


def gram_ridge(domain: Domain, sensitivity: RegressionSensitivity, budget: Budget) -> StatisticsRegression:
    statistics = GaussianStatistics.for_budget(domain, sensitivity, budget, PLAIN)
    return StatisticsRegression(statistics, weak_rule(statistics.noise, domain.width - 1))


def ssp(domain: Domain, sensitivity: RegressionSensitivity, budget: Budget) -> StatisticsRegression:
    return StatisticsRegression(GaussianStatistics.for_budget(domain, sensitivity, budget, PLAIN), RidgeRule("none"))


def adassp(
    domain: Domain, sensitivity: RegressionSensitivity, budget: Budget, constants: Constants = "joint"
) -> StatisticsRegression:
    """Wang (2018), Algorithm 2; `wang` and `kalaja` are the papers' own noise and ridge, without Σ y²."""
    width = domain.width - 1
    if constants == "joint":
        statistics = GaussianStatistics.for_budget(domain, sensitivity, budget, WITH_EIGENVALUE)
        noise = statistics.noise
        assert noise.least_eigenvalue_std is not None
        rule = RidgeRule("missing", norm_quantile(noise.squares, width), NORMAL_95 * noise.least_eigenvalue_std)
        return StatisticsRegression(statistics, rule)
    epsilon, delta = budget.epsilon, budget.delta
    assert epsilon is not None
    assert delta
    wall = math.log(6 / delta) if constants == "wang" else 2 * math.log(3.75 / delta)
    if constants == "kalaja":  # noise of one size on every entry; the upper triangle changes less than the whole matrix
        sensitivity = replace(sensitivity, squares=replace(sensitivity.squares, shape="spherical"))
    times = math.sqrt(wall) / (epsilon / 3)
    statistics = GaussianStatistics.at(domain, sensitivity, math.sqrt(3) / times, constants, THIRDS)
    if statistics.delta(epsilon) > delta:
        raise ConfError(
            f"mechanism adassp, constants {constants}: not private enough at epsilon={epsilon:g}, delta={delta:g}.\n"
            "Use constants: joint."
        )
    squared = sensitivity.longest**2
    amount = math.sqrt(width * wall * math.log(2 * width**2 / FAILURE)) * squared / (epsilon / 3)
    return StatisticsRegression(statistics, RidgeRule("missing", amount, wall * squared / (epsilon / 3)))
