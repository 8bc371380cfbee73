"""Draws from Wishart laws in floating point, from the operating system's randomness.

There is no proof that floating-point samplers keep the guarantee to the last bit: releases that use them say so.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from dpspark.core.domain import Domain
from dpspark.exact.fixed_point import ExactGram
from dpspark.privacy.noise import NoiseSource


def scaled_matrix(gram: ExactGram) -> np.ndarray:
    """The exact matrix in units of 1.0, as doubles."""
    width, unit = gram.domain.width, gram.domain.one**2
    upper = np.zeros((width, width))
    upper[np.triu_indices(width)] = [value / unit for value in gram.reveal()]
    return np.triu(upper, 1) + upper.T


def to_grid(domain: Domain, matrix: np.ndarray) -> tuple[int, ...]:
    """The upper triangle rounded to the grid, for a NoisyGram."""
    return tuple(round(value * domain.one**2) for value in matrix[np.triu_indices(domain.width)].tolist())


def wishart(scale: np.ndarray, degrees: float, noise: NoiseSource) -> np.ndarray:
    """W(scale, degrees) by Bartlett's decomposition."""
    factor = np.linalg.cholesky(scale) @ _bartlett(len(scale), degrees, noise)
    return factor @ factor.T


def inverse_wishart(scale: np.ndarray, degrees: float, noise: NoiseSource) -> np.ndarray:
    """W⁻¹(scale, degrees): the inverse of W(scale⁻¹, degrees)."""
    from scipy.linalg import solve_triangular  # slow to import, and a plan never needs it

    factor = solve_triangular(_bartlett(len(scale), degrees, noise), np.linalg.cholesky(scale).T, lower=True).T
    return factor @ factor.T


def _bartlett(width: int, degrees: float, noise: NoiseSource) -> np.ndarray:
    """Lower triangular: roots of chi-squared draws on the diagonal, normal ones below."""
    factor = np.zeros((width, width))
    below = np.tril_indices(width, -1)
    factor[below] = ndtri(noise.uniforms(len(below[0])))
    np.fill_diagonal(factor, [math.sqrt(chi_squared(degrees - i, noise)) for i in range(width)])
    return factor


def chi_squared(degrees: float, noise: NoiseSource) -> float:
    """A draw by rejection, exact for real numbers and any degrees >= 2 (Marsaglia & Tsang, 2000).

    Inverting the distribution function would not do: with 10⁷ degrees or more, scipy's inverse has jumps in the tails.
    """
    d = degrees / 2 - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        first, second = noise.uniforms(2).tolist()
        x = float(ndtri(first))
        if c * x <= -1:
            continue
        w = c * x * (3 + c * x * (3 + c * x))  # (1 + cx)³ − 1, without cancellation
        if math.log(second) < x * x / 2 + d * (math.log1p(w) - w):
            return 2 * d * (1 + w)
