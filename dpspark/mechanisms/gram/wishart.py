"""Additive Wishart noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpspark.core.domain import Domain
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoisyGram
from dpspark.mechanisms.gram.sampling import scaled_matrix, to_grid, wishart
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.profiles import for_one_row, wishart_degrees, wishart_delta
from dpspark.privacy.sensitivity import squared_row_norm

DEFAULT_RATIO = 32.0  # B² / scale: the noise is within 4% of its limit, the degrees of freedom still small
LARGEST_DEGREES = 1e12

Calibration = Literal["exact", "theorem"]


@dataclass(frozen=True)
class WishartGram:
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

    domain: Domain
    degrees: int
    scale: float
    calibration: Calibration

    @classmethod
    def for_budget(
        cls,
        domain: Domain,
        replaced: bool,
        epsilon: float,
        delta: float,
        calibration: Calibration = "exact",
        degrees: int | None = None,
        scale: float | None = None,
    ) -> WishartGram:
        norm = squared_row_norm(domain)
        if degrees is not None and degrees > LARGEST_DEGREES:
            raise ConfError(f"mechanism.degrees_of_freedom={degrees}; expected at most {LARGEST_DEGREES:.0e}.")
        one_epsilon, one_delta = for_one_row(epsilon, delta, replaced)
        if calibration == "theorem":
            least = theorem_degrees(domain.width, one_epsilon, one_delta)
            return cls(domain, _at_least(degrees, least), _scale_at_least(scale, norm), calibration)
        if degrees is not None and scale is None:
            scale = norm / _largest_ratio(one_epsilon, one_delta, degrees - domain.width + 1)
        scale_given = scale is not None
        scale = norm / DEFAULT_RATIO if scale is None else scale
        least = wishart_degrees(one_epsilon, one_delta, domain.width, norm / scale)
        if least > LARGEST_DEGREES:
            raise ConfError(
                f"mechanism wishart: this budget needs {least:.2g} degrees of freedom, more than can be drawn. "
                "Use a larger epsilon, or the gaussian mechanism."
            )
        if degrees is None and not scale_given:  # degrees are whole: what they leave of delta, a smaller scale takes
            scale = norm / _largest_ratio(one_epsilon, one_delta, least - domain.width + 1)
        return cls(domain, _at_least(degrees, least), scale, calibration)

    @property
    def count_is_public(self) -> bool:
        return False

    @property
    def mean(self) -> float:
        return self.degrees * self.scale

    @property
    def noise(self) -> AdditiveNoise:
        off = math.sqrt(self.degrees) * self.scale
        return AdditiveNoise(math.sqrt(2) * off, off, law="wishart", degrees=self.degrees)

    def delta(self, epsilon: float) -> float:
        """For one row added or removed."""
        ratio = squared_row_norm(self.domain) / self.scale
        return wishart_delta(epsilon, self.degrees - self.domain.width + 1, ratio)

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw the noise, once, and add it; its known mean is taken off again."""
        eye = np.eye(self.domain.width)
        drawn = wishart(self.scale * eye, self.degrees, noise) - self.mean * eye
        return NoisyGram(self.domain, to_grid(self.domain, scaled_matrix(gram) + drawn), self.noise)

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "Wishart by Bartlett's decomposition, in floating point, drawn once",
            "calibration": self.calibration,
            "degrees_of_freedom": self.degrees,
            "scale": self.scale,
            "mean_removed": self.mean,
            "sensitivity": {"value": squared_row_norm(self.domain), "norm": "squared l2 of a row"},
        }


def theorem_degrees(width: int, epsilon: float, delta: float) -> int:
    """Theorem 4.1: scale B² and k >= d + (14/epsilon²)·2·ln(4/delta), for epsilon < 1 and delta < 1/e."""
    if not (epsilon < 1 and delta < math.exp(-1)):
        raise ConfError(
            f"mechanism wishart, calibration theorem: epsilon={epsilon:g}, delta={delta:g} for one row; the theorem is "
            "for epsilon < 1 and delta < 1/e.\nUse calibration: exact."
        )
    return math.ceil(width + 14 / epsilon**2 * 2 * math.log(4 / delta))


def _largest_ratio(epsilon: float, delta: float, effective: int) -> float:
    """The largest B²/scale that meets (epsilon, delta) at these degrees of freedom, rounded down."""
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
