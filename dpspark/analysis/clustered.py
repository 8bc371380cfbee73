"""Standard errors that hold where rows of one cluster are alike: H M H of a meat of clusters. Post-processing: no cost.

M is Σ s·sᵀ over clusters, s the sum of x·r over a cluster's rows (Liang & Zeger, 1986), with noise of its own. With G clusters
the sandwich is multiplied by G/(G − 1)·(n − 1)/(n − p), and by Σ r²/Σ clip(r)² for what is beyond the clip of residuals; its
part of a variance has G − 1 degrees of freedom.

G is not the noisy number of clusters that the release holds, but how many of one size a variance is known as well by: a few
large ones carry it where sizes differ, or where a regressor does between clusters. What the bound C takes off the longest
scores is made up for, as far as the bound that was drawn tells of it. Both: see `Carried`.

The noise of M counts as in dpspark.analysis.sandwich, but as a part of the whole variance of a coefficient, that of privacy
included: of a coefficient whose error is mostly privacy noise, the rest need not be known well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
from dpspark.mechanisms.errors.score_map import ScoreNoise

LEAST_KEPT = 300.0  # norms of scores over what is beyond their bound, as if that fell geometrically with the bound
LEAST_CLUSTERS = 30  # of the noisy number
LEAST_ALIKE = 4.0  # clusters that a variance is known as well by, at least
TAIL = 0.7  # logarithms of what is beyond a bound fall with this power of it
MOST_MISSED = 0.3  # of a variance, beyond the bound of scores
TOO_SHORT = "the rows are too few, or the budget too small, to bound what clusters add: equal variances are assumed"
TOO_FEW = f"there are fewer than about {LEAST_CLUSTERS} clusters: equal variances are assumed"
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
    carried = Carried.of(bread, meat, own)
    alike = carried.alike
    plain = h @ own.T @ meat.matrix @ own @ h
    factor = beyond * (1 + carried.missed) * alike / (alike - 1) * (bread.rows - 1) / (bread.rows - count)
    noise = noise_of_variances(bread, meat, moments, own, plain) * factor
    variance = bread.to_original @ plain @ bread.to_original.T
    sampling = _at_least(variance * np.sqrt(np.outer(factor, factor)), LEAST_VARIANCE * bread.classical)
    total = np.diag(sampling) + bread.privacy
    share = noise / total
    worst = int(np.argmax(share))
    if not share[worst] <= MOST_NOISE:
        shown = min(float(share[worst]), 9.99)
        raise NotRobust(TOO_NOISY.format(term=names[worst], share=shown, most=MOST_NOISE))
    part = np.diag(sampling) / total
    return Robust(meat.kind, sampling, 1 / (part**2 / (alike - 1) + share**2 / 2))


@dataclass(frozen=True)
class Carried:
    """What the sizes of clusters' scores say of each coefficient's variance. From released numbers alone.

    Σ t² of clusters whose scores t have spreads σ has (Σσ²)²/Σσ⁴ degrees of freedom (Satterthwaite, 1946). On each axis the
    release holds Σ t² and Σ |t|, which is √(2/π)·Σσ of normal scores: with ρ the mean of σ² over the squared mean of σ, G/ρ³ is
    close to it where sizes are gamma, and where a normal regressor differs between them, too.

    F(c), which a bound c of scores takes away, is Σ‖t‖ at 0 and about the target at the bound that was drawn. Its logarithm is
    taken to fall beyond that as the power TAIL of c: tails are longer than an exponential's. Then Σ‖t‖² misses
    2·F(C)·(C − F(C)/F'(C)) or so at the bound C that was used, most of it on axes with a large ρ.

    A coefficient has the mean of its axes, each by its part of the variance.
    """

    alike: np.ndarray  # how many clusters of one size it is known as well by
    missed: np.ndarray  # what is beyond the bound, over what is not

    @classmethod
    def of(cls, bread: Bread, meat: ReleasedMeat, own: np.ndarray) -> Carried:
        clusters, noise = meat.clusters, meat.noise
        assert clusters is not None
        assert isinstance(noise, ScoreNoise)
        forth = np.linalg.inv(noise.back)
        squares = np.maximum(np.diag(forth @ meat.matrix @ forth.T), 0.0)  # Σ t² on each axis, in C²
        ratios = np.maximum(1.0, 2 / math.pi * squares * clusters.reach**2 / clusters.count)
        parts = (bread.to_original @ bread.inverse @ own.T @ noise.back) ** 2 * squares
        parts /= np.maximum(parts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        alike = np.maximum(clusters.count / np.maximum(parts @ ratios, 1.0) ** 3, LEAST_ALIKE)
        lost = clusters.beyond(TAIL, len(squares)) / max(float(squares @ ratios), np.finfo(float).tiny)
        return cls(alike, parts @ np.minimum(lost * ratios, MOST_MISSED))


def _at_least(covariance: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Raise variances to these, and take off what is negative then."""
    raised = covariance + np.diag(np.maximum(0.0, least - np.diag(covariance)))
    return without_negative(raised)
