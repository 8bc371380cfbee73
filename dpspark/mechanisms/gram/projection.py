"""Johnson-Lindenstrauss projection and inverse-Wishart sampling: matrices drawn around S + ridge · I."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dpspark.core.domain import Domain
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.noisy import NoisyGram, SamplingNoise
from dpspark.mechanisms.gram.sampling import inverse_wishart, scaled_matrix, to_grid, wishart
from dpspark.mechanisms.gram.wishart import Calibration
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.profiles import for_one_row, gaussian_pair_delta, ridge_for
from dpspark.privacy.sensitivity import squared_row_norm

Law = Literal["johnson_lindenstrauss", "inverse_wishart"]
# The noise has a part that grows with S / √degrees and one that does not: enough degrees make the first negligible.
DEGREES_PER_ROW = 100
DEFAULT_DEGREES = 10**9
LARGEST_DEGREES = 10**12


@dataclass(frozen=True)
class ProjectedGram:
    """A Wishart(S + ridge · I, degrees) / degrees draw, or an inverse-Wishart one, published less its ridge.

    The rows of R·A' of a Johnson-Lindenstrauss projection are independent N(0, S + ridge · I), so that projecting and
    multiplying is a Wishart draw, made on the driver from S alone.

    Privacy
        Unit         one row; add or remove one, or replace one (group privacy)
        Requires     every row inside `domain` (bounds.grid_rows), ‖z‖² <= sensitivity.squared_row_norm
        Sensitivity  sensitivity.squared_row_norm(domain)
        Guarantee    (epsilon, delta) by profiles.gaussian_pair_delta, or by the paper's theorem
        Source       Sheffet, Private Approximations of the 2nd-Moment Matrix, Theorems 3.1 and 5.1
        Public       column names, bounds, degrees, ridge; never the number of rows
        Excluded     timing; the sampler is floating point
        Tested by    tests/mechanisms/test_sheffet.py
    """

    domain: Domain
    law: Law
    degrees: int
    ridge: float
    calibration: Calibration

    @classmethod
    def for_budget(
        cls,
        domain: Domain,
        law: Law,
        replaced: bool,
        epsilon: float,
        delta: float,
        calibration: Calibration = "exact",
        degrees: int | None = None,
        expected_rows: int | None = None,
    ) -> ProjectedGram:
        if degrees is None:
            degrees = min(LARGEST_DEGREES, DEGREES_PER_ROW * expected_rows) if expected_rows else DEFAULT_DEGREES
            degrees = max(degrees, 10 * domain.width)
        if not domain.width + 3 < degrees <= LARGEST_DEGREES:
            key = "rows" if law == "johnson_lindenstrauss" else "degrees_of_freedom"
            raise ConfError(
                f"mechanism.{key}={degrees}; expected more than the matrix's {domain.width} columns + 3, and at most "
                f"{LARGEST_DEGREES:.0e}."
            )
        one_epsilon, one_delta = for_one_row(epsilon, delta, replaced)
        norm = squared_row_norm(domain)
        if calibration == "theorem":
            return cls(domain, law, degrees, theorem_ridge(one_epsilon, one_delta, degrees, norm), calibration)
        return cls(domain, law, degrees, ridge_for(one_epsilon, one_delta, degrees, norm), calibration)

    @property
    def count_is_public(self) -> bool:
        return False

    @property
    def noise(self) -> SamplingNoise:
        if self.law == "johnson_lindenstrauss":
            return SamplingNoise(self.degrees, self.ridge)
        return SamplingNoise(self.degrees - self.domain.width - 3, self.ridge)

    def delta(self, epsilon: float) -> float:
        """For one row added or removed."""
        norm = squared_row_norm(self.domain)
        return gaussian_pair_delta(epsilon, self.degrees, norm / (self.ridge + norm))

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw, once; the known mean of what was added is taken off again."""
        eye = np.eye(self.domain.width)
        around = scaled_matrix(gram) + self.ridge * eye
        if self.law == "johnson_lindenstrauss":
            drawn = wishart(around, self.degrees, noise) / self.degrees
        else:
            drawn = inverse_wishart(around, self.degrees, noise) * (self.degrees - self.domain.width - 1)
        return NoisyGram(self.domain, to_grid(self.domain, drawn - self.ridge * eye), self.noise)

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "Wishart by Bartlett's decomposition, in floating point, drawn once",
            "calibration": self.calibration,
            "degrees_of_freedom": self.degrees,
            "ridge_removed": self.ridge,
            "sensitivity": {"value": squared_row_norm(self.domain), "norm": "squared l2 of a row"},
        }


def theorem_ridge(epsilon: float, delta: float, degrees: int, squared_norm: float) -> float:
    """Theorems 3.1 and 5.1: w² = 4B²(√(2r·ln(4/delta)) + ln(4/delta)) / epsilon, for delta < 1/e."""
    if not delta < math.exp(-1):
        raise ConfError(f"calibration theorem: delta={delta:g} for one row; the theorem is for delta < 1/e.")
    wall = math.log(4 / delta)
    return 4 * squared_norm * (math.sqrt(2 * degrees * wall) + wall) / epsilon
