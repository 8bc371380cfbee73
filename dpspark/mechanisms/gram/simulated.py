"""More noise like that of a release, for bootstraps and for its typical norm. Simulation alone: it protects nothing.

Nothing here is secret or data: the generators have fixed seeds, so that an analyst's results repeat.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoiseModel

NORM_SEED = 1
MOST_NORMS = 4000


def draw_noise(
    noise: NoiseModel, scaled: np.ndarray, has_count: bool, rng: np.random.Generator, count: int
) -> np.ndarray:
    """`count` noise matrices for a block of the scaled matrix; `has_count` says that its first row is the intercept's."""
    if isinstance(noise, AdditiveNoise):
        drawn = _additive(noise, len(scaled), rng, count)
        if noise.count_is_exact and has_count:
            drawn[:, 0, 0] = 0.0
        return drawn
    # A block of a Wishart matrix is one of the block. The estimate may not be positive definite: its root is of what is.
    values, vectors = np.linalg.eigh(scaled + noise.ridge * np.eye(len(scaled)))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return root @ (_wishart(len(scaled), noise.degrees, rng, count) / noise.degrees - np.eye(len(scaled))) @ root.T


def expected_norm(noise: NoiseModel, directions: int, has_count: bool) -> float:
    """E‖E‖, the mean spectral norm of the noise among some directions; known before any data.

    Of noise that grows with the matrix, the part that does not: what it is where the matrix is smallest.
    """
    return float(_norms(noise, directions, has_count).mean())


def norm_quantile(noise: NoiseModel, directions: int, probability: float = 0.95) -> float:
    """A quantile of that norm."""
    return float(np.quantile(_norms(noise, directions, True), probability))


@lru_cache(maxsize=256)
def _norms(noise: NoiseModel, directions: int, has_count: bool) -> np.ndarray:
    rng = np.random.default_rng(NORM_SEED)
    draws = min(MOST_NORMS, max(16, 200_000 // directions**2))
    at_once = max(1, 100_000 // directions**2)  # a wide matrix is large
    zero, found = np.zeros((directions, directions)), []
    for done in range(0, draws, at_once):
        drawn = draw_noise(noise, zero, has_count, rng, min(at_once, draws - done))
        found.append(np.abs(np.linalg.eigvalsh(drawn)).max(axis=1))
    return np.concatenate(found)


def _additive(noise: AdditiveNoise, width: int, rng: np.random.Generator, count: int) -> np.ndarray:
    if noise.law == "wishart":
        unit = noise.off_diagonal_std / math.sqrt(noise.degrees)
        return unit * (_wishart(width, noise.degrees, rng, count) - noise.degrees * np.eye(width))
    at = np.triu_indices(width)
    std = np.where(at[0] == at[1], noise.diagonal_std, noise.off_diagonal_std)
    unit_draws = (
        rng.laplace(0.0, math.sqrt(0.5), (count, len(std)))
        if noise.law == "laplace"
        else rng.standard_normal((count, len(std)))
    )
    drawn = np.zeros((count, width, width))
    drawn[:, at[0], at[1]] = unit_draws * std
    drawn[:, at[1], at[0]] = drawn[:, at[0], at[1]]
    return drawn


def _wishart(width: int, degrees: float, rng: np.random.Generator, count: int) -> np.ndarray:
    """W(I, degrees) by Bartlett's decomposition."""
    factor = np.zeros((count, width, width))
    below = np.tril_indices(width, -1)
    factor[:, below[0], below[1]] = rng.standard_normal((count, len(below[0])))
    diagonal = np.arange(width)
    factor[:, diagonal, diagonal] = np.sqrt(rng.chisquare(np.maximum(float(degrees) - diagonal, 1.0), (count, width)))
    return factor @ np.swapaxes(factor, 1, 2)
