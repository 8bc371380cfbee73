"""More noise like that of a release, for bootstraps and for its typical norm. Simulation alone: it protects nothing.

Nothing here is secret or data: the generators have fixed seeds, so that an analyst's results repeat.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpspark.mechanisms.gram.noise_model import NoiseModel

NORM_SEED = 1
MOST_NORMS = 4000


def draw_noise(
    noise: NoiseModel, scaled: np.ndarray, has_count: bool, rng: np.random.Generator, count: int
) -> np.ndarray:
    """Simulate noise matrices for a block of the scaled matrix; `has_count` says that its first row is the intercept's."""
    drawn = noise.draw(scaled, rng, count)
    if noise.count_is_exact and has_count:
        drawn[:, 0, 0] = 0.0
    return drawn


def expected_norm(noise: NoiseModel, directions: int, has_count: bool) -> float:
    """Estimate E‖E‖, the mean spectral norm of the noise among some directions; known before any data.

    Of noise that grows with the matrix, the part that does not: what it is where the matrix is smallest.
    """
    return float(_norms(noise, directions, has_count).mean())


def norm_quantile(noise: NoiseModel, directions: int, probability: float = 0.95) -> float:
    """Estimate a quantile of that norm."""
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
