"""What noise on a second-moment matrix does to centred moments: the joint variances that covariances need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class CentredNoise:
    """The joint variances of N_ij = p_iᵀ E p_j and E_00."""

    inner: np.ndarray  # Cov(N_ij, N_kl) = inner_ik·inner_jl + inner_il·inner_jk + a part for the diagonal's excess
    at_means: float  # that excess on E_00 ...
    at_own: float  # ... and on every other diagonal entry
    means: np.ndarray
    to_count: np.ndarray  # Cov(N_ij, E_00) = to_count_ij
    count: float  # Var(E_00)

    def entries(self) -> np.ndarray:
        """Compute Var(N_ij)."""
        variance = np.diag(self.inner)
        found = np.outer(variance, variance) + self.inner**2 + self.at_means * np.outer(self.means, self.means) ** 2
        return found + self.at_own * np.eye(len(found))

    def with_own_variance(self) -> np.ndarray:
        """Cov(N_ij, N_ii) at [i, j]."""
        found = 2 * np.diag(self.inner)[:, None] * self.inner + self.at_means * np.outer(self.means**3, self.means)
        return found + self.at_own * np.eye(len(found))

    def between_variances(self) -> np.ndarray:
        """Compute Cov(N_ii, N_jj)."""
        found = 2 * self.inner**2 + self.at_means * np.outer(self.means, self.means) ** 2
        return found + self.at_own * np.eye(len(found))
