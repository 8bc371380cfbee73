"""Standard errors that hold where rows of one cluster are alike: H M H of a meat of clusters. Post-processing: no cost.

M is Σ s·sᵀ over clusters, s the sum of x·r over a cluster's rows (Liang & Zeger, 1986), with noise of its own. With G clusters,
of which the release holds a noisy number, the sandwich is multiplied by G/(G − 1)·(n − 1)/(n − p), and by Σ r²/Σ clip(r)² for
what is beyond the clip of residuals; its part of a variance has G − 1 degrees of freedom.

The noise of M counts as in dpspark.analysis.sandwich, but as a part of the whole variance of a coefficient, that of privacy
included: of a coefficient whose error is mostly privacy noise, the rest need not be known well.
"""

from __future__ import annotations

import math

import numpy as np

from dpspark.analysis.ols import Moments
from dpspark.analysis.sandwich import (
    LEAST_VARIANCE,
    MOST_BEYOND,
    MOST_NOISE,
    TOO_CLIPPED,
    Bread,
    NotRobust,
    ReleasedMeat,
    Robust,
    noise_of_variances,
    without_negative,
)

LEAST_KEPT = 300.0  # norms of scores over what is beyond their bound, as if that fell geometrically with the bound
LEAST_CLUSTERS = 10  # of the noisy number
TOO_SHORT = "the rows are too few, or the budget too small, to bound what clusters add: equal variances are assumed"
TOO_FEW = "there are hardly any clusters, or the noise of their number is too large: equal variances are assumed"
TOO_NOISY = (
    "noise of clusters is {share:.0%} of the variance of {term}, more than {most:.0%}: equal variances are assumed"
)


def cluster_sandwich(bread: Bread, meat: ReleasedMeat, moments: Moments, names: tuple[str, ...]) -> Robust:
    """Make the sandwich of a meat of clusters, or say why not. `names` are those of the coefficients."""
    clusters, h, count = meat.clusters, bread.inverse, len(bread.inverse)
    assert clusters is not None
    if not clusters.count >= LEAST_CLUSTERS:
        raise NotRobust(TOO_FEW)
    if not clusters.kept >= LEAST_KEPT:
        raise NotRobust(TOO_SHORT)
    beyond = max(1.0, bread.residual / clusters.squares) if clusters.squares > 0 else math.inf
    if not beyond <= MOST_BEYOND:
        raise NotRobust(TOO_CLIPPED)
    own = bread.regressors[[moments.terms.index(term) for term in meat.terms]]
    plain = h @ own.T @ meat.matrix @ own @ h
    factor = beyond * clusters.count / (clusters.count - 1) * (bread.rows - 1) / (bread.rows - count)
    noise = noise_of_variances(bread, meat, moments, own, plain) * factor
    variance = bread.to_original @ plain @ bread.to_original.T
    sampling = _at_least(variance * factor, LEAST_VARIANCE * bread.classical)
    total = np.diag(sampling) + bread.privacy
    share = noise / total
    worst = int(np.argmax(share))
    if not share[worst] <= MOST_NOISE:
        shown = min(float(share[worst]), 9.99)
        raise NotRobust(TOO_NOISY.format(term=names[worst], share=shown, most=MOST_NOISE))
    part = np.diag(sampling) / total
    return Robust(meat.kind, sampling, 1 / (part**2 / (clusters.count - 1) + share**2 / 2))


def _at_least(covariance: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Raise variances to these, and take off what is negative then."""
    raised = covariance + np.diag(np.maximum(0.0, least - np.diag(covariance)))
    return without_negative(raised)
