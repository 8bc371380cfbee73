"""The covariance and correlation of the columns from a released matrix, and what its noise makes of each entry.

Post-processing: no cost. In scaled coordinates, with n the count, m the means and p_i = e_i − m_i·e_0, noise E moves the
covariance C_ij = S_ij/n − m_i·m_j, to first order, by (p_iᵀ E p_j − C_ij·E_00) / n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.analysis.ols import Moments
from dpspark.mechanisms.gram.noisy import AdditiveNoise


def covariance_of(scaled: np.ndarray) -> np.ndarray:
    """Compute the covariance of the columns, without the intercept, of one matrix or of many."""
    rows = scaled[..., 0, 0]
    means = scaled[..., 0, 1:] / rows[..., None]
    return scaled[..., 1:, 1:] / rows[..., None, None] - means[..., :, None] * means[..., None, :]


def correlation_of(covariance: np.ndarray) -> np.ndarray:
    """Compute correlations, of one matrix or of many; NaN where the noise leaves no positive variance."""
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    std = np.sqrt(np.where(variance > 0, variance, np.nan))
    return covariance / (std[..., :, None] * std[..., None, :])


@dataclass(frozen=True)
class CentredNoise:
    """The joint variances of N_ij = p_iᵀ E p_j and E_00."""

    inner: np.ndarray  # Cov(N_ij, N_kl) = inner_ik·inner_jl + inner_il·inner_jk + a part for the diagonal's excess
    at_means: float  # that excess on E_00 ...
    at_own: float  # ... and on every other diagonal entry
    means: np.ndarray
    to_count: np.ndarray  # Cov(N_ij, E_00) = to_count_ij
    count: float  # Var(E_00)

    @classmethod
    def of(cls, moments: Moments) -> CentredNoise:
        means = moments.scaled[0, 1:] / moments.rows
        noise = moments.noise
        if isinstance(noise, AdditiveNoise):
            off, diagonal = noise.off_diagonal_std**2, noise.diagonal_std**2
            count = 0.0 if noise.count_is_exact else diagonal
            inner = noise.off_diagonal_std * (np.eye(len(means)) + np.outer(means, means))
            return cls(inner, count - 2 * off, diagonal - 2 * off, means, count * np.outer(means, means), count)
        around = moments.scaled + noise.ridge * np.eye(len(moments.scaled))
        centre = np.column_stack([-means, np.eye(len(means))])
        inner = centre @ around @ centre.T / np.sqrt(noise.degrees)
        cross = centre @ around[:, 0]
        to_count = 2 * np.outer(cross, cross) / noise.degrees
        return cls(inner, 0.0, 0.0, means, to_count, 2 * around[0, 0] ** 2 / noise.degrees)

    def entries(self) -> np.ndarray:
        """Var(N_ij)."""
        variance = np.diag(self.inner)
        found = np.outer(variance, variance) + self.inner**2 + self.at_means * np.outer(self.means, self.means) ** 2
        return found + self.at_own * np.eye(len(found))

    def with_own_variance(self) -> np.ndarray:
        """Cov(N_ij, N_ii) at [i, j]."""
        found = 2 * np.diag(self.inner)[:, None] * self.inner + self.at_means * np.outer(self.means**3, self.means)
        return found + self.at_own * np.eye(len(found))

    def between_variances(self) -> np.ndarray:
        """Cov(N_ii, N_jj)."""
        found = 2 * self.inner**2 + self.at_means * np.outer(self.means, self.means) ** 2
        return found + self.at_own * np.eye(len(found))


def covariance_std(moments: Moments) -> np.ndarray:
    """The standard deviation of the noise in each covariance, in scaled coordinates."""
    noise, covariance = CentredNoise.of(moments), covariance_of(moments.scaled)
    variance = noise.entries() - 2 * covariance * noise.to_count + covariance**2 * noise.count
    return np.sqrt(np.maximum(variance, 0.0)) / abs(moments.rows)


def correlation_std(moments: Moments) -> np.ndarray:
    """The same for each correlation: that of dC_ij − r_ij·(dC_ii/C_ii + dC_jj/C_jj)/2 in units of √(C_ii·C_jj)."""
    noise, covariance = CentredNoise.of(moments), covariance_of(moments.scaled)
    r = correlation_of(covariance)
    v = np.where(np.diag(covariance) > 0, np.diag(covariance), np.nan)
    own, scale = noise.with_own_variance(), np.sqrt(np.outer(v, v))
    variances = np.diag(noise.entries()) / v**2
    variance = (
        noise.entries() / scale**2
        + r**2 / 4 * (variances[:, None] + variances[None, :] + 2 * noise.between_variances() / np.outer(v, v))
        - r * (own / v[:, None] + own.T / v[None, :]) / scale
    )
    found = np.sqrt(np.maximum(variance, 0.0)) / abs(moments.rows)
    np.fill_diagonal(found, np.where(np.isnan(v), np.nan, 0.0))
    return found
