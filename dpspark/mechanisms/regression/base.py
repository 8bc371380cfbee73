"""What all mechanisms of one private regression share, and those among them that publish noisy statistics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from dpspark.core.domain import Clip, Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.gradient import ExactGradient
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import ExactSums, Residual
from dpspark.exact.scores import ExactScoreGrams, ExactScoreNorms, ExactScoreTotals, Scores
from dpspark.mechanisms.base import GAUSSIAN, Currency, Kind, Mechanism, Problem
from dpspark.mechanisms.errors.meat import Meats, read_meats
from dpspark.mechanisms.regression.ridge import RidgeRule
from dpspark.mechanisms.regression.solver import Solver
from dpspark.mechanisms.regression.statistics import GaussianStatistics, NoisyStatistics, StatisticsNoise
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import Cost
from dpspark.privacy.events import Event
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import RegressionSensitivity, group_statistics


class ClusterPasses(Protocol):
    """Passes over the sums of all clusters' scores."""

    def totals(self) -> ExactScoreTotals: ...
    def norms(self, scales: Sequence[Sequence[int]]) -> ExactScoreNorms: ...
    def grams(self, scales: Sequence[Sequence[int]], radii: Sequence[int]) -> ExactScoreGrams: ...


class Rows(Protocol):
    """The rows, as far as a mechanism may ask for them."""

    def gram(self, domain: Domain) -> ExactGram: ...
    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient: ...
    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram: ...
    def residual_sums(self, domain: Domain, residual: Residual, clip: float) -> ExactSums: ...
    def residual_grams(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]) -> ExactSums: ...


class ClusteredRows(Rows, Protocol):
    """The rows of a release, each with the key of its cluster where standard errors are by clusters."""

    def clusters(self, scores: Scores) -> AbstractContextManager[ClusterPasses]: ...


@dataclass(frozen=True)
class NoisyRegression:
    """Coefficients in scaled coordinates, and the noisy statistics that tell how sure they are, if there are any."""

    theta: np.ndarray
    statistics: NoisyStatistics | None


@dataclass(frozen=True)
class PlannedNoise:
    """Standard deviations in units of one row at its bounds; None where a mechanism has no such statistic."""

    squares_std: float | None  # of an off-diagonal entry of Σ x xᵀ
    cross_std: float  # of an entry of Σ x y, or of the tilt, or of one gradient
    note: str


def is_mapped(domain: Domain) -> bool:
    """Tell whether a row norm changes rows in a way that biases least squares: then no interval covers."""
    norm = domain.row_norm
    return norm is not None and not (norm.include_response and norm.mode == "cap")


class RegressionMechanism(Mechanism):
    """A way to turn rows into the coefficients of one regression."""

    kind: ClassVar[Kind] = "regression"
    pure_alternative: ClassVar[str] = "gradient_descent"
    no_intervals: ClassVar[str] = (
        "It holds no statistics to make an interval from."  # why, where there are no statistics
    )

    @property
    @abstractmethod
    def passes(self) -> int:
        """The number of times that the data are read."""

    @property
    @abstractmethod
    def solver(self) -> Solver | None:
        """The way from its statistics to its coefficients; None if it has none."""

    @property
    @abstractmethod
    def statistics_noise(self) -> StatisticsNoise | None:
        """The noise of its statistics; None if it has none."""

    @abstractmethod
    def release(self, rows: Rows, noise: NoiseSource, report: Callable[[str], None]) -> NoisyRegression:
        """Read the data, draw the noise, once, and make coefficients."""

    @abstractmethod
    def planned_noise(self) -> PlannedNoise:
        """Say what it would draw."""

    @abstractmethod
    def quieter(self, times: float) -> Self:
        """Make a copy with so many times less noise: what an audit must catch."""

    @classmethod
    @abstractmethod
    def solver_of(cls, mechanism: Mapping[str, Any]) -> Solver | None:
        """Read from a manifest how coefficients came from the statistics; None if there are none."""

    @classmethod
    def noise_of(cls, mechanism: Mapping[str, Any]) -> StatisticsNoise:
        """Read from a manifest the noise of its statistics."""
        return StatisticsNoise(**mechanism["noise"])

    @classmethod
    @abstractmethod
    def check_shape(cls, mechanism: Any) -> None:
        """Refuse, with a ValueError, the mechanism of a manifest that lacks what readers go by."""

    def with_second_step(self, statistics: NoisyStatistics, theta: np.ndarray, sigma2: float) -> NoisyStatistics:
        """Add to planned statistics those of a second step, at planned coefficients and residual variance; if it has one."""
        return statistics

    def simulated_covariance(self, x: np.ndarray, y: np.ndarray, times: float) -> np.ndarray:
        """Simulate the coefficients' covariance by the noise alone, on rows that stand for `times` as many."""
        raise NotImplementedError(f"{self.name} publishes statistics that tell it")


def has_response(problem: Problem) -> None:
    """Refuse a manifest of a regression without a response."""
    if problem.domain.response is None:
        raise Garbled("release.response is missing")


@dataclass(frozen=True)
class StatisticsMechanism(RegressionMechanism):
    """A mechanism that reads the data once and publishes its statistics with noise."""

    tells_rows: ClassVar[bool] = True
    statistics: GaussianStatistics

    @property
    def passes(self) -> int:
        return 1

    @property
    def domain(self) -> Domain:
        return self.statistics.domain

    @property
    def count_is_public(self) -> bool:
        return self.statistics.count_is_public

    @property
    def statistics_noise(self) -> StatisticsNoise:
        return self.statistics.noise

    def for_domain(self, domain: Domain) -> Self:
        meats = self.statistics.meats
        found = None if meats is None else meats.for_domain(domain)
        return replace(self, statistics=replace(self.statistics, domain=domain, meats=found))

    def paid_meats(self) -> Meats | None:
        return self.statistics.meats

    def noise_in_words(self) -> str:
        of = self.statistics.noise
        return f"standard deviation {of.off_diagonal_std:.4g} off the diagonal of Σ x xᵀ, {of.cross_std:.4g} on Σ x y, in rows"


@dataclass(frozen=True)
class RidgeMechanism(StatisticsMechanism):
    """A mechanism that makes its coefficients of its statistics alone, by a ridge rule.

    Privacy
        Unit         one record: its rows are added, removed or replaced
        Requires     every row inside `domain` (bounds.grid_rows)
        Sensitivity  sensitivity.group_statistics
        Guarantee    that of statistics.GaussianStatistics, which is all that reads the data; the rest is post-processing
        Source       as for statistics.GaussianStatistics
        Public       column names, bounds, every sigma, the ridge rule; the number of rows only if `count_is_public`
        Excluded     timing
        Tested by    tests/mechanisms/test_regression_statistics.py, tests/mechanisms/test_regression_events.py
    """

    currencies: ClassVar[tuple[Currency, ...]] = GAUSSIAN
    rule: RidgeRule

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: Any = None) -> Self:
        return cls.for_sensitivity(problem.domain, group_statistics(problem.domain, problem.records), budget, options)

    @classmethod
    @abstractmethod
    def for_sensitivity(
        cls, domain: Domain, sensitivity: RegressionSensitivity, budget: Budget, options: Any = None
    ) -> Self:
        """Calibrate it to statistics that one record moves that far."""

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        has_response(problem)
        sensitivity = group_statistics(problem.domain, problem.records)
        statistics = GaussianStatistics.from_facts(problem.domain, sensitivity, facts)
        statistics = replace(statistics, meats=read_meats(problem, facts))
        return cls(statistics, RidgeRule.from_facts(facts.part("ridge")))

    @property
    def solver(self) -> RidgeRule:
        return self.rule

    @classmethod
    def solver_of(cls, mechanism: Mapping[str, Any]) -> RidgeRule:
        return RidgeRule.from_manifest(mechanism["ridge"])

    @classmethod
    def check_shape(cls, mechanism: Any) -> None:
        if not hasattr(mechanism.ridge, "kind"):
            raise ValueError("expected a rule for the ridge")

    def release(self, rows: Rows, noise: NoiseSource, report: Callable[[str], None]) -> NoisyRegression:
        gram = rows.gram(self.domain)
        report("adding noise")
        noisy = self.statistics.release(gram, noise)
        return NoisyRegression(self.rule.solve(noisy.given(self.domain)), noisy)

    def events(self) -> tuple[Event, ...]:
        return (self.statistics.event(),)

    def cost(self) -> Cost:
        return self.statistics.cost()

    def differences(self, stated: Facts) -> tuple[str, ...]:
        return self.statistics.differences(stated)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.statistics.sensitivity.squares.value, "of Σ x xᵀ"

    def facts(self) -> dict[str, Any]:
        return {**self.statistics.facts(), "ridge": self.rule.to_manifest()}

    def planned_noise(self) -> PlannedNoise:
        noise = self.statistics.noise
        return PlannedNoise(noise.off_diagonal_std, noise.cross_std, self.rule.in_words())

    def quieter(self, times: float) -> Self:
        return replace(self, statistics=self.statistics.quieter(times))
