"""Noise on the 3×3 second moments of a group, and least squares from them, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any, ClassVar, Literal, Self

import numpy as np

from dpspark.core.domain import Domain, Numeric
from dpspark.core.facts import Facts, Garbled
from dpspark.errors import ConfError
from dpspark.mechanisms.lines.base import (
    COVER,
    LineMechanism,
    LineProblem,
    Target,
    enough,
    epsilon_for_parts,
    is_pure,
)
from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, Status, exact_sum, line_fit, no_fit
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded, largest_mu
from dpspark.privacy.events import ROUNDED_UP, Event, Gaussian, Pure
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.sensitivity import Sensitivity, groups_drawn_apart, line_moments, line_moments_l1

WEAK = 2.0  # κ: below this, least squares on noisy moments has no useful interval
LEVEL = 0.95
UNIT_SQUARE = Domain((Numeric("x", -1.0, 1.0), Numeric("y", -1.0, 1.0)))
STEPS = float(FINE) ** 2  # of 1.0 of a moment
ENTRIES = 6  # of the upper triangle


@dataclass(frozen=True)
class MomentsLine:
    """Σ zzᵀ of z = (1, x, y), x and y in [-1, 1], with noise on its upper triangle; then least squares.

    Privacy
        Unit         one record: its rows are added, removed or replaced (`records` says which), in one group or several
        Requires     rows inside the plane's bounds
        Sensitivity  sensitivity.second_moment or moved_moment (gaussian), second_moment_l1 (laplace)
        Guarantee    gaussian: mu = sensitivity / sigma, by the routes of gram.gaussian, or rho; laplace: pure
        Source       as gram.gaussian and gram.laplace; intervals as analysis.ols
        Public       bounds, the noise's scale; the number of rows only if `public_rows`
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_moments.py
    """

    plane: Plane
    law: Literal["gaussian", "laplace"]
    diagonal: float  # scale of the noise (sigma, or Laplace's) in units of 1.0
    off_diagonal: float
    public_rows: bool
    level: float = LEVEL

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows = self.plane.rows(x, y)
        return self.solve(self.noisy(rows, random.stream("draws", *labels)))

    grid: ClassVar[None] = None

    def quieter(self, times: float) -> Self:
        return replace(self, diagonal=self.diagonal / times, off_diagonal=self.off_diagonal / times)

    def noisy(self, rows: Rows, stream: Stream) -> np.ndarray:
        """The released matrix, in units of 1.0."""
        one = FINE
        right, up = 2 * rows.x - FINE, 2 * rows.y - FINE
        exact = {
            (0, 0): len(rows) * one * one,
            (0, 1): int(right.sum()) * one,
            (0, 2): int(up.sum()) * one,
            (1, 1): exact_sum(right * right),
            (1, 2): exact_sum(right * up),
            (2, 2): exact_sum(up * up),
        }
        result = np.empty((3, 3))
        for (i, j), value in exact.items():
            scale = Fraction(self.diagonal if i == j else self.off_diagonal) * one * one
            if not (self.public_rows and i == j == 0):
                draw = stream.discrete_gaussian if self.law == "gaussian" else stream.discrete_laplace
                value += draw(scale)
            result[i, j] = result[j, i] = value / (one * one)
        return result

    def solve(self, moments: np.ndarray) -> SimpleFit:
        """Least squares, and intervals with the noise in them. Post-processing: no cost."""
        squares, cross = moments[:2, :2], moments[:2, 2]
        smallest = float(np.linalg.eigvalsh(squares)[0])
        diagonal, off = (self.std(part) for part in (self.diagonal, self.off_diagonal))
        strength = smallest / (2 * off * math.sqrt(2))
        if not strength > 0.1:  # not even the sign of a determinant is sure
            return no_fit(self.plane)
        inverse = np.linalg.inv(squares)
        beta = inverse @ cross
        low, high = self.plane.candidate_range
        anchors = self.plane.joint_anchors
        ends = [(float(beta @ (1, 2 * anchor - 1)) + 1) / 2 for anchor in anchors]
        inside = tuple(min(max(end, low), high) for end in ends)
        status: Status = "ok" if strength >= WEAK and moments[0, 0] > 2 else "weakly_identified"
        half = self._half_widths(moments, beta, inverse, diagonal, off) if status == "ok" else None
        return line_fit(self.plane, anchors, inside, status, half)

    @property
    def off_diagonal_std(self) -> float:
        return self.std(self.off_diagonal)

    def std(self, scale: float) -> float:
        return scale if self.law == "gaussian" else math.sqrt(2) * scale

    def _half_widths(
        self, moments: np.ndarray, beta: np.ndarray, inverse: np.ndarray, diagonal: float, off: float
    ) -> tuple[float, ...]:
        """Compute them as analysis.ols does: Var(β̃) = σ̂²H + HΩH, with σ̂² = (RSS + tr(HΩ))/(n − 2)."""
        noise = off**2 * ((1 + beta @ beta) * np.eye(2) + np.outer(beta, beta))
        noise += (diagonal**2 - 2 * off**2) * np.diag(beta**2)
        if self.public_rows:
            noise[0, 0] -= diagonal**2 * beta[0] ** 2
        rss = moments[2, 2] - 2 * beta @ moments[:2, 2] + beta @ moments[:2, :2] @ beta
        variance = max(0.0, (rss + np.trace(inverse @ noise)) / (moments[0, 0] - 2))
        covariance = variance * inverse + inverse @ noise @ inverse
        z = NormalDist().inv_cdf((1 + self.level) / 2)
        x_low, x_high = self.plane.x_bounds
        at = [np.array([1.0, 2 * (cut - x_low) / (x_high - x_low) - 1]) for cut in self.plane.wanted]
        return tuple(z * math.sqrt(max(0.0, float(c @ covariance @ c))) / 2 for c in at)


@dataclass(frozen=True, kw_only=True)
class MomentsLines(LineMechanism):
    """A MomentsLine for each group: what the two laws of the noise share."""

    name: ClassVar[str] = "gram"
    words: ClassVar[str] = "Noise, added once to the second moments of each group."
    target: ClassVar[Target] = "mean"
    own_interval: ClassVar[bool] = True
    line: MomentsLine


def level_of(problem: LineProblem) -> float:
    return LEVEL if problem.interval is None else problem.interval.level


@dataclass(frozen=True, kw_only=True)
class GaussianMoments(MomentsLines):
    """Discrete Gaussian noise on a group's moments."""

    kernel_name: ClassVar[str] = "gaussian"

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: Any) -> LineMechanism:
        if is_pure(budget):
            raise ConfError("mechanism gaussian needs delta > 0 or rho. Use mechanism laplace.")
        value, entries = line_moments(UNIT_SQUARE, problem.records).value, ENTRIES * problem.records.groups
        mu, route = largest_mu(budget, lambda mu: distance_from_rounded(entries, value / mu / 2 * STEPS))
        return cls._at(problem, value / enough(mu * COVER), route, budget, options)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        diagonal, off = facts.positive("sigma"), facts.positive("off_diagonal_sigma")
        shape = line_moments(UNIT_SQUARE, problem.records).shape
        # The smaller of what both say: a tie by the shape's definition, but for rounding up off the diagonal.
        sigma = min(diagonal, off if shape == "spherical" else off * math.sqrt(2))
        return cls._at(problem, sigma, facts.text("calibration"), claimed, cls.Options())

    @classmethod
    def _at(cls, problem: LineProblem, sigma: float, route: str, budget: Budget, options: Any) -> LineMechanism:
        symmetric = line_moments(UNIT_SQUARE, problem.records).shape == "symmetric"
        off = math.nextafter(sigma / math.sqrt(2), math.inf) if symmetric else sigma
        line = MomentsLine(problem.plane, "gaussian", sigma, off, problem.records.public_rows, level_of(problem))
        return cls(problem=problem, line=line, route=route, budget=budget, options=options)

    @property
    def sensitivity(self) -> Sensitivity:
        return line_moments(UNIT_SQUARE, self.records)

    def line_event(self) -> Event:
        loss = self.sensitivity.value / self.line.diagonal * ROUNDED_UP
        return Gaussian.of(loss, self.records.groups * distance_from_rounded(ENTRIES, self.line.off_diagonal * STEPS))

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.sensitivity.value, self.sensitivity.shape

    def line_facts(self) -> dict[str, Any]:
        found = self.sensitivity
        return {
            "sampler": "exact discrete Gaussian on the upper triangle, from a secret drawn once",
            "calibration": self.route,
            "sigma": self.line.diagonal,
            "off_diagonal_sigma": self.line.off_diagonal,
            "sensitivity": {"value": found.value, "norm": found.shape, "reason": found.reason},
        }


@dataclass(frozen=True, kw_only=True)
class LaplaceMoments(MomentsLines):
    """Discrete Laplace noise on a group's moments: pure."""

    kernel_name: ClassVar[str] = "laplace"

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: Any) -> LineMechanism:
        # A record that moves changes two groups: each has half.
        epsilon, route = epsilon_for_parts(budget.part(Fraction(1, groups_drawn_apart(problem.records))), 1)
        scale = line_moments_l1(UNIT_SQUARE, problem.records) / epsilon * (1 + 1e-12)
        return cls._at(problem, scale, route, budget, options)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        return cls._at(problem, facts.positive("scale"), facts.text("calibration"), claimed, cls.Options())

    @classmethod
    def _at(cls, problem: LineProblem, scale: float, route: str, budget: Budget, options: Any) -> LineMechanism:
        line = MomentsLine(problem.plane, "laplace", scale, scale, problem.records.public_rows, level_of(problem))
        return cls(problem=problem, line=line, route=route, budget=budget, options=options)

    @property
    def sensitivity(self) -> float:
        return line_moments_l1(UNIT_SQUARE, self.records)

    def line_event(self) -> Event:
        return Pure(self.sensitivity / self.line.diagonal * ROUNDED_UP, groups_drawn_apart(self.records))

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.sensitivity, "l1 of the upper triangle"

    def line_facts(self) -> dict[str, Any]:
        return {
            "sampler": "exact discrete Laplace on the upper triangle, from a secret drawn once",
            "calibration": self.route,
            "scale": self.line.diagonal,
            "sensitivity": {"value": self.sensitivity, "norm": "l1 of the upper triangle"},
        }


@dataclass(frozen=True, kw_only=True)
class GramLines(MomentsLines):
    """`gram`: Gaussian noise where the budget has a delta or is in rho, else Laplace's. One of the two is made, never this."""

    kernel_name: ClassVar[str] = "gram"

    @classmethod
    def drawn_by(cls) -> tuple[type[LineMechanism], ...]:
        return GaussianMoments, LaplaceMoments

    @classmethod
    def for_budget(cls, problem: LineProblem, budget: Budget, options: Any) -> LineMechanism:  # type: ignore[override]
        kernel: type[MomentsLines] = LaplaceMoments if is_pure(budget) else GaussianMoments
        return kernel.for_budget(problem, budget, options)

    @classmethod
    def from_facts(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:  # type: ignore[override]
        kernel = {each.kernel_name: each for each in cls.drawn_by()}.get(facts.text("kernel"))
        if kernel is None:
            raise Garbled("mechanism.kernel is not of the mechanism that was asked for")
        return kernel.read(problem, facts, claimed)
