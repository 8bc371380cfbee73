"""What follows of a noise model whose second moments are known: E[E F Fᵀ E], and covariances of linear forms."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from dpspark.mechanisms.gram.centred import CentredNoise
from dpspark.mechanisms.gram.noise_model import NoiseModel

LARGEST_STACK = 1 << 22  # numbers in memory at once


class SpreadNoise(NoiseModel):
    """Noise of mean zero that says E[E F Fᵀ E] (`spread`) and covariances of its linear forms."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """The rows of the matrix."""

    @abstractmethod
    def covary(self, forms: np.ndarray) -> np.ndarray:
        """Compute Cov(E, Σ_ij B_ij E_ij) of symmetric matrices B, in a stack."""

    def spread_at(self, scaled: np.ndarray, at: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        roots, (count, width) = np.linalg.cholesky(inverse), at.shape
        found, at_once = np.empty(inverse.shape), max(1, LARGEST_STACK // self.terms**2)
        for first in range(0, count, at_once):
            some = slice(first, first + at_once)
            factor = np.zeros((len(at[some]), self.terms, width))
            np.put_along_axis(factor, np.broadcast_to(at[some, :, None], roots[some].shape), roots[some], axis=1)
            whole = self.spread(factor, scaled)
            found[some] = whole[np.arange(len(whole))[:, None, None], at[some, :, None], at[some, None, :]]
        return found

    def traces(self, scaled: np.ndarray, at: np.ndarray, y: int, inverse: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        found, at_once = np.empty(len(at)), max(1, LARGEST_STACK // self.terms**2)
        for first in range(0, len(at), at_once):
            some = slice(first, first + at_once)
            left = np.zeros((len(at[some]), self.terms))
            np.put_along_axis(left, at[some], -gamma[some], axis=1)
            left[:, y] += 1
            whole = self.along(left, scaled)
            omega = whole[np.arange(len(whole))[:, None, None], at[some, :, None], at[some, None, :]]
            found[some] = np.einsum("sij,sij->s", inverse[some], omega)
        return found

    def centred(self, scaled: np.ndarray) -> CentredNoise:
        """Compute the variances from the matrices Cov(Ê, p_jᵀ Ê p_j), and from Cov(Ê p_j)."""
        width = self.terms
        means = scaled[0, 1:] / scaled[0, 0]
        centre = np.column_stack([-means, np.eye(width - 1)])  # p_j in row j
        entries, own, between = (np.empty((width - 1, width - 1)) for _ in range(3))
        at_once = max(1, LARGEST_STACK // self.terms**2)
        for first in range(0, width - 1, at_once):
            some = centre[first : first + at_once]
            mine = slice(first, first + len(some))
            squares = self.covary(np.einsum("ji,jk->jik", some, some))
            along = self.along(some, scaled)
            entries[mine], between[mine] = _forms(along, means), _forms(squares, means)
            turned = np.einsum("jab,jb->ja", squares, some)
            own[mine] = turned[:, 1:] - means * turned[:, :1]
        first_entry = np.zeros((1, width, width))
        first_entry[0, 0, 0] = 1.0
        to_count = self.covary(first_entry)[0]
        return CentredNoise(entries, own, between, centre @ to_count @ centre.T, float(to_count[0, 0]))


def _forms(matrices: np.ndarray, means: np.ndarray) -> np.ndarray:
    """p_iᵀ M p_i for every i, of many matrices M, with p_i = e_i − m_i·e_0."""
    own = np.diagonal(matrices, axis1=-2, axis2=-1)
    return np.asarray(own[:, 1:] - 2 * means * matrices[:, 0, 1:] + means**2 * own[:, :1])
