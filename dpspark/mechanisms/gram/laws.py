"""The laws of noise that is added to a matrix: how it is simulated, how far it reaches, how large its norm is.

Simulation alone: nothing here protects anything.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpspark.mechanisms.gram.noisy import AdditiveNoise


class MatrixLaw(ABC):
    """A law of noise of mean zero on a symmetric matrix."""

    @abstractmethod
    def draw(self, noise: AdditiveNoise, width: int, rng: np.random.Generator, count: int) -> np.ndarray:
        """Simulate `count` noise matrices."""

    def reach(self, beta: float) -> float:
        """Say within how many standard deviations one entry's noise stays with probability 1 − beta."""
        return normal_reach(beta)

    def norm_bound(self, noise: AdditiveNoise, width: int, beta: float) -> float | None:
        """Bound the spectral norm with probability 1 − beta, in closed form; None where none is known."""
        return None


class Independent(MatrixLaw):
    """Independent noise on each entry of the upper triangle."""

    @abstractmethod
    def draw_unit(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Simulate numbers of standard deviation 1."""

    def draw(self, noise: AdditiveNoise, width: int, rng: np.random.Generator, count: int) -> np.ndarray:
        at = np.triu_indices(width)
        std = np.where(at[0] == at[1], noise.diagonal_std, noise.off_diagonal_std)
        drawn = np.zeros((count, width, width))
        drawn[:, at[0], at[1]] = self.draw_unit(rng, (count, len(std))) * std
        drawn[:, at[1], at[0]] = drawn[:, at[0], at[1]]
        return drawn


class GaussianEntries(Independent):
    """Normal noise on each entry."""

    def draw_unit(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return rng.standard_normal(shape)

    def norm_bound(self, noise: AdditiveNoise, width: int, beta: float) -> float | None:
        """‖E‖ <= 2·τ(√D + √ln(2/beta)), as E λ_max <= 2τ√D, and by concentration (MATH)."""
        return 2 * noise.off_diagonal_std * (math.sqrt(width) + math.sqrt(math.log(2 / beta)))


class LaplaceEntries(Independent):
    """Laplace noise on each entry."""

    def draw_unit(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return rng.laplace(0.0, math.sqrt(0.5), shape)

    def reach(self, beta: float) -> float:
        return math.log(1 / beta) / math.sqrt(2)


class CentredWishart(MatrixLaw):
    """A Wishart matrix less its mean."""

    def draw(self, noise: AdditiveNoise, width: int, rng: np.random.Generator, count: int) -> np.ndarray:
        unit = noise.off_diagonal_std / math.sqrt(noise.degrees)
        return unit * (simulated_wishart(width, noise.degrees, rng, count) - noise.degrees * np.eye(width))


class SumOfLaws(MatrixLaw):
    """The sum of independent noises, each by its own law."""

    def draw(self, noise: AdditiveNoise, width: int, rng: np.random.Generator, count: int) -> np.ndarray:
        drawn = np.zeros((count, width, width))
        for part in noise.parts:
            drawn += LAWS[part.law].draw(part, width, rng, count)
        return drawn

    def reach(self, beta: float) -> float:
        """That of the heaviest tails there can be among the parts: a sum's are lighter."""
        return max(law.reach(beta) for law in (GaussianEntries(), LaplaceEntries()))


# By their names in manifests. An unknown name is a KeyError, never another law.
LAWS: dict[str, MatrixLaw] = {
    "gaussian": GaussianEntries(),
    "laplace": LaplaceEntries(),
    "wishart": CentredWishart(),
    "sum": SumOfLaws(),
}


def normal_reach(beta: float) -> float:
    """Say within how many standard deviations a normal number stays with probability 1 − beta."""
    from scipy.special import ndtri  # slow to import, and a release never needs it

    return float(-ndtri(beta / 2))


def simulated_wishart(width: int, degrees: float, rng: np.random.Generator, count: int) -> np.ndarray:
    """Simulate W(I, degrees) by Bartlett's decomposition."""
    factor = np.zeros((count, width, width))
    below = np.tril_indices(width, -1)
    factor[:, below[0], below[1]] = rng.standard_normal((count, len(below[0])))
    diagonal = np.arange(width)
    factor[:, diagonal, diagonal] = np.sqrt(rng.chisquare(np.maximum(float(degrees) - diagonal, 1.0), (count, width)))
    return factor @ np.swapaxes(factor, 1, 2)
