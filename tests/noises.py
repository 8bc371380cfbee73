"""Sources of noise for tests: none at all, recorded, from a seed, or with a fixed secret."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpspark.privacy.noise import OpenDPNoise

SECRET = b"s" * 32


class NoGaussianNoise:
    """No Gaussian noise. It has nothing else: any other draw fails the test."""

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return [0] * count


class NoNoise(NoGaussianNoise):
    """No noise on sums, and the middle of an exponential mechanism's law. It has no secret: asking for one fails the test."""

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        return [0] * count

    def below(self, limit: int) -> int:
        return limit // 2


class NoNoiseFixedSecret(NoNoise):
    """No noise on sums, the middle of an exponential mechanism's law, and a fixed secret for what executors draw."""

    def secret(self) -> bytes:
        return SECRET


class FixedSecret(OpenDPNoise):
    """Real noise, except that executors draw from a fixed secret."""

    def secret(self) -> bytes:
        return SECRET


class Draw(NamedTuple):
    """A call to a sampler."""

    law: str
    scale: float
    count: int


class RecordedNoise(OpenDPNoise):
    """Real noise, and a list of what the samplers were asked for."""

    def __init__(self) -> None:
        self.asked: list[Draw] = []

    @property
    def scales(self) -> list[float]:
        return [draw.scale for draw in self.asked]

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        self.asked.append(Draw("gaussian", sigma, count))
        return super().discrete_gaussian(sigma, count)

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        self.asked.append(Draw("laplace", scale, count))
        return super().discrete_laplace(scale, count)


class RecordedZeros(OpenDPNoise):
    """No noise on sums, and a list of what the samplers were asked for."""

    def __init__(self) -> None:
        self.asked: list[Draw] = []

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        self.asked.append(Draw("gaussian", sigma, count))
        return [0] * count

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        self.asked.append(Draw("laplace", scale, count))
        return [0] * count


class SeededNoise(OpenDPNoise):
    """Rounded draws from the test's own stream: the same outcome every time. OpenDP's are tested in tests/privacy."""

    def __init__(self, seed: int | np.random.Generator):
        self.rng = np.random.default_rng(seed)  # a generator stays itself

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return [round(value) for value in self.rng.normal(0, sigma, count).tolist()]

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        return [round(value) for value in self.rng.laplace(0, scale, count).tolist()]

    def uniforms(self, count: int) -> np.ndarray:
        return self.rng.uniform(1e-12, 1 - 1e-12, count)

    def secret(self) -> bytes:
        return self.rng.bytes(32)


class SeededDraws(SeededNoise):
    """The same, and whole numbers from that stream, too: what an exponential mechanism draws comes out the same."""

    def below(self, limit: int) -> int:
        return int.from_bytes(self.rng.bytes(96)) % limit
