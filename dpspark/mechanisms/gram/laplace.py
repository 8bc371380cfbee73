"""Discrete Laplace noise on the exact second-moment matrix: pure differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dpspark.core.domain import Domain
from dpspark.core.records import Change
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoisyGram
from dpspark.privacy.noise import LARGEST_SCALE, NoiseSource
from dpspark.privacy.sensitivity import second_moment_l1


@dataclass(frozen=True)
class LaplaceGram:
    """Discrete Laplace noise of one scale on every entry of the integer Gram matrix of bounded rows.

    Privacy
        Unit         one record: `change` says what it does to its row
        Requires     every row inside `domain` (bounds.grid_rows)
        Sensitivity  sensitivity.second_moment_l1: of all entries together, not of each
        Guarantee    epsilon = sensitivity / scale, pure
        Source       Dwork, McSherry, Nissim & Smith (2006); Ghosh, Roughgarden & Sundararajan (2009)
        Public       column names, bounds, scale; the number of rows only if rows are only replaced
        Excluded     timing
        Tested by    tests/mechanisms/test_laplace.py, tests/privacy/test_sensitivity.py
    """

    domain: Domain
    change: Change
    sensitivity: float
    scale: float  # in units of 1.0

    @classmethod
    def for_budget(cls, domain: Domain, change: Change, rows_per_record: int, epsilon: float) -> LaplaceGram:
        sensitivity = second_moment_l1(domain, change, rows_per_record)
        scale = sensitivity / epsilon * (1 + 1e-12)
        bits = domain.most_bits
        while bits > 0 and scale * domain.with_bits(bits).steps_per_row > LARGEST_SCALE:
            bits -= 1
        if not 0 < scale * domain.with_bits(bits).steps_per_row <= LARGEST_SCALE:
            raise ConfError(f"privacy.epsilon={epsilon:g} asks for noise of {scale:g} rows, which cannot be drawn.")
        return cls(domain.with_bits(bits), change, sensitivity, scale)

    @property
    def count_is_public(self) -> bool:
        return self.change == "replaced"

    @property
    def epsilon(self) -> float:
        return self.sensitivity / self.scale

    @property
    def noise(self) -> AdditiveNoise:
        std = math.sqrt(2) * self.scale
        return AdditiveNoise(std, std, self.count_is_public, "laplace")

    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw the noise, once, and add it."""
        if gram.domain != self.domain:
            raise ValueError("the matrix was made for another domain")
        exact = gram.reveal()
        draws = noise.discrete_laplace(self.scale * self.domain.steps_per_row, len(exact))
        upper = [value + draw for value, draw in zip(exact, draws, strict=True)]
        if self.count_is_public:
            upper[0] = exact[0]
        return NoisyGram(self.domain, tuple(upper), self.noise)

    def facts(self) -> dict[str, Any]:
        return {
            "sampler": "exact discrete Laplace, independent in each entry of the upper triangle, drawn once",
            "scale": self.scale,
            "sensitivity": {"value": self.sensitivity, "norm": "l1 of the upper triangle", "change": self.change},
        }
