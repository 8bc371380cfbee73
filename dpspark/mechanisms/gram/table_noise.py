"""The noise that is left of a matrix with products among its columns, after all was used that is known of them.

The projection P of `core.tables` is linear, so that Cov(P E, ·) = P Cov(E, ·), for any linear form of the noise: every
variance below is a projection of the covariances of independent entries. Post-processing: no cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.tables import Tables
from dpspark.mechanisms.gram.coordinates import congruence_of
from dpspark.mechanisms.gram.known_noise import KnownNoise
from dpspark.mechanisms.gram.noisy import AdditiveNoise

WIDEST_KERNEL = 48  # terms, up to which all covariances are kept in memory: 42 MB


@dataclass(frozen=True)
class TableNoise(KnownNoise):
    """Additive noise less what is known not to be signal, where columns have products."""

    known: Tables  # type: ignore[assignment]

    def spread(self, factor: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        at, width = np.array(self.places), self.known.width
        whole = np.zeros((*factor.shape[:-2], width, factor.shape[-1]))
        whole[..., at, :] = factor
        if width <= WIDEST_KERNEL:
            middle = whole @ np.swapaxes(whole, -1, -2)
            kernel = _kernel(self.known, self.base.ratio, self.base.count_is_exact)
            flat = middle.reshape(*middle.shape[:-2], width**2) @ kernel.T
            found = flat.reshape(middle.shape) * self.base.off_diagonal_std**2
        else:
            flat = np.swapaxes(whole, -1, -2).reshape(-1, whole.shape[-1], width)
            found = np.stack([sum((self._along(w) for w in one), np.zeros((width, width))) for one in flat])
            found = found.reshape(*whole.shape[:-2], width, width)
        return np.asarray(found[..., at[:, None], at])

    def entry_std(self, domain: Domain, original: np.ndarray) -> np.ndarray:
        back = np.zeros((domain.width, self.known.width))
        back[:, np.array(self.places)] = congruence_of(domain)
        return self._std_of(back)

    def for_page(self) -> dict[str, Any]:
        return {**self.base.for_page(), "known": self.known.for_page()}

    def _along(self, w: np.ndarray) -> np.ndarray:
        """Cov(Ê w), of all terms."""
        base = self.base
        return self.known.covariance(w, base.ratio, base.count_is_exact) * base.off_diagonal_std**2

    def _std_of(self, back: np.ndarray) -> np.ndarray:
        """The standard deviations of the entries of B Ê Bᵀ: of bᵀ Ê c for two of its rows, cᵀ Cov(Ê b) c."""
        variances = [np.einsum("ja,ab,jb->j", back, self._along(row), back, optimize=True) for row in back]
        return np.sqrt(np.maximum(variances, 0.0))

    @cached_property
    def _variances(self) -> np.ndarray:
        return self._std_of(np.eye(self.known.width)) ** 2


@lru_cache(maxsize=4)
def _kernel(known: Tables, ratio: float, count_is_exact: bool) -> np.ndarray:
    """Cov(Ê_ia, Ê_jb) in row (i, j), column (a, b), in units of the variance off the diagonal."""
    base, width = AdditiveNoise(ratio**0.5, 1.0, count_is_exact), known.width
    found = np.empty((width, width, width, width))  # i, j, a, b
    for j in range(width):
        forms = np.zeros((width, width, width))
        every = np.arange(width)
        forms[every, j, every] += 0.5
        forms[every, every, j] += 0.5
        covariances = known.project(base.covary(forms), base.ratio, count_is_exact)  # b, i, a
        found[:, j] = covariances.transpose(1, 2, 0)
    return found.reshape(width**2, width**2)
