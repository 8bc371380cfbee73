"""The covariance and correlation of the columns from a released matrix, and what its noise makes of each entry.

Post-processing: no cost. In scaled coordinates, with n the count, m the means and p_i = e_i − m_i·e_0, noise E moves the
covariance C_ij = S_ij/n − m_i·m_j, to first order, by (p_iᵀ E p_j − C_ij·E_00) / n.
"""

from __future__ import annotations

import numpy as np

from dpspark.analysis.ols import Moments

ROUNDING = 1e-12  # of a variance


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


def covariance_std(moments: Moments) -> np.ndarray:
    """The standard deviation of the noise in each covariance, in scaled coordinates."""
    noise, covariance = moments.noise.centred(moments.scaled), covariance_of(moments.scaled)
    variance = noise.entries - 2 * covariance * noise.to_count + covariance**2 * noise.count
    return np.sqrt(np.maximum(variance, 0.0)) / abs(moments.rows)


def correlation_std(moments: Moments) -> np.ndarray:
    """The same for each correlation: that of dC_ij − r_ij·(dC_ii/C_ii + dC_jj/C_jj)/2 in units of √(C_ii·C_jj)."""
    noise, covariance = moments.noise.centred(moments.scaled), covariance_of(moments.scaled)
    r = correlation_of(covariance)
    v = np.where(np.diag(covariance) > 0, np.diag(covariance), np.nan)
    own, scale = noise.with_own_variance, np.sqrt(np.outer(v, v))
    variances = np.diag(noise.entries) / v**2
    alone = noise.entries / scale**2
    variance = (
        alone
        + r**2 / 4 * (variances[:, None] + variances[None, :] + 2 * noise.between_variances / np.outer(v, v))
        - r * (own / v[:, None] + own.T / v[None, :]) / scale
    )
    # What rounding leaves of no noise at all is none: two categories that are everyone have a correlation of −1.
    found = np.sqrt(np.where(variance < ROUNDING * alone, 0.0, variance)) / abs(moments.rows)
    np.fill_diagonal(found, np.where(np.isnan(v), np.nan, 0.0))
    return found
