"""adassp: least squares on noisy statistics, with the ridge that a noisy least eigenvalue asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.errors import ConfError
from dpspark.mechanisms.base import Currency, Limits, Problem, option
from dpspark.mechanisms.gram.simulated import norm_quantile
from dpspark.mechanisms.regression.base import RidgeMechanism, has_response
from dpspark.mechanisms.regression.ridge import RidgeRule
from dpspark.mechanisms.regression.statistics import GaussianStatistics, Shares
from dpspark.privacy.budget import Budget
from dpspark.privacy.sensitivity import RegressionSensitivity, group_statistics

WITH_EIGENVALUE = Shares(squares=0.43, cross=0.43, response=0.04, least_eigenvalue=0.1)
THIRDS = Shares(squares=1 / 3, cross=1 / 3, least_eigenvalue=1 / 3)
FAILURE = 0.05  # the papers' probability that the ridge is too small
NORMAL_95 = 1.6448536269514722
JOINT = "joint"
# The square of the noise that a text asks for, in units of sensitivity over a third of epsilon, by delta.
PAPERS: dict[str, Callable[[float], float]] = {
    "wang": lambda delta: math.log(6 / delta),
    "kalaja": lambda delta: 2 * math.log(3.75 / delta),
}
ONE_SIZE = "kalaja"  # noise of one size on every entry; the upper triangle changes less than the whole matrix


@dataclass(frozen=True)
class AdaSspOptions:
    """The options of adassp."""

    constants: str | None = option(
        Limits(
            "One budget for all parts jointly (the default), or the papers' own noise.",
            choices=("joint", "wang", "kalaja"),
        )
    )


@dataclass(frozen=True)
class AdaSsp(RidgeMechanism):
    """Wang (2018), Algorithm 2; `wang` and `kalaja` are the papers' own noise and ridge, without Σ y².

    The papers' noise is priced as it is, and refused where it is not enough.
    """

    name: ClassVar[str] = "adassp"
    words: ClassVar[str] = (
        "Gaussian noise, added once to the sums that the regression needs; a ridge that adapts to the data."
    )
    Options: ClassVar[type] = AdaSspOptions
    budget: Budget  # that it was calibrated to, or that a manifest claims

    @classmethod
    def check_currency(cls, given: Currency, options: AdaSspOptions) -> None:
        if given == "rho" and options.constants not in (None, JOINT):
            raise ValueError("mechanism adassp needs privacy.epsilon and privacy.delta.")
        super().check_currency(given, options)

    @classmethod
    def for_sensitivity(
        cls,
        domain: Domain,
        sensitivity: RegressionSensitivity,
        budget: Budget,
        options: AdaSspOptions | None = None,
    ) -> Self:
        constants = (options.constants if options else None) or JOINT
        if constants in PAPERS:
            return cls._as_published(domain, sensitivity, budget, constants)
        statistics = GaussianStatistics.for_budget(domain, sensitivity, budget, WITH_EIGENVALUE)
        noise = statistics.noise
        assert noise.least_eigenvalue_std is not None
        amount = norm_quantile(noise.squares, domain.width - 1)
        return cls(statistics, RidgeRule("missing", amount, NORMAL_95 * noise.least_eigenvalue_std, True), budget)

    @classmethod
    def _as_published(cls, domain: Domain, sensitivity: RegressionSensitivity, budget: Budget, constants: str) -> Self:
        epsilon, delta, width = budget.epsilon, budget.delta, domain.width - 1
        assert epsilon is not None
        assert delta
        wall = PAPERS[constants](delta)
        times = math.sqrt(wall) / (epsilon / 3)
        statistics = GaussianStatistics.at(
            domain, _shaped(sensitivity, constants), math.sqrt(3) / times, constants, THIRDS
        )
        if statistics.delta(epsilon) > delta:
            raise ConfError(
                f"mechanism adassp, constants {constants}: not private enough at epsilon={epsilon:g}, delta={delta:g}.\n"
                "Use constants: joint."
            )
        squared = sensitivity.longest**2
        amount = math.sqrt(width * wall * math.log(2 * width**2 / FAILURE)) * squared / (epsilon / 3)
        return cls(statistics, RidgeRule("missing", amount, wall * squared / (epsilon / 3), True), budget)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        has_response(problem)
        route = facts.text("calibration")
        if route in PAPERS and (claimed.epsilon is None or not claimed.delta):
            raise Garbled("this mechanism has epsilon and delta, and its budget has not")
        sensitivity = _shaped(group_statistics(problem.domain, problem.records), route)
        statistics = GaussianStatistics.from_facts(problem.domain, sensitivity, facts)
        return cls(statistics, RidgeRule.from_facts(facts.part("ridge")), claimed)

    def differences(self, stated: Facts) -> tuple[str, ...]:
        return (*super().differences(stated), *self._less_than_published(stated.part("noise")))

    def _less_than_published(self, noise: Facts) -> list[str]:
        """List the noise that is below what the paper's text asks for: more than the guarantee needs."""
        budget, bound, route = self.budget, self.statistics.sensitivity, self.statistics.route
        if route not in PAPERS:
            return []
        assert budget.epsilon is not None
        assert budget.delta
        times = math.sqrt(PAPERS[route](budget.delta)) * 3 / budget.epsilon
        least = {
            "diagonal_std": times * bound.squares.value,
            "off_diagonal_std": times
            * bound.squares.value
            / (math.sqrt(2) if bound.squares.shape == "symmetric" else 1),
            "cross_std": times * bound.cross,
            "least_eigenvalue_std": times * bound.least_eigenvalue,
        }
        return [
            f"noise: less than the paper's {key}" for key, std in least.items() if noise.number(key) < std * (1 - 1e-9)
        ]


def _shaped(sensitivity: RegressionSensitivity, constants: str) -> RegressionSensitivity:
    """Give the noise the shape of the paper's."""
    if constants != ONE_SIZE:
        return sensitivity
    return replace(sensitivity, squares=replace(sensitivity.squares, shape="spherical"))
