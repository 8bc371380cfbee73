"""Gradient descent on least squares with noise in every gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from dpspark.core.domain import Clip, Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.errors import ConfError
from dpspark.exact.gradient import GRADIENT_BITS, ExactGradient
from dpspark.mechanisms.base import ANY, Currency, Problem, option
from dpspark.mechanisms.options import CLIP, steps_option
from dpspark.mechanisms.regression.base import (
    NoisyRegression,
    PlannedNoise,
    RegressionMechanism,
    Rows,
    has_response,
)
from dpspark.mechanisms.regression.gradient_noise import GradientNoise, clip_shape
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import Cost
from dpspark.privacy.events import Event
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import unit_coordinates

DEFAULT_STEPS = 50
# Of the norm of a typical row: residuals beyond this are rare, where the response's bounds are ±1.
DEFAULT_CLIP = 0.3
STRIDE = 0.7  # of the first step, in units of the response's bounds over the regressors'
SIMULATED_RUNS = 200

Gradient = Callable[[np.ndarray, Clip], ExactGradient]


@dataclass(frozen=True)
class DescentOptions:
    """The options of gradient descent."""

    steps: int | None = option(steps_option(f"How many, each a pass over the data; {DEFAULT_STEPS} by default."))
    clip: float | None = option(CLIP)


@dataclass(frozen=True)
class GradientDescent(RegressionMechanism):
    """Passes over the data: each sums clipped gradients exactly, adds noise and moves the coefficients.

    Privacy
        Unit         one record: its rows are added, removed or replaced
        Requires     each row's gradient clipped (gradient.Clip)
        Sensitivity  sensitivity.clipped_gradient: of one pass
        Guarantee    gaussian: mu = √steps · sensitivity / sigma, with the routes of gaussian.GaussianGram, or rho;
                     laplace: epsilon = steps · sensitivity / scale, pure. Each pass may depend on those before it
        Source       Alabi et al., Differentially Private Simple Linear Regression, DPGradDescent; for any regressors
        Public       column names, bounds, steps, clip, scale; never the number of rows
        Excluded     timing
        Tested by    tests/mechanisms/test_descent.py, tests/mechanisms/test_regression_events.py
    """

    name: ClassVar[str] = "gradient_descent"
    words: ClassVar[str] = "Gradients of single records were clipped, and noise was added to their sum in every step."
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    Options: ClassVar[type] = DescentOptions
    by_group: ClassVar[bool] = False
    no_intervals: ClassVar[str] = (
        "No interval is known to be valid for gradient_descent. Clipped gradients make the fit robust: with skewed residuals "
        "it is far from least squares, and a few steps may not reach its end."
    )
    no_errors: ClassVar[str] = (
        "There are no standard errors: clipped gradients make the fit robust, and no interval is known to be valid for it."
    )
    domain: Domain
    gradients: GradientNoise

    @classmethod
    def check_groups(cls, options: DescentOptions) -> None:
        raise ValueError("gradient_descent is not for regressions by group. Use gram_ridge.")

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: DescentOptions | None = None) -> Self:
        options, domain, records = options or DescentOptions(), problem.domain, problem.records
        steps = DEFAULT_STEPS if options.steps is None else options.steps
        shape = clip_shape(budget)
        clip = default_clip(domain, shape) if options.clip is None else Clip(shape, options.clip)
        gradients = GradientNoise.for_budget(
            steps, domain.width - 1, clip, records.change, records.rows, 2.0**GRADIENT_BITS, budget
        )
        if not gradients.drawable:
            raise ConfError(f"The budget asks for noise of {gradients.scale:g} a step, which cannot be drawn.")
        return cls(domain, gradients)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        has_response(problem)
        domain, records = problem.domain, problem.records
        if records.grouped:
            raise Garbled("gradient_descent is not for regressions by group")
        return cls(
            domain,
            GradientNoise.from_facts(facts, domain.width - 1, records.change, records.rows, 2.0**GRADIENT_BITS),
        )

    @classmethod
    def unlike_options(cls, asked: Facts, facts: Facts) -> tuple[str, ...]:
        found = super().unlike_options(asked, facts)
        clipped = asked.has("clip") and asked.number("clip") != facts.part("clip").number("size")
        return (*found, "clip") if clipped else found

    @property
    def passes(self) -> int:
        return self.gradients.steps

    @property
    def count_is_public(self) -> bool:
        return False

    @property
    def solver(self) -> None:
        return None

    @property
    def statistics_noise(self) -> None:
        return None

    @classmethod
    def solver_of(cls, mechanism: Mapping[str, Any]) -> None:
        return None

    @classmethod
    def check_shape(cls, mechanism: Any) -> None:
        return None

    def for_domain(self, domain: Domain) -> Self:
        return replace(self, domain=domain)

    def quieter(self, times: float) -> Self:
        return replace(self, gradients=replace(self.gradients, scale=self.gradients.scale / times))

    def release(self, rows: Rows, noise: NoiseSource, report: Callable[[str], None]) -> NoisyRegression:
        def gradient(theta: np.ndarray, clip: Clip) -> ExactGradient:
            return rows.gradient(self.domain, theta, clip)

        def pass_begins(step: int) -> None:
            report(f"pass {step + 1} of {self.gradients.steps}")

        return NoisyRegression(self.descend(gradient, noise, pass_begins), None)

    def descend(self, gradient: Gradient, noise: NoiseSource, report: Callable[[int], None]) -> np.ndarray:
        """The mean of the later half of the iterates, in scaled coordinates. Steps shrink as the gradients seen add up."""
        steps = self.gradients.steps
        theta = np.zeros(self.domain.width - 1)
        seen, kept = 0.0, []
        for step in range(steps):
            report(step)
            noisy = self.noisy(gradient(theta, self.gradients.clip), noise)
            seen += float(noisy @ noisy)
            # AdaGrad with one length for all coordinates (Ward, Wu & Bottou, 2020): it needs no number of rows.
            theta = theta - (STRIDE / math.sqrt(seen) * noisy if seen > 0 else 0.0)
            if step >= steps // 2:
                kept.append(theta)
        return np.mean(kept, axis=0)

    def noisy(self, exact: ExactGradient, noise: NoiseSource) -> np.ndarray:
        """One gradient with noise, in units of 1.0."""
        draws = self.gradients.draw(noise)
        return np.array([(v + d) / 2.0**GRADIENT_BITS for v, d in zip(exact.reveal(), draws, strict=True)])

    def events(self) -> tuple[Event, ...]:
        return self.gradients.events()

    def cost(self) -> Cost:
        return self.gradients.cost()

    def differences(self, stated: Facts) -> tuple[str, ...]:
        return self.gradients.differences(stated)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.gradients.sensitivity, f"{self.gradients.law.norm} of one step's gradient"

    def facts(self) -> dict[str, Any]:
        of = self.gradients
        return {
            "sampler": f"{of.law.sampler}, independent in each coordinate and step, drawn once",
            "calibration": of.route,
            "steps": of.steps,
            "clip": {"shape": of.clip.shape, "size": of.clip.size},
            "scale": of.scale,
            "sampler_distance": of.sampler_distance,
            "sensitivity": {"value": of.sensitivity, "norm": of.law.norm, "of": "one step"},
        }

    def noise_in_words(self) -> str:
        of = self.gradients
        whose = "one row's" if of.clip.shape == "ball" else "each coordinate of one row's"
        return f"{of.scale:.4g} in each of {of.steps} gradients, where {whose} is {of.clip.size:.3g} at most"

    def planned_noise(self) -> PlannedNoise:
        of = self.gradients
        note = f"in each of {of.steps} sums of gradients, where one row's is {of.clip.size:.3g} at most; biased too"
        return PlannedNoise(None, of.scale, note)

    def simulated_covariance(self, x: np.ndarray, y: np.ndarray, times: float) -> np.ndarray:
        """Simulate the end of the descent, many runs at once, on a few rows that stand for all: its noise alone."""
        rng = np.random.default_rng(1)
        shape = (SIMULATED_RUNS, x.shape[1])
        theta, seen, kept = np.zeros(shape), np.zeros((SIMULATED_RUNS, 1)), []
        for step in range(self.gradients.steps):
            gradient = _clipped_sum(theta, x, y, self.gradients.clip) * times + self.gradients.simulate(rng, shape)
            seen += (gradient**2).sum(axis=1, keepdims=True)
            theta = theta - STRIDE / np.sqrt(seen) * gradient
            if step >= self.gradients.steps // 2:
                kept.append(theta)
        return np.atleast_2d(np.cov(np.mean(kept, axis=0).T))


def _clipped_sum(theta: np.ndarray, x: np.ndarray, y: np.ndarray, clip: Clip) -> np.ndarray:
    """Sum clipped gradients in floating point, for a simulation."""
    residual = theta @ x.T - y
    if clip.shape == "ball":
        length = np.abs(residual) * np.linalg.norm(x, axis=1)
        residual = residual * np.minimum(1.0, clip.size / np.maximum(length, 1e-300))
        return residual @ x
    return np.stack([np.clip(residual * column, -clip.size, clip.size).sum(axis=1) for column in x.T], axis=1)


def default_clip(domain: Domain, shape: Literal["ball", "box"]) -> Clip:
    """Choose where gradients are clipped, from the bounds alone. The box is inside the ball, with its corners on it."""
    size = DEFAULT_CLIP * typical_norm(domain)
    return Clip(shape, size / math.sqrt(domain.width - 1) if shape == "box" else size)


def typical_norm(domain: Domain) -> float:
    """Compute the norm of an evenly spread row: intercept and blocks have a coordinate of 1, a number's square is 1/3."""
    regressors = domain.regressors
    if regressors.row_norm is not None:
        return min(regressors.row_norm.longest, math.sqrt(unit_coordinates(regressors)))
    return math.sqrt(1 + len(regressors.blocks) + len(regressors.numeric) / 3)
