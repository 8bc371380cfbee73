"""Objective perturbation: the exact minimiser of a randomly tilted least-squares problem over a ball."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri

from dpspark.core.facts import Facts, Garbled
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Currency, Limits, Problem, option
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.mechanisms.options import CALIBRATION
from dpspark.mechanisms.regression.base import NoisyRegression, PlannedNoise, Rows, StatisticsMechanism, has_response
from dpspark.mechanisms.regression.solver import NO_INTERVAL, Solver
from dpspark.mechanisms.regression.statistics import PLAIN, GaussianStatistics, NoisyStatistics
from dpspark.privacy.budget import Budget, analytic_mu, gaussian_delta
from dpspark.privacy.cost import Cost, profile_cost, same
from dpspark.privacy.events import Approximate, Event
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.profiles import for_one_row
from dpspark.privacy.sensitivity import group_statistics, row_gradient

INTERVAL_SHARE = Fraction(1, 5)  # of the budget, for the statistics that intervals come from
DEFAULT_RADIUS = 1.0  # of the coefficients, where the bounds of the columns and of the response are ±1
RIDGE_SHARE = 0.2  # of epsilon that the ridge costs; the rest is the tilt's
EDGE = 0.95  # of the radius: beyond, coefficients may be far too small


@dataclass(frozen=True)
class ObjectiveOptions:
    """The options of objective perturbation."""

    calibration: str | None = option(CALIBRATION)
    radius: float | None = option(
        Limits("Of the ball that solutions are kept in, in units of the bounds; 1 by default.", above=0, most=1e6)
    )


@dataclass(frozen=True)
class TiltedSolver(Solver):
    """argmin over ‖θ‖ <= radius of ½ Σ (y − x·θ)² + ½ ridge ‖θ‖² + b·θ, with b ~ N(0, sigma² I)."""

    follows: ClassVar[bool] = False  # the tilt is drawn apart from the statistics
    sigma: float
    ridge: float
    radius: float

    @property
    def bootstrapped(self) -> bool:
        return True

    def solve(self, statistics: NoisyStatistics) -> np.ndarray:
        return self.minimise(statistics.squares, statistics.cross)

    def minimise(self, squares: np.ndarray, cross: np.ndarray) -> np.ndarray:
        """Find the coefficients of cross products from which the tilt is taken off already."""
        return minimise_in_ball(squares + self.ridge * np.eye(len(squares)), cross, self.radius)

    def again(self, truth: NoisyStatistics, cross: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.minimise(truth.squares, cross - self.sigma * rng.standard_normal(cross.shape))

    def status(self, statistics: NoisyStatistics) -> str:
        return NO_INTERVAL

    def at_edge(self, theta: np.ndarray) -> bool:
        return bool(np.linalg.norm(theta) > EDGE * self.radius)


@dataclass(frozen=True)
class Tilt:
    """A random tilt of the least-squares objective, calibrated: argmin as in TiltedSolver.

    Privacy
        Unit         one row; add or remove one, or replace one (group privacy)
        Requires     every row inside `domain` (bounds.grid_rows): ‖x‖ <= B, |y| <= 1
        Sensitivity  B from sensitivity.regression_statistics; one row's gradient has norm L = B(1 + B·radius) at most
                     (sensitivity.row_gradient)
        Guarantee    exact: with c = ln(1 + B²/ridge) and t = L/sigma,
                     delta(epsilon) = 2[Φ(t/2 − (ε − c)/t) − e^(ε − c) Φ(−t/2 − (ε − c)/t)].
                     theorem: ridge = 2B²/ε, sigma = L √(8 ln(2/δ) + 4ε)/ε
        Source       Kifer, Smith & Thakurta (2012) for the mechanism and the theorem. The exact profile, proved here:
                     inside the ball b = −∇ of the rest is a bijection of θ, so that the density of θ is φ(b(θ))·det(H + ridge).
                     One more row adds x xᵀ to H, which changes the determinant by a factor of 1 to 1 + B²/ridge, and shifts b
                     by a multiple of x of length L at most, so that |ln φ(b)/φ(b')| <= t|Z| + t²/2 with Z = b·x/(σ‖x‖) standard
                     normal. delta <= E[(1 − e^(ε − loss))₊] with loss = c + t|Z| + t²/2, which is the formula. The ball: a
                     convex barrier that is 0 inside and infinite 1/k outside keeps θ where the bound L + o(1) holds and
                     adds to H what does not depend on the data; k → ∞ gives the minimiser over the ball, and limits keep
                     (ε, δ).
        Public       column names, bounds, radius, ridge, sigma; never the number of rows
        Excluded     timing; the sampler and the solver are floating point
        Tested by    tests/mechanisms/test_objective.py
    """

    longest: float  # B
    radius: float
    ridge: float
    sigma: float
    calibration: str

    @classmethod
    def for_budget(
        cls,
        longest: float,
        replaced: bool,
        epsilon: float,
        delta: float,
        calibration: str = "exact",
        radius: float | None = None,
    ) -> Tilt:
        """The least tilt within the budget, for rows that are added, or also replaced."""
        radius = DEFAULT_RADIUS if radius is None else radius
        epsilon, delta = for_one_row(epsilon, delta, replaced)
        gradient = row_gradient(longest, radius)
        if calibration == "theorem":
            ridge, sigma = _theorem(longest, gradient, epsilon, delta)
            return cls(longest, radius, ridge, sigma * (1 + 1e-12), calibration)
        ridge = longest**2 / math.expm1(RIDGE_SHARE * epsilon) * (1 + 1e-12)
        slope = _largest_slope((1 - RIDGE_SHARE) * epsilon, delta)
        if not slope > 0:
            raise ConfError(f"mechanism objective: epsilon={epsilon:g}, delta={delta:g} for one row is beyond reach.")
        return cls(longest, radius, ridge, gradient / slope * (1 + 1e-9), calibration)

    @classmethod
    def from_facts(cls, longest: float, facts: Facts) -> Tilt:
        """Read it back from a manifest."""
        ridge, sigma, radius = (facts.positive(key) for key in ("ridge", "sigma", "radius"))
        return cls(longest, radius, ridge, sigma, facts.text("calibration", "exact", "theorem"))

    @property
    def gradient(self) -> float:
        """L: the largest norm of one row's gradient in the ball."""
        return row_gradient(self.longest, self.radius)

    @property
    def solver(self) -> TiltedSolver:
        return TiltedSolver(self.sigma, self.ridge, self.radius)

    def delta(self, epsilon: float) -> float:
        """Compute delta for one row added or removed, by the exact profile."""
        return tilted_delta(epsilon - math.log1p(self.longest**2 / self.ridge), self.gradient / self.sigma)

    def release(self, gram: ExactGram, noise: NoiseSource) -> np.ndarray:
        """Draw the tilt, once, and minimise; the coefficients in scaled coordinates."""
        matrix = scaled_matrix(gram)
        tilt = self.sigma * ndtri(noise.uniforms(len(matrix) - 1))
        return self.solver.minimise(matrix[:-1, :-1], matrix[:-1, -1] - tilt)

    def differences(self, stated: Facts, budget: Budget, replaced: bool) -> tuple[str, ...]:
        """List what a manifest states of it and is not so; `budget` is the tilt's own."""
        found, differs = stated.part("sensitivity"), []
        if not (same(found.number("value"), self.gradient) and same(found.number("longest_row"), self.longest)):
            differs.append("sensitivity")
        if self.calibration == "theorem":
            assert budget.epsilon is not None
            assert budget.delta
            one = for_one_row(budget.epsilon, budget.delta, replaced)
            ridge, sigma = (least * (1 - 1e-9) for least in _theorem(self.longest, self.gradient, *one))
            if not (self.sigma >= sigma and self.ridge >= ridge):
                differs.append("calibration: less than the theorem asks for")
        return tuple(differs)

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "normal tilt of the objective, in floating point, drawn once",
            "calibration": self.calibration,
            "radius": self.radius,
            "ridge": self.ridge,
            "sigma": self.sigma,
            "sensitivity": {"value": self.gradient, "norm": "l2 of one row's gradient", "longest_row": self.longest},
        }


def _theorem(longest: float, gradient: float, epsilon: float, delta: float) -> tuple[float, float]:
    """The ridge and the sigma that the paper's theorem asks for, for one row."""
    return 2 * longest**2 / epsilon, gradient * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon


@dataclass(frozen=True)
class ObjectivePerturbation(StatisticsMechanism):
    """Coefficients from a tilted problem; a share of the budget of its own buys statistics for the intervals.

    Privacy
        Unit         one row; add or remove one, or replace one
        Requires     as Tilt and statistics.GaussianStatistics do
        Sensitivity  sensitivity.group_statistics and sensitivity.row_gradient
        Guarantee    basic composition of Tilt, at 1 − share of the budget, and of statistics.GaussianStatistics, at `share`
        Source       as for both
        Public       column names, bounds, radius, ridge, every sigma; the number of rows only if `count_is_public`
        Excluded     timing; the tilt's sampler and the solver are floating point
        Tested by    tests/mechanisms/test_objective.py, tests/mechanisms/test_regression_events.py
    """

    name: ClassVar[str] = "objective"
    words: ClassVar[str] = "The loss that the regression minimises was tilted at random, once."
    currencies: ClassVar[tuple[Currency, ...]] = ("both",)
    Options: ClassVar[type] = ObjectiveOptions
    exact_sampler: ClassVar[bool] = False
    one_row: ClassVar[bool] = True
    rows_alternative: ClassVar[str] = "gram_ridge"
    tilt: Tilt
    share: float
    budget: Budget  # of the tilt
    replaced: bool

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: ObjectiveOptions | None = None) -> Self:
        options, replaced = options or ObjectiveOptions(), problem.records.replaced
        sensitivity = group_statistics(problem.domain, problem.records)
        rest = budget.part(1 - INTERVAL_SHARE)
        assert rest.epsilon is not None
        assert rest.delta
        statistics = GaussianStatistics.for_budget(problem.domain, sensitivity, budget.part(INTERVAL_SHARE), PLAIN)
        tilt = Tilt.for_budget(
            sensitivity.longest, replaced, rest.epsilon, rest.delta, options.calibration or "exact", options.radius
        )
        return cls(statistics, tilt, float(INTERVAL_SHARE), rest, replaced)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        has_response(problem)
        if problem.records.rows != 1:
            raise Garbled("objective is proved for one row a record")
        intervals, sensitivity = facts.part("intervals"), group_statistics(problem.domain, problem.records)
        share = intervals.positive("epsilon_share")
        if claimed.epsilon is None or not claimed.delta or not share < 1:
            raise Garbled("objective: its budget has no epsilon and delta, or its intervals take all")
        statistics = GaussianStatistics.from_facts(problem.domain, sensitivity, intervals)
        rest = Budget((1 - share) * claimed.epsilon, (1 - share) * claimed.delta)
        return cls(statistics, Tilt.from_facts(sensitivity.longest, facts), share, rest, problem.records.replaced)

    @property
    def solver(self) -> TiltedSolver:
        return self.tilt.solver

    @classmethod
    def solver_of(cls, mechanism: Mapping[str, Any]) -> TiltedSolver:
        return TiltedSolver(mechanism["sigma"], mechanism["ridge"], mechanism["radius"])

    @classmethod
    def check_shape(cls, mechanism: Any) -> None:
        if None in (mechanism.radius, mechanism.sigma) or not isinstance(mechanism.ridge, float | int):
            raise ValueError("expected radius, sigma and ridge")

    def release(self, rows: Rows, noise: NoiseSource, report: Callable[[str], None]) -> NoisyRegression:
        gram = rows.gram(self.domain)
        report("adding noise")
        return NoisyRegression(self.tilt.release(gram, noise), self.statistics.release(gram, noise))

    def events(self) -> tuple[Event, ...]:
        return self.statistics.event(), Approximate(self.budget.epsilon or 0.0, self.budget.delta or 0.0)

    def cost(self) -> Cost:
        """Compose both parts at their shares of epsilon."""
        tilt, statistics = profile_cost(self.tilt.delta, self.replaced), self.statistics.cost()

        def delta_at(epsilon: float) -> float:
            return min(1.0, tilt.delta_at((1 - self.share) * epsilon) + statistics.delta_at(self.share * epsilon))

        return Cost(delta_at)

    def differences(self, stated: Facts) -> tuple[str, ...]:
        intervals = stated.part("intervals")
        other = () if stated.part("noise").equals(intervals.part("noise")) else ("noise: not that of the intervals",)
        tilt = self.tilt.differences(stated, self.budget, self.replaced)
        return (*self.statistics.differences(intervals), *tilt, *other)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.tilt.gradient, "l2 of one row's gradient"

    def facts(self) -> dict[str, Any]:
        return {
            **self.tilt.facts(),
            "intervals": {"epsilon_share": self.share, **self.statistics.facts()},
            "noise": self.statistics.facts()["noise"],
        }

    def planned_noise(self) -> PlannedNoise:
        note = f"of the tilt, and a ridge of {self.tilt.ridge:.4g}; intervals have a part of the budget"
        return PlannedNoise(None, self.tilt.sigma, note)

    def quieter(self, times: float) -> Self:
        """Take so many times less of the tilt."""
        return replace(self, tilt=replace(self.tilt, sigma=self.tilt.sigma / times))


def tilted_delta(epsilon: float, t: float) -> float:
    """2[Φ(t/2 − ε/t) − e^ε Φ(−t/2 − ε/t)]: twice a Gaussian's, once the determinant's share of epsilon is taken off."""
    if epsilon <= 0:
        return 1.0
    return min(1.0, 2 * gaussian_delta(t, epsilon))


def _largest_slope(epsilon: float, delta: float) -> float:
    """The largest t = L/sigma, rounded down, whose delta at epsilon is at most `delta`."""
    return analytic_mu(epsilon, delta / 2) if delta < 1 else 0.0


def minimise_in_ball(matrix: np.ndarray, linear: np.ndarray, radius: float) -> np.ndarray:
    """argmin over ‖θ‖ <= radius of ½ θᵀMθ − linear·θ for a positive definite M; for one `linear`, or one in each row.

    By M's eigenvectors: on the sphere θ = (M + m·I)⁻¹ linear for the m > 0 at which its norm is the radius.
    """
    values, vectors = np.linalg.eigh(matrix)
    along = np.atleast_2d(linear @ vectors)
    scaled = along / values
    outside = np.linalg.norm(scaled, axis=1) > radius
    if outside.any():
        scaled[outside] = _on_sphere(values, along[outside], radius)
    return (scaled @ vectors.T).reshape(linear.shape)


def _on_sphere(values: np.ndarray, along: np.ndarray, radius: float) -> np.ndarray:
    """The norm falls with m, and is below the radius at ‖linear‖/radius, as every eigenvalue is positive: bisect."""
    low, high = np.zeros((len(along), 1)), np.linalg.norm(along, axis=1, keepdims=True) / radius
    for _ in range(100):
        middle = (low + high) / 2
        longer = np.linalg.norm(along / (values + middle), axis=1, keepdims=True) > radius
        low, high = np.where(longer, middle, low), np.where(longer, high, middle)
    return along / (values + high)
