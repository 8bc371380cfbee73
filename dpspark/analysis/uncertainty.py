"""The uncertainty of the coefficients of one private regression. Post-processing: no cost. All in scaled coordinates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpspark.analysis.second_order import at_truth
from dpspark.mechanisms.gram.identification import is_enough
from dpspark.mechanisms.regression.ridge import kappa_w_of
from dpspark.mechanisms.regression.statistics import NoisyStatistics

REPLICATES = 2000

# A mechanism's estimates from a truth and cross products that have sampling error but no privacy noise: one a row.
Again = Callable[[NoisyStatistics, np.ndarray, np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class Spread:
    """The covariance of the estimates, and what intervals come from: a normal approximation, or replicates of the estimate."""

    covariance: np.ndarray
    privacy: np.ndarray
    sigma2: float
    df: float
    replicates: np.ndarray | None = None
    dfs: np.ndarray | None = None  # of each estimate after the map, where they differ

    def intervals(self, estimates: np.ndarray, to_original: np.ndarray, level: float) -> np.ndarray:
        """Compute two columns, low and high, after a linear map of the estimates; `estimates` are mapped already."""
        if self.replicates is None:
            reach = special.stdtrit(self.df if self.dfs is None else self.dfs, (1 + level) / 2)
            error = np.sqrt(np.diag(to_original @ self.covariance @ to_original.T))
            return np.column_stack([estimates - reach * error, estimates + reach * error])
        # The basic bootstrap: what the replicates miss the estimate by is what the estimate misses the truth by.
        missed = self.replicates @ to_original.T
        low, high = np.quantile(missed, [(1 + level) / 2, (1 - level) / 2], axis=0)
        return np.column_stack([estimates - low, estimates - high])


@dataclass(frozen=True)
class Residuals:
    """Plain least squares on the noisy statistics, where it can be trusted."""

    inverse: np.ndarray
    omega: np.ndarray  # noise covariance of the normal equations, at the estimates
    at_truth: np.ndarray  # the same at the true coefficients, as well as it is known
    sigma2: float
    df: float


def residuals(statistics: NoisyStatistics, direction: np.ndarray | None = None, ridge: float = 0.0) -> Residuals | None:
    """Fit plain least squares; None if the noise drowns the regressors or the residuals, or Σ y² was not released.

    `direction` is what the noise of the squares is multiplied by, and their ridge, where that is not the solution itself.
    """
    squares, cross, noise = statistics.squares, statistics.cross, statistics.noise
    if statistics.response is None or not is_enough(kappa_w_of(statistics)):
        return None
    inverse = np.linalg.inv(squares + ridge * np.eye(len(cross)))
    theta = inverse @ cross
    along = theta if direction is None else direction
    omega = statistics.squares_noise.along(along, squares) + noise.cross_std**2 * np.eye(len(cross))
    omega += ridge**2 * np.outer(along, along)
    # Fitting to the noise makes the residuals look smaller by tr(inverse · omega).
    fitted = 2 * float(theta @ cross) - float(theta @ squares @ theta)
    total = statistics.response - fitted + float(np.trace(inverse @ omega))
    df = float(squares[0, 0]) - len(cross)
    true = omega
    if direction is None:
        true = at_truth(omega, inverse, lambda factor: statistics.squares_noise.spread(factor, squares))
    return Residuals(inverse, omega, true, total / df, df) if df >= 1 and total > 0 else None


def delta_method(found: Residuals) -> Spread:
    """Compute the spread of plain least squares: sampling and privacy noise together."""
    privacy = found.inverse @ found.at_truth @ found.inverse
    return Spread(found.sigma2 * found.inverse + privacy, privacy, found.sigma2, found.df)


def bootstrap(
    statistics: NoisyStatistics, found: Residuals, theta: np.ndarray, again: Again, seed: int, count: int = REPLICATES
) -> Spread:
    """Repeat sampling and mechanism on a made-up truth: these squares and these coefficients (after Ferrando et al., 2022)."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(statistics.squares)
    errors = np.sqrt(found.sigma2) * rng.standard_normal((count, len(theta))) @ root.T
    missed = again(statistics, statistics.squares @ theta + errors, rng) - theta
    covariance = np.atleast_2d(np.cov(missed.T))
    return Spread(covariance, covariance - found.sigma2 * found.inverse, found.sigma2, found.df, missed)
