"""A smaller ridge where the data allow it: a private lower bound of the matrix's least eigenvalue, then the draw."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpspark.core.domain import Domain
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.noisy import NoisyGram, SamplingNoise
from dpspark.mechanisms.gram.projection import ProjectedGram
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import squared_row_norm

STEPS_PER_NORM = 256  # of the public grid for the least eigenvalue, in one B²
LARGEST_TRACE = 2.0**40  # past it nothing is credited: bounds the eigenvalue solver's error by a public number
SOLVER_ERROR = 64 * 2.0**-53  # of `eigvalsh`, times width and trace; LAPACK's own bounds are far below


@dataclass(frozen=True)
class AdaptiveProjection:
    """A share of the budget bounds λ = λ_min(S) from below; the rest draws with a ridge lowered by that bound.

    f(S) = min(λ, LARGEST_TRACE − tr S), at least 0, is floored to a public grid, released with discrete Laplace noise Z, and
    less the noise's quantile q and the sensitivity becomes the bound: L = step·(released − q − sensitivity) − slack, at
    least 0. The draw's ridge is max(0, w² − L), w² being the one that the rest of the budget needs without any bound.

    Privacy
        Unit         one row; add or remove one, or replace one
        Requires     every row inside `domain`, ‖z‖² <= B² = sensitivity.squared_row_norm
        Sensitivity  of f: B², added, removed or replaced (Weyl's inequality; the trace moves by at most B²). Of the floored
                     value: B² + 2·slack for the eigenvalue solver, rounded up to steps, + 1 step
        Guarantee    (epsilon, delta) in all, by the argument below
        Source       Sheffet, Private Approximations of the 2nd-Moment Matrix, Sections 3 and 5 (the idea alone)
        Public       what ProjectedGram publishes, the released value, the bound and the ridge
        Excluded     timing; the draw's sampler is floating point
        Tested by    tests/mechanisms/test_adaptive.py

    Why. Let A be the table without the row (or, if one is replaced, without either version of it), S any table that is A
    and at most one row more. (1) The released value is share·epsilon-DP. (2) On S it exceeds the value on A by at most the
    sensitivity + Z, so unless Z > q, L <= λ_min(A). (3) Given a released value with L <= λ_min(A), the draw is
    ((1−share)·epsilon, (1−share)·delta)-indistinguishable between A and A + zzᵀ: its loss depends on s = zᵀ(A + ridge·I +
    zzᵀ)⁻¹z <= B²/(λ_min(A) + ridge + B²) <= B²/(w² + B²), as ProjectedGram's does, and it is monotone in s; replaced rows
    by group privacy through A. (4) For any event, split the released values into those with L <= λ_min(A) and the
    rest: P_S(event) <= P(Z > q) + (1−share)·delta + e^((1−share)·epsilon) · e^(share·epsilon) · P_S'(event), and
    P(Z > q) <= share·delta. The bound must hold for A, the smaller neighbour: hence the sensitivity is taken off too.
    """

    base: ProjectedGram  # calibrated to the rest of the budget, its ridge not lowered
    share: float
    epsilon: float  # of the bound
    failure: float  # probability that the bound is too large, part of delta

    @property
    def domain(self) -> Domain:
        return self.base.domain

    def for_domain(self, domain: Domain) -> AdaptiveProjection:
        return replace(self, base=replace(self.base, domain=domain))

    @property
    def noise(self) -> SamplingNoise:
        """Before any data: with the ridge that is not lowered, the most noise that there can be."""
        return self.base.noise

    @property
    def count_is_public(self) -> bool:
        return False

    @property
    def step(self) -> float:
        return squared_row_norm(self.domain) / STEPS_PER_NORM

    @property
    def slack(self) -> float:
        return SOLVER_ERROR * self.domain.width * LARGEST_TRACE

    @property
    def sensitivity(self) -> int:
        """In grid steps."""
        return math.ceil((squared_row_norm(self.domain) + 2 * self.slack) / self.step * (1 + 1e-12)) + 1

    @property
    def scale(self) -> float:
        """Of the discrete Laplace noise, in grid steps."""
        return self.sensitivity / self.epsilon * (1 + 1e-12)

    @property
    def quantile(self) -> int:
        """The least q, rounded up, with P(Z > q) = e^(−(q + 1)/scale) / (1 + e^(−1/scale)) <= failure."""
        needed = -self.scale * (math.log(self.failure) + math.log1p(math.exp(-1 / self.scale)))
        return max(0, math.ceil(needed * (1 + 1e-12)))

    def least_eigenvalue(self, gram: ExactGram) -> int:
        """f(S) floored to the grid."""
        scaled = scaled_matrix(gram)
        least = min(float(np.linalg.eigvalsh(scaled)[0]), LARGEST_TRACE - float(np.trace(scaled)))
        return math.floor(max(0.0, least) / self.step)

    def bound(self, released: int) -> float:
        """L: below the least eigenvalue of the table and of its neighbours, but for probability `failure`."""
        return max(0.0, self.step * (released - self.quantile - self.sensitivity) - self.slack)

    def lowered(self, bound: float) -> ProjectedGram:
        """The draw's mechanism, from released things alone."""
        base = self.base
        return ProjectedGram(base.domain, base.law, base.degrees, max(0.0, base.ridge - bound), base.calibration)

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw twice, once each: the bound, then the matrix."""
        released = self.least_eigenvalue(gram) + noise.discrete_laplace(self.scale, 1)[0]
        bound = self.bound(released)
        mechanism = self.lowered(bound)
        noisy = mechanism.release(gram, noise)
        found = {
            "released": released * self.step,
            "lower_bound": bound,
            "ridge_before": self.base.ridge,
            "ridge": mechanism.ridge,
        }
        facts = {"ridge_removed": mechanism.ridge, "adaptive": {**self.facts()["adaptive"], **found}}
        return NoisyGram(noisy.domain, noisy.upper, noisy.noise, facts)

    def facts(self) -> dict[str, Any]:
        steps = {"step": self.step, "sensitivity": self.sensitivity, "scale": self.scale, "quantile": self.quantile}
        return {
            **self.base.facts(),
            "adaptive": {"share": self.share, "epsilon": self.epsilon, "failure": self.failure, "grid": steps},
        }
