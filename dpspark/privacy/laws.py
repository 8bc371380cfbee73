"""The two laws of additive noise, discrete Gaussian and discrete Laplace: what differs between them, in one place."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from dpspark.privacy.budget import Budget, gaussian_delta
from dpspark.privacy.events import ROUNDED_UP, Event, Gaussian, Pure
from dpspark.privacy.noise import LARGEST_SCALE, LARGEST_SIGMA, NoiseSource


class Law(ABC):
    """A law of independent noise on numbers; `loss` is how far a record moves them, in its norm, over the scale."""

    name: ClassVar[str]
    norm: ClassVar[str]  # in which sensitivities are measured
    largest: ClassVar[float]  # the largest scale that can be drawn, in grid steps
    sampler: ClassVar[str]  # in words

    @abstractmethod
    def std(self, scale: float) -> float:
        """Compute the standard deviation, of a fine grid."""

    @abstractmethod
    def draw(self, noise: NoiseSource, scale: float, count: int) -> list[int]:
        """Draw, on the grid of whole numbers."""

    @abstractmethod
    def event(self, loss: float, distance: float) -> Event:
        """Say what one joint draw is charged as. `distance` is the sampler's from a rounded Gaussian."""

    @abstractmethod
    def log_ratio(self, seen: np.ndarray, zero: np.ndarray, one: np.ndarray, std: np.ndarray) -> float:
        """Compute how much more likely the numbers seen are around `one` than around `zero`, as a logarithm."""

    @abstractmethod
    def epsilon_of(self, shift: np.ndarray, delta: float) -> float:
        """Compute the epsilon at delta of noise with standard deviation 1 on each number, which a record moves by `shift`."""


class GaussianLaw(Law):
    """Discrete Gaussian noise; its scale is sigma."""

    name = "gaussian"
    norm = "l2"
    largest = LARGEST_SIGMA
    sampler = "exact discrete Gaussian"

    def std(self, scale: float) -> float:
        return scale

    def draw(self, noise: NoiseSource, scale: float, count: int) -> list[int]:
        return noise.discrete_gaussian(scale, count)

    def event(self, loss: float, distance: float) -> Event:
        return Gaussian.of(loss * ROUNDED_UP, distance)

    def log_ratio(self, seen: np.ndarray, zero: np.ndarray, one: np.ndarray, std: np.ndarray) -> float:
        return float((one - zero) / std**2 @ (seen - (zero + one) / 2))

    def epsilon_of(self, shift: np.ndarray, delta: float) -> float:
        """Compute epsilon at delta by Balle & Wang's curve."""
        mu, low, high = float(np.linalg.norm(shift)), 0.0, 1.0
        while gaussian_delta(mu, high) > delta:
            high *= 2
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if gaussian_delta(mu, middle) > delta else (low, middle)
        return low


class LaplaceLaw(Law):
    """Discrete Laplace noise: pure."""

    name = "laplace"
    norm = "l1"
    largest = LARGEST_SCALE
    sampler = "exact discrete Laplace"

    def std(self, scale: float) -> float:
        return math.sqrt(2) * scale

    def draw(self, noise: NoiseSource, scale: float, count: int) -> list[int]:
        return noise.discrete_laplace(scale, count)

    def event(self, loss: float, distance: float) -> Event:
        return Pure(loss * ROUNDED_UP)

    def log_ratio(self, seen: np.ndarray, zero: np.ndarray, one: np.ndarray, std: np.ndarray) -> float:
        scale = std / math.sqrt(2)
        return float(((abs(seen - zero) - abs(seen - one)) / scale).sum())

    def epsilon_of(self, shift: np.ndarray, delta: float) -> float:
        return float(abs(shift).sum()) * math.sqrt(2)


GAUSSIAN, LAPLACE = GaussianLaw(), LaplaceLaw()
LAWS: dict[str, Law] = {law.name: law for law in (GAUSSIAN, LAPLACE)}


def law_for(budget: Budget) -> Law:
    """Choose the law that a budget is for: Laplace if it is pure."""
    return LAPLACE if budget.rho is None and not budget.delta else GAUSSIAN
