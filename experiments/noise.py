"""Noise for experiments, from the experiment's own generator: the same page every time it is made.

The draws have the laws of the exact samplers to within 10^-9; those are tested in tests/privacy. A release never uses this.
"""

from __future__ import annotations

import numpy as np


class ExperimentNoise:
    """A NoiseSource whose outcome is known to anyone who knows the seed: it protects nobody."""

    def __init__(self, random: np.random.Generator):
        self.random = random

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return [round(value) for value in self.random.normal(0, sigma, count).tolist()]

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        return [round(value) for value in self.random.laplace(0, scale, count).tolist()]

    def below(self, limit: int) -> int:
        size = -(-limit.bit_length() // 8) + 8
        return int.from_bytes(self.random.bytes(size), "little") % limit

    def uniforms(self, count: int) -> np.ndarray:
        return self.random.random(count)

    def secret(self) -> bytes:
        return self.random.bytes(32)
