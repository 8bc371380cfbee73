"""Which regressors an answer fails for, where the noise drowns a regression; from the noisy matrix alone, at no cost.

The weakest direction is the least eigenvector of the regressors' matrix, each regressor in units of its own noise. The
term with most of it is left out, and the next one, until the rest has enough signal: leaving a category out merges it
with the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpspark.core.domain import INTERCEPT
from dpspark.mechanisms.gram.identification import MOST_WEAK_TERMS, is_enough, kappa_w
from dpspark.mechanisms.gram.noise_model import NoiseModel

MERGE = "merge the category with another"


@dataclass(frozen=True)
class WeakTerms:
    """The terms without which there would be an answer, and kappa_w of the rest; none where no few terms are to blame."""

    terms: tuple[str, ...] = ()
    kappa_w: float = 0.0

    def __str__(self) -> str:
        """Say what to do."""
        if not self.terms:
            return "No few of the regressors are to blame: use fewer of them, more rows or a larger budget."
        names = ", ".join(self.terms)
        merge = f", {MERGE}" if any("[" in term for term in self.terms) else ""
        return (
            f"This is for {names}: without, kappa_w would be {self.kappa_w:.2g}. "
            f"Leave {'it' if len(self.terms) == 1 else 'them'} out{merge}, or use a larger budget."
        )


def weak_terms(names: Sequence[str], regressors: np.ndarray, noise: NoiseModel, scaled: np.ndarray) -> WeakTerms:
    """Find them; `regressors` are directions in the scaled matrix, one for each name."""
    kept = list(range(len(names)))
    left_out: list[str] = []
    while len(left_out) < min(MOST_WEAK_TERMS, len(names) - 2):
        worst = _weakest(names, kept, regressors, noise, scaled)
        if worst is None:
            break
        kept.remove(worst)
        left_out.append(names[worst])
        x = regressors[:, kept]
        found = kappa_w(x.T @ scaled @ x, x, noise, scaled)
        if is_enough(found):
            return WeakTerms(tuple(left_out), found)
    return WeakTerms()


def _weakest(
    names: Sequence[str], kept: list[int], regressors: np.ndarray, noise: NoiseModel, scaled: np.ndarray
) -> int | None:
    """Find the place of the term, not the intercept, that has most of the weakest direction."""
    x = regressors[:, kept]
    size = np.sqrt(np.sqrt(np.maximum(np.diag(x.T @ noise.spread(x, scaled) @ x), 1e-300)))
    _, vectors = np.linalg.eigh(x.T @ scaled @ x / np.outer(size, size))
    shares = np.abs(vectors[:, 0])
    places = [i for i, place in enumerate(kept) if names[place] != INTERCEPT]
    return kept[max(places, key=lambda i: shares[i])] if places else None
