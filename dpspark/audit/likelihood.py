"""How much more likely one release is from table 1 than from table 0: the sharpest statistic, where the law is known.

Each function takes the mechanism as it claims to be and says what to make of what it, or a broken copy of it, gives out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.noisy import AdditiveNoise, NoisyGram
from dpspark.mechanisms.gram.projection import ProjectedGram
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.mechanisms.gram.wishart import WishartGram
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise

Grams = tuple[ExactGram, ExactGram]


def additive_ratio(law: str, std: np.ndarray, exact: tuple[np.ndarray, np.ndarray]) -> Callable[[np.ndarray], float]:
    """Independent noise on every number: Gaussian, or Laplace of that standard deviation. No noise: not looked at."""
    zero, one = (part[std > 0] for part in exact)
    used, sizes = std > 0, std[std > 0]
    if law == "laplace":
        scale = sizes / math.sqrt(2)
        return lambda seen: float(((abs(seen[used] - zero) - abs(seen[used] - one)) / scale).sum())
    weights, middle = (one - zero) / sizes**2, (zero + one) / 2
    return lambda seen: float(weights @ (seen[used] - middle))


def additive_std(noise: AdditiveNoise, width: int) -> np.ndarray:
    """Of the upper triangle's entries; 0 for a public count."""
    at = np.triu_indices(width)
    std = np.where(at[0] == at[1], noise.diagonal_std, noise.off_diagonal_std)
    if noise.count_is_exact:
        std[0] = 0.0
    return std


def gram_ratio(mechanism: Any, grams: Grams) -> Callable[[NoisyGram], float]:
    """Of matrices that are drawn from Wishart laws."""
    if isinstance(mechanism, WishartGram):
        return _wishart_ratio(mechanism, grams)
    assert isinstance(mechanism, ProjectedGram)
    return _projected_ratio(mechanism, grams)


def released_matrix(noisy: NoisyGram) -> np.ndarray:
    width = noisy.domain.width
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = np.array(noisy.upper, dtype=float) / noisy.domain.steps_per_row
    return np.triu(matrix, 1) + matrix.T


def _wishart_ratio(mechanism: WishartGram, grams: Grams) -> Callable[[NoisyGram], float]:
    """density ∝ det(W)^((k − d − 1)/2)·e^(−tr W/2σ²) of W = M − S; no such W at all if it is not positive definite."""
    zero, one = map(scaled_matrix, grams)
    power = (mechanism.degrees - mechanism.domain.width - 1) / 2
    shift = float(np.trace(one) - np.trace(zero)) / (2 * mechanism.scale)

    def ratio(noisy: NoisyGram) -> float:
        matrix = released_matrix(noisy) + mechanism.mean * np.eye(len(zero))
        logs = [_log_det(matrix - part) for part in (zero, one)]
        if math.inf in map(abs, logs):
            return 0.0 if logs[0] == logs[1] else math.inf if logs[0] < logs[1] else -math.inf
        return power * (logs[1] - logs[0]) + shift

    return ratio


def _projected_ratio(mechanism: ProjectedGram, grams: Grams) -> Callable[[NoisyGram], float]:
    """Wishart(Σ, r): tr(M Σ⁻¹); inverse Wishart: tr(M⁻¹ Ψ). The determinants of Σ and Ψ are constants."""
    eye = np.eye(mechanism.domain.width)
    zero, one = (scaled_matrix(gram) + mechanism.ridge * eye for gram in grams)
    if mechanism.law == "johnson_lindenstrauss":
        weights = np.linalg.inv(zero) - np.linalg.inv(one)
        return lambda noisy: float((weights * (released_matrix(noisy) + mechanism.ridge * eye)).sum())
    return lambda noisy: float(((zero - one) * np.linalg.inv(released_matrix(noisy) + mechanism.ridge * eye)).sum())


def _log_det(matrix: np.ndarray) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(np.log(values).sum()) if values[0] > 0 else -math.inf


def statistics_vector(found: NoisyStatistics) -> np.ndarray:
    """Everything a regression's statistics tell, as one list of numbers."""
    squares = found.squares[np.triu_indices(len(found.squares))]
    rest = [part for part in (found.response, found.least_eigenvalue) if part is not None]
    return np.concatenate([squares, found.cross, rest])


def statistics_std(noise: StatisticsNoise, width: int) -> np.ndarray:
    squares = additive_std(noise.squares, width)
    rest = [part for part in (noise.response_std, noise.least_eigenvalue_std) if part is not None]
    return np.concatenate([squares, np.full(width, noise.cross_std), rest])


def exact_statistics(gram: ExactGram, noise: StatisticsNoise) -> np.ndarray:
    """The same list without noise."""
    matrix = scaled_matrix(gram)
    squares = matrix[:-1, :-1]
    rest = [] if noise.response_std is None else [matrix[-1, -1]]
    if noise.least_eigenvalue_std is not None:
        rest.append(float(np.linalg.eigvalsh(squares)[0]))
    return np.concatenate([squares[np.triu_indices(len(squares))], matrix[:-1, -1], rest])
