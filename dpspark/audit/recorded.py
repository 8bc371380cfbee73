"""Sources of randomness that draw as the real ones do and keep a note: what an attacker inside the driver would see."""

from __future__ import annotations

from fractions import Fraction

from dpspark.privacy.keyed import Stream
from dpspark.privacy.noise import OpenDPNoise


class RecordedNoise(OpenDPNoise):
    """Real noise of the driver; `draws` lists it. `quieter` divides every scale: a broken sampler."""

    def __init__(self, quieter: float = 1.0):
        self.quieter = quieter
        self.draws: list[int] = []

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return self._noted(super().discrete_gaussian(sigma / self.quieter, count))

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        return self._noted(super().discrete_laplace(scale / self.quieter, count))

    def _noted(self, drawn: list[int]) -> list[int]:
        self.draws += drawn
        return drawn


class RecordedStream(Stream):
    """Real words of an executor's stream, with the same note."""

    __slots__ = ("draws", "quieter", "scales")

    def __init__(self, key: bytes, quieter: float = 1.0):
        super().__init__(key)
        self.quieter = Fraction(quieter)
        self.draws: list[int] = []
        self.scales: list[Fraction] = []

    def discrete_laplace(self, scale: Fraction) -> int:
        drawn = super().discrete_laplace(scale / self.quieter)
        self.draws.append(drawn)
        self.scales.append(scale)
        return drawn
