"""A private lower bound of a matrix's least eigenvalue: what a ridge may be lowered by."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import Cost, same
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import least_eigenvalue_steps, squared_row_norm

STEPS_PER_NORM = 256  # of the public grid for the least eigenvalue, in one B²
LARGEST_TRACE = 2.0**40  # past it nothing is credited: bounds the eigenvalue solver's error by a public number
SOLVER_ERROR = 64 * 2.0**-53  # of `eigvalsh`, times width and trace; LAPACK's own bounds are far below


@dataclass(frozen=True)
class LeastEigenvalue:
    """A share of the budget bounds λ = λ_min(S) from below; the rest draws with a ridge lowered by that bound.

    f(S) = min(λ, LARGEST_TRACE − tr S), at least 0, is floored to a public grid, released with discrete Laplace noise Z, and
    less the noise's quantile q and the sensitivity becomes the bound: L = step·(released − q − sensitivity) − slack, at
    least 0. The draw's ridge is max(0, w² − L), w² being the one that the rest of the budget needs without any bound.

    Privacy
        Unit         one row; add or remove one, or replace one
        Requires     every row inside the domain, ‖z‖² <= B² = sensitivity.squared_row_norm
        Sensitivity  sensitivity.least_eigenvalue_steps. Of f: B², added, removed or replaced (Weyl's inequality; the trace
                     moves by at most B²). Of the floored value: B² + 2·slack for the eigenvalue solver, rounded up to
                     steps, + 1 step
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

    width: int
    squared_norm: float  # B²
    share: float
    epsilon: float  # of the bound
    failure: float  # probability that the bound is too large, part of delta
    step: float
    scale: float  # of the discrete Laplace noise, in grid steps
    quantile: int  # q, in grid steps

    @classmethod
    def for_budget(cls, domain: Domain, share: float, epsilon: float, failure: float) -> Self:
        """Calibrate it; every rounding is towards more noise, and a smaller bound."""
        norm = squared_row_norm(domain)
        step = norm / STEPS_PER_NORM
        scale = least_eigenvalue_steps(norm, _slack(domain.width), step) / epsilon * (1 + 1e-12)
        needed = -scale * (math.log(failure) + math.log1p(math.exp(-1 / scale)))
        quantile = max(0, math.ceil(needed * (1 + 1e-12)))
        return cls(domain.width, norm, share, epsilon, failure, step, scale, quantile)

    @classmethod
    def from_facts(cls, domain: Domain, facts: Facts) -> Self:
        """Read it from a manifest: the grid, the scale and the quantile are taken as they are stated."""
        grid, share = facts.part("grid"), facts.positive("share")
        if not share < 1:
            raise Garbled("mechanism.adaptive: its budget has no epsilon and delta, or its share takes all")
        return cls(
            domain.width,
            squared_row_norm(domain),
            share,
            facts.positive("epsilon"),
            facts.positive("failure"),
            grid.positive("step"),
            grid.positive("scale"),
            grid.whole("quantile", 0),
        )

    @property
    def slack(self) -> float:
        return _slack(self.width)

    @property
    def sensitivity(self) -> int:
        """The sensitivity in grid steps."""
        return least_eigenvalue_steps(self.squared_norm, self.slack, self.step)

    @property
    def tail(self) -> float:
        """P(Z > q) = e^(−(q + 1)/scale) / (1 + e^(−1/scale))."""
        return math.exp(-(self.quantile + 1) / self.scale) / (1 + math.exp(-1 / self.scale))

    def rest(self, budget: Budget) -> tuple[float, float]:
        """Say what is left for the draw."""
        assert budget.epsilon is not None
        assert budget.delta is not None
        return (1 - self.share) * budget.epsilon, (1 - self.share) * budget.delta

    def least_eigenvalue(self, gram: ExactGram) -> int:
        """Compute f(S), floored to the grid."""
        scaled = scaled_matrix(gram)
        least = min(float(np.linalg.eigvalsh(scaled)[0]), LARGEST_TRACE - float(np.trace(scaled)))
        return math.floor(max(0.0, least) / self.step)

    def release(self, gram: ExactGram, noise: NoiseSource) -> int:
        """Draw the noise, once."""
        return self.least_eigenvalue(gram) + noise.discrete_laplace(self.scale, 1)[0]

    def bound(self, released: int) -> float:
        """Compute L: below the least eigenvalue of the table and of its neighbours, but for probability `failure`."""
        return max(0.0, self.step * (released - self.quantile - self.sensitivity) - self.slack)

    def with_draw(self, draw: Cost) -> Cost:
        """Price the bound and the draw together, by their scales."""
        spent, tail = self.sensitivity / self.scale, self.tail

        def delta_at(epsilon: float) -> float:
            return min(1.0, tail + draw.delta_at(epsilon - spent)) if epsilon > spent else 1.0

        return Cost(delta_at)

    def facts(self) -> dict[str, Any]:
        steps = {"step": self.step, "sensitivity": self.sensitivity, "scale": self.scale, "quantile": self.quantile}
        return {"share": self.share, "epsilon": self.epsilon, "failure": self.failure, "grid": steps}

    def differences(self, stated: Facts, ridge: float, claimed: Budget) -> Iterator[str]:
        """List what a manifest says of the bound, and of the ridge that it lowers, and is not so."""
        assert claimed.epsilon is not None
        assert claimed.delta is not None
        lowered = stated.number("ridge")
        found = stated.number("released") - self.step * (self.quantile + self.sensitivity) - self.slack
        bound = max(0.0, found)
        if stated.part("grid").whole("sensitivity") != self.sensitivity:
            yield "adaptive: the sensitivity"
        if not stated.number("lower_bound") <= bound * (1 + 1e-9):
            yield "adaptive: the lower bound"
        if not (lowered >= (ridge - bound) * (1 - 1e-9) and lowered >= 0):
            yield "adaptive: the lowered ridge"
        if not (same(self.epsilon, self.share * claimed.epsilon) and same(self.failure, self.share * claimed.delta)):
            yield "adaptive: its share of the budget"


def _slack(width: int) -> float:
    return SOLVER_ERROR * width * LARGEST_TRACE
