"""Additive Wishart noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Limits, Problem, option
from dpspark.mechanisms.gram.base import REPAIR
from dpspark.mechanisms.gram.floating import (
    DEGREES,
    FloatingGram,
    calibration_of,
    checked,
    checked_facts,
)
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoisyGram
from dpspark.mechanisms.gram.sampling import scaled_matrix, to_grid, wishart
from dpspark.mechanisms.options import CALIBRATION
from dpspark.privacy.budget import Budget
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.profiles import for_one_row, wishart_degrees, wishart_delta
from dpspark.privacy.sensitivity import squared_row_norm

DEFAULT_RATIO = 32.0  # B² / scale: the noise is within 4% of its limit, the degrees of freedom still small
LARGEST_DEGREES = 1e12
LEAST_C = 2.0  # of Theorem 4.2


@dataclass(frozen=True)
class WishartOptions:
    """The options of additive Wishart noise."""

    calibration: str | None = option(CALIBRATION)
    degrees_of_freedom: int | None = option(DEGREES)
    scale: float | None = option(Limits("Of the Wishart law, in units of the scaled matrix.", above=0))
    repair: str | None = option(REPAIR)


@dataclass(frozen=True)
class WishartGram(FloatingGram):
    """S + W with W ~ Wishart(scale · I, degrees), published less its mean.

    Privacy
        Unit         one row; add or remove one, or replace one (group privacy)
        Requires     every row inside `domain` (bounds.grid_rows), ‖z‖² <= sensitivity.squared_row_norm
        Sensitivity  sensitivity.squared_row_norm(domain)
        Guarantee    (epsilon, delta) by profiles.wishart_delta, or by the paper's theorem
        Source       Sheffet, Private Approximations of the 2nd-Moment Matrix, Theorem 4.1
        Public       column names, bounds, degrees, scale
        Excluded     timing; the sampler is floating point
        Tested by    tests/mechanisms/test_sheffet.py
    """

    name: ClassVar[str] = "wishart"
    words: ClassVar[str] = "A random Wishart matrix was added, and its known mean taken off again."
    Options: ClassVar[type] = WishartOptions
    safe_repair: ClassVar[bool] = True
    degrees: int
    scale: float

    @classmethod
    def for_budget(cls, problem: Problem, budget: Budget, options: WishartOptions | None = None) -> Self:
        options, domain = options or WishartOptions(), checked(problem).domain
        degrees, scale = options.degrees_of_freedom, options.scale
        if degrees is not None and degrees > LARGEST_DEGREES:
            raise ConfError(f"mechanism.degrees_of_freedom={degrees}; expected at most {LARGEST_DEGREES:.0e}.")
        assert budget.epsilon is not None
        assert budget.delta is not None
        replaced = problem.records.replaced
        one = for_one_row(budget.epsilon, budget.delta, replaced)
        calibrate = _by_theorem if options.calibration == "theorem" else _exactly
        found = calibrate(domain.width, squared_row_norm(domain), one, degrees, scale)
        return cls(domain, budget, replaced, options.calibration or "exact", *found)

    @classmethod
    def from_facts(cls, problem: Problem, facts: Facts, claimed: Budget) -> Self:
        checked_facts(cls.name, problem, claimed)
        facts.part("noise").text("law", "wishart")
        degrees, scale = facts.whole("degrees_of_freedom"), facts.positive("scale")
        return cls(problem.domain, claimed, problem.records.replaced, calibration_of(facts), degrees, scale)

    @property
    def mean(self) -> float:
        return self.degrees * self.scale

    @property
    def noise(self) -> AdditiveNoise:
        off = math.sqrt(self.degrees) * self.scale
        return AdditiveNoise(math.sqrt(2) * off, off, law="wishart", degrees=self.degrees)

    def delta(self, epsilon: float) -> float:
        ratio = squared_row_norm(self.domain) / self.scale
        return wishart_delta(epsilon, self.degrees - self.domain.width + 1, ratio)

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw the noise, once, and add it; its known mean is taken off again."""
        eye = np.eye(self.domain.width)
        drawn = wishart(self.scale * eye, self.degrees, noise) - self.mean * eye
        return NoisyGram(self.domain, to_grid(self.domain, scaled_matrix(gram) + drawn), self.noise)

    def facts(self) -> dict[str, Any]:
        value, norm = self.sensitivity_in_words()
        return {
            "sampler": "Wishart by Bartlett's decomposition, in floating point, drawn once",
            "calibration": self.calibration,
            "degrees_of_freedom": self.degrees,
            "scale": self.scale,
            "mean_removed": self.mean,
            "sensitivity": {"value": value, "norm": norm},
        }

    def differences(self, stated: Facts) -> tuple[str, ...]:
        found = super().differences(stated)
        if self.calibration != "theorem":
            return found
        assert self.budget.epsilon is not None
        assert self.budget.delta is not None
        least = theorem_degrees(self.domain.width, *for_one_row(self.budget.epsilon, self.budget.delta, self.replaced))
        enough = self.degrees >= least and self.scale >= squared_row_norm(self.domain) * (1 - 1e-12)
        return found if enough else (*found, "calibration: less noise than the theorem asks for")

    def paper_bounds(self, matrix: np.ndarray, nu: float) -> list[str]:
        c, bound = theorem_bound(matrix, self.degrees, self.scale, nu)
        name = "Sheffet, Theorem 4.2 (the noise's mean kept)"
        if c < LEAST_C:
            times = LEAST_C / c
            return [f"{name}: does not apply, as its C is {c:.2g} and must be 2; that takes {times:.1f} times the rows"]
        usual = np.linalg.norm(np.linalg.solve(matrix[:-1, :-1], matrix[:-1, -1]))
        return [f"{name}: scaled coefficients within {bound:.3g} of least squares', whose norm is {usual:.3g}"]

    @classmethod
    def safe_ridge(cls, facts: Mapping[str, Any], width: int, delta: float) -> float | None:
        return safe_ridge(facts["degrees_of_freedom"], facts["scale"], width, delta)


Found = tuple[int, float]  # degrees and scale


def _by_theorem(width: int, norm: float, one: tuple[float, float], degrees: int | None, scale: float | None) -> Found:
    least = theorem_degrees(width, *one)
    return _at_least(degrees, least), _scale_at_least(scale, norm)


def _exactly(width: int, norm: float, one: tuple[float, float], degrees: int | None, scale: float | None) -> Found:
    if degrees is not None and scale is None:
        scale = norm / _largest_ratio(*one, degrees - width + 1)
    scale_given = scale is not None
    scale = norm / DEFAULT_RATIO if scale is None else scale
    least = wishart_degrees(*one, width, norm / scale)
    if least > LARGEST_DEGREES:
        raise ConfError(
            f"mechanism wishart: this budget needs {least:.2g} degrees of freedom, more than can be drawn. "
            "Use a larger epsilon, or the gaussian mechanism."
        )
    if degrees is None and not scale_given:  # degrees are whole: what they leave of delta, a smaller scale takes
        scale = norm / _largest_ratio(*one, least - width + 1)
    return _at_least(degrees, least), scale


def theorem_degrees(width: int, epsilon: float, delta: float) -> int:
    """Theorem 4.1: scale B² and k >= d + (14/epsilon²)·2·ln(4/delta), for epsilon < 1 and delta < 1/e."""
    if not (epsilon < 1 and delta < math.exp(-1)):
        raise ConfError(
            f"mechanism wishart, calibration theorem: epsilon={epsilon:g}, delta={delta:g} for one row; the theorem is "
            "for epsilon < 1 and delta < 1/e.\nUse calibration: exact."
        )
    return math.ceil(width + 14 / epsilon**2 * 2 * math.log(4 / delta))


def safe_ridge(degrees: float, scale: float, width: int, delta: float) -> float:
    """Say what taking off scale·(√k − √d − t)² instead of k·scale leaves on the diagonal; t = √(2·ln(4/delta))."""
    least_root = math.sqrt(degrees) - math.sqrt(width) - math.sqrt(2 * math.log(4 / delta))
    return scale * (degrees - max(0.0, least_root) ** 2)


def theorem_bound(matrix: np.ndarray, degrees: float, scale: float, nu: float) -> tuple[float, float]:
    """Theorem 4.2: C, and the bound on ‖β̃ − β̂‖ that holds with probability 1 − nu if C >= 2 (else infinite).

    β̃ = (XᵀX + N)⁻¹(Xᵀy + n) with (N, n) the blocks of a Wishart(scale·I, degrees); `matrix` is of (X, y).
    """
    p = len(matrix) - 1
    squares, cross = matrix[:-1, :-1], matrix[:-1, -1]
    least = float(np.linalg.eigvalsh(squares)[0])
    widest = (math.sqrt(degrees) + math.sqrt(p) + math.sqrt(2 * math.log(4 / nu))) ** 2
    c = least / (scale * widest)
    if c < LEAST_C:
        return c, math.inf
    usual = float(np.linalg.norm(np.linalg.solve(squares, cross)))
    right = min(2 * math.sqrt(2 * degrees * p * math.log(4 * p / nu)), widest)
    return c, usual / (c - 1) + scale * (c - 2) / ((c - 1) * least) * right


def _largest_ratio(epsilon: float, delta: float, effective: int) -> float:
    """Find the largest B²/scale that meets (epsilon, delta) at these degrees of freedom, rounded down."""
    low, high = 0.0, float(max(effective, 1))
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if wishart_delta(epsilon, effective, middle) <= delta else (low, middle)
        if high - low <= 1e-12 * low:
            break
    if low <= 0:
        raise ConfError("mechanism.degrees_of_freedom: too few for this budget at any scale. Use more.")
    return low * (1 - 1e-9)


def _at_least(given: int | None, least: int) -> int:
    if given is not None and given < least:
        raise ConfError(f"mechanism.degrees_of_freedom={given}; this budget needs at least {least}.")
    return least if given is None else given


def _scale_at_least(given: float | None, least: float) -> float:
    if given is not None and given < least:
        raise ConfError(f"mechanism.scale={given:g}; the theorem needs at least {least:g}.")
    return least if given is None else given
