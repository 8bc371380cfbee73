"""Objective perturbation: the exact minimiser of a randomly tilted least-squares problem over a ball."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.special import ndtri

from dpspark.core.domain import Domain
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.privacy.budget import analytic_mu, gaussian_delta
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.profiles import for_one_row
from dpspark.privacy.sensitivity import RegressionSensitivity

DEFAULT_RADIUS = 1.0  # of the coefficients, where the bounds of the columns and of the response are ±1
RIDGE_SHARE = 0.2  # of epsilon that the ridge costs; the rest is the tilt's

Calibration = Literal["exact", "theorem"]


@dataclass(frozen=True)
class ObjectivePerturbation:
    """argmin over ‖θ‖ <= radius of ½ Σ (y − x·θ)² + ½ ridge ‖θ‖² + b·θ, with b ~ N(0, sigma² I).

    Privacy
        Unit         one row; add or remove one, or replace one (group privacy)
        Requires     every row inside `domain` (bounds.grid_rows): ‖x‖ <= B, |y| <= 1
        Sensitivity  B from sensitivity.regression_statistics; one row's gradient has norm L = B(1 + B·radius) at most
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

    domain: Domain
    longest: float  # B
    radius: float
    ridge: float
    sigma: float
    calibration: Calibration

    @classmethod
    def for_budget(
        cls,
        domain: Domain,
        sensitivity: RegressionSensitivity,
        replaced: bool,
        epsilon: float,
        delta: float,
        calibration: Calibration = "exact",
        radius: float | None = None,
    ) -> ObjectivePerturbation:
        radius = DEFAULT_RADIUS if radius is None else radius
        epsilon, delta = for_one_row(epsilon, delta, replaced)
        longest = sensitivity.longest
        gradient = longest * (1 + longest * radius)
        if calibration == "theorem":
            sigma = gradient * math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon
            return cls(domain, longest, radius, 2 * longest**2 / epsilon, sigma * (1 + 1e-12), calibration)
        ridge = longest**2 / math.expm1(RIDGE_SHARE * epsilon) * (1 + 1e-12)
        slope = _largest_slope((1 - RIDGE_SHARE) * epsilon, delta)
        if not slope > 0:
            raise ConfError(f"mechanism objective: epsilon={epsilon:g}, delta={delta:g} for one row is beyond reach.")
        return cls(domain, longest, radius, ridge, gradient / slope * (1 + 1e-9), calibration)

    @property
    def gradient(self) -> float:
        """L: the largest norm of one row's gradient in the ball."""
        return self.longest * (1 + self.longest * self.radius)

    @property
    def count_is_public(self) -> bool:
        return False

    def delta(self, epsilon: float) -> float:
        """For one row added or removed, by the exact profile."""
        return tilted_delta(epsilon - math.log1p(self.longest**2 / self.ridge), self.gradient / self.sigma)

    def release(self, gram: ExactGram, noise: NoiseSource) -> np.ndarray:
        """Draw the tilt, once, and minimise; the coefficients in scaled coordinates."""
        matrix = scaled_matrix(gram)
        tilt = self.sigma * ndtri(noise.uniforms(len(matrix) - 1))
        squares = matrix[:-1, :-1] + self.ridge * np.eye(len(tilt))
        return minimise_in_ball(squares, matrix[:-1, -1] - tilt, self.radius)

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "normal tilt of the objective, in floating point, drawn once",
            "calibration": self.calibration,
            "radius": self.radius,
            "ridge": self.ridge,
            "sigma": self.sigma,
            "sensitivity": {"value": self.gradient, "norm": "l2 of one row's gradient", "longest_row": self.longest},
        }


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
