"""How much more likely one release is from table 1 than from table 0: the sharpest statistic, where the law is known.

Each function takes the mechanism as it claims to be and says what to make of what it, or a broken copy of it, gives out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise
from dpspark.privacy.laws import LAWS


def additive_ratio(law: str, std: np.ndarray, exact: tuple[np.ndarray, np.ndarray]) -> Callable[[np.ndarray], float]:
    """Make the ratio for independent noise on every number, of a law and a standard deviation. No noise: not looked at."""
    zero, one = (part[std > 0] for part in exact)
    used, sizes = std > 0, std[std > 0]
    return lambda seen: LAWS[law].log_ratio(seen[used], zero, one, sizes)


def additive_std(noise: AdditiveNoise, width: int) -> np.ndarray:
    """Compute the noise of the upper triangle's entries; 0 for a public count."""
    at = np.triu_indices(width)
    std = np.where(at[0] == at[1], noise.diagonal_std, noise.off_diagonal_std)
    if noise.count_is_exact:
        std[0] = 0.0
    return std


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
