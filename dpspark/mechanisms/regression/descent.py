"""Gradient descent on least squares with noise in every gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpspark.core.domain import Clip, Domain
from dpspark.core.records import Change
from dpspark.errors import ConfError
from dpspark.exact.gradient import GRADIENT_BITS, ExactGradient
from dpspark.privacy.budget import Budget, gaussian_delta, zcdp_delta
from dpspark.privacy.calibration import distance_from_rounded, largest_mu, sampler_delta
from dpspark.privacy.noise import LARGEST_SCALE, LARGEST_SIGMA, NoiseSource
from dpspark.privacy.sensitivity import clipped_gradient, unit_coordinates

DEFAULT_STEPS = 50
# Of the norm of a typical row: residuals beyond this are rare, where the response's bounds are ±1.
DEFAULT_CLIP = 0.3
STRIDE = 0.7  # of the first step, in units of the response's bounds over the regressors'

Gradient = Callable[[np.ndarray, Clip], ExactGradient]


@dataclass(frozen=True)
class GradientDescent:
    """`steps` passes: each sums clipped gradients exactly, adds noise and moves the coefficients.

    Privacy
        Unit         one record: `change` says what it does to its row
        Requires     each row's gradient clipped (gradient.Clip)
        Sensitivity  sensitivity.clipped_gradient: of one pass
        Guarantee    gaussian: mu = √steps · sensitivity / sigma, with the routes of gaussian.GaussianGram, or rho;
                     laplace: epsilon = steps · sensitivity / scale, pure. Each pass may depend on those before it
        Source       Alabi et al., Differentially Private Simple Linear Regression, DPGradDescent; for any regressors
        Public       column names, bounds, steps, clip, scale; never the number of rows
        Excluded     timing
        Tested by    tests/mechanisms/test_descent.py
    """

    domain: Domain
    steps: int
    clip: Clip
    sensitivity: float
    scale: float  # sigma or Laplace scale, in units of 1.0
    law: Literal["gaussian", "laplace"]
    route: str

    @classmethod
    def for_budget(
        cls,
        domain: Domain,
        change: Change,
        rows_per_record: int,
        budget: Budget,
        steps: int | None = None,
        clip: float | None = None,
    ) -> GradientDescent:
        steps = DEFAULT_STEPS if steps is None else steps
        size = DEFAULT_CLIP * typical_norm(domain) if clip is None else clip
        width = domain.width - 1
        if budget.rho is None and not budget.delta:
            assert budget.epsilon is not None
            box = Clip("box", size / math.sqrt(width) if clip is None else size)
            l1 = clipped_gradient(box, width, change, rows_per_record)
            scale = l1 * steps / budget.epsilon * (1 + 1e-12)
            return cls(domain, steps, box, l1, scale, "laplace", "pure")._drawable()
        ball = Clip("ball", size)
        l2 = clipped_gradient(ball, width, change, rows_per_record)

        def distance_at(mu: float) -> float:
            return cls(domain, steps, ball, l2, l2 * math.sqrt(steps) / mu, "gaussian", "analytic").distance

        mu, route = largest_mu(budget, distance_at)
        sigma = l2 * math.sqrt(steps) / mu * (1 + 1e-12) if mu > 0 else math.inf
        return cls(domain, steps, ball, l2, sigma, "gaussian", route)._drawable()

    def _drawable(self) -> GradientDescent:
        if not self._steps_of_grid <= (LARGEST_SIGMA if self.law == "gaussian" else LARGEST_SCALE):
            raise ConfError(f"The budget asks for noise of {self.scale:g} a step, which cannot be drawn.")
        return self

    @property
    def _steps_of_grid(self) -> float:
        return self.scale * 2.0**GRADIENT_BITS

    @property
    def distance(self) -> float:
        """Total variation between all the noise and rounded Gaussians."""
        return distance_from_rounded(self.steps * (self.domain.width - 1), self._steps_of_grid)

    @property
    def count_is_public(self) -> bool:
        return False

    @property
    def mu(self) -> float:
        return math.sqrt(self.steps) * self.sensitivity / self.scale

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at epsilon."""
        if self.law == "laplace":
            return 0.0 if epsilon >= self.steps * self.sensitivity / self.scale else 1.0
        analytic = gaussian_delta(self.mu, epsilon) + sampler_delta(self.distance, epsilon)
        return min(1.0, analytic, zcdp_delta(self.mu**2 / 2, epsilon))

    def release(self, gradient: Gradient, noise: NoiseSource, report: Callable[[int], None]) -> np.ndarray:
        """The mean of the later half of the iterates, in scaled coordinates. Steps shrink as the gradients seen add up."""
        theta = np.zeros(self.domain.width - 1)
        seen, kept = 0.0, []
        for step in range(self.steps):
            report(step)
            noisy = self.noisy(gradient(theta, self.clip), noise)
            seen += float(noisy @ noisy)
            # AdaGrad with one length for all coordinates (Ward, Wu & Bottou, 2020): it needs no number of rows.
            theta = theta - (STRIDE / math.sqrt(seen) * noisy if seen > 0 else 0.0)
            if step >= self.steps // 2:
                kept.append(theta)
        return np.mean(kept, axis=0)

    def noisy(self, exact: ExactGradient, noise: NoiseSource) -> np.ndarray:
        """One gradient with noise, in units of 1.0."""
        values = exact.reveal()
        draw = noise.discrete_gaussian if self.law == "gaussian" else noise.discrete_laplace
        draws = draw(self._steps_of_grid, len(values))
        return np.array([(v + d) / 2.0**GRADIENT_BITS for v, d in zip(values, draws, strict=True)])

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": f"exact discrete {self.law.capitalize()}, independent in each coordinate and step, drawn once",
            "calibration": self.route,
            "steps": self.steps,
            "clip": {"shape": self.clip.shape, "size": self.clip.size},
            "scale": self.scale,
            "sampler_distance": self.distance if self.law == "gaussian" else 0.0,
            "sensitivity": {
                "value": self.sensitivity,
                "norm": "l2" if self.law == "gaussian" else "l1",
                "of": "one step",
            },
        }


def typical_norm(domain: Domain) -> float:
    """Of a row of evenly spread values: intercept and blocks have one coordinate of 1, a number's square is 1/3."""
    regressors = domain.regressors
    if regressors.row_norm is not None:
        return min(regressors.row_norm.longest, math.sqrt(unit_coordinates(regressors)))
    return math.sqrt(1 + len(regressors.blocks) + len(regressors.numeric) / 3)
