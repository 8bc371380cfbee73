"""What noise on a second-moment matrix does to centred moments: the joint variances that covariances need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CentredNoise:
    """The joint variances of N_ij = p_iᵀ E p_j and E_00."""

    entries: np.ndarray  # Var(N_ij)
    with_own_variance: np.ndarray  # Cov(N_ij, N_ii) at [i, j]
    between_variances: np.ndarray  # Cov(N_ii, N_jj)
    to_count: np.ndarray  # Cov(N_ij, E_00)
    count: float  # Var(E_00)


def centred_noise(
    inner: np.ndarray,
    means: np.ndarray,
    to_count: np.ndarray,
    count: float,
    at_means: float = 0.0,
    at_own: float = 0.0,
) -> CentredNoise:
    """Cov(N_ij, N_kl) is inner_ik·inner_jl + inner_il·inner_jk, and a part for the diagonal's excess of variance.

    `at_means` is that excess on E_00, `at_own` on every other diagonal entry.
    """
    variance, both, own = np.diag(inner), np.outer(means, means) ** 2, at_own * np.eye(len(means))
    return CentredNoise(
        np.outer(variance, variance) + inner**2 + at_means * both + own,
        2 * variance[:, None] * inner + at_means * np.outer(means**3, means) + own,
        2 * inner**2 + at_means * both + own,
        to_count,
        count,
    )
