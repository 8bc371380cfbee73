"""Means and standard deviations of the columns of a released matrix, each with its noise. Post-processing: no cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpspark.analysis.covariance import covariance_of, covariance_std
from dpspark.analysis.ols import Moments


@dataclass(frozen=True)
class TermMean:
    """Mean and standard deviation of one term's values as bounded, in original units; NaN where the noise leaves nothing."""

    term: str
    mean: float
    mean_noise_std: float
    std_dev: float
    std_dev_noise_std: float


def term_means(moments: Moments) -> list[TermMean]:
    count, half = moments.rows if moments.rows > 0 else math.nan, moments.half[1:]
    scaled_means = moments.scaled[0, 1:] / count
    # To first order noise E moves a mean m_j by (E_0j − m_j·E_00) / n.
    cov = moments.noise.along(np.eye(len(moments.terms))[0], moments.scaled)
    moved = np.diag(cov)[1:] - 2 * scaled_means * cov[0, 1:] + scaled_means**2 * cov[0, 0]
    means, mean_std = moments.middle[1:] + half * scaled_means, half * np.sqrt(np.maximum(moved, 0.0)) / count
    variance = np.diag(covariance_of(moments.scaled))
    spread = half * np.sqrt(np.where(variance > 0, variance, np.nan))
    spread_std = half**2 * np.diag(covariance_std(moments)) / (2 * spread)
    return [
        TermMean(term, *(float(values[i]) for values in (means, mean_std, spread, spread_std)))
        for i, term in enumerate(moments.terms[1:])
    ]


def count_noise_std(moments: Moments) -> float:
    """Compute the noise in the number of rows, or in the sum of their weights."""
    if moments.noise.count_is_exact:
        return 0.0
    return math.sqrt(max(0.0, moments.noise.along(np.eye(len(moments.terms))[0], moments.scaled)[0, 0]))
