"""Standard errors that hold where variances differ: H M H from a released meat. Post-processing: no cost.

A release holds M' = Σ (r² − R²/2)·x xᵀ with noise N, of residuals r clipped to ±R; M = M' + (R²/2)·Σ x xᵀ is the meat of White
(1980). With G the noisy Σ x xᵀ and H its inverse, H(M' + N + (R²/2)G)H = H(M' + N)H + (R²/2)H: the matrix's own noise E enters
by H alone. To second order its mean is −R²·H E[EHE] H, which is added back.

Residuals beyond the clip are missed. How much of Σ r² that is can be told, as the matrix holds Σ r² without a clip: the whole
is multiplied by Σ r²/Σ clip(r)², as if those rows were among the others. HC1 multiplies by n/(n − p), too.

The noise of the variances is counted as a chi-squared's would be (Satterthwaite, 1946): t has fewer degrees of freedom. Where
it is too large a part, or too much is beyond the clip, equal variances are assumed instead, and said to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpspark.analysis.clusters import ReleasedClusters
from dpspark.analysis.ols import Moments, Solution, coefficient_names, directions, fit_scaled
from dpspark.core.formula import Formula
from dpspark.mechanisms.errors.score_map import ScoreNoise
from dpspark.mechanisms.gram.noise_model import NoiseModel

MOST_NOISE = 0.3  # standard deviation of a variance over the variance
QUIET = 0.15  # the same, up to which a wider clip is better: what it cuts off is a bias, and noise is told
MOST_BEYOND = 1.5  # Σ r² over Σ clip(r)²
LEAST_VARIANCE = 0.25  # of that with equal variances

TOO_NOISY = (
    "privacy noise is {share:.0%} of the robust variance of {term}, more than {most:.0%}: equal variances are assumed"
)
TOO_CLIPPED = "the clip of residuals leaves less than two thirds of their squares: equal variances are assumed"


@dataclass(frozen=True)
class ReleasedMeat:
    """The meat of one regression in scaled coordinates, as it was released: Σ (r² − R²/2)·x xᵀ with noise."""

    kind: str  # hc1 or cluster
    text: str
    formula: Formula
    terms: tuple[str, ...]  # the intercept first
    matrix: np.ndarray
    noise: NoiseModel | ScoreNoise
    clip: float  # R, in half-ranges of the response; 0 of clusters, where nothing was taken off
    clusters: ReleasedClusters | None = None

    def answers(self, formula: Formula) -> bool:
        """Tell whether this is the meat of a regression, in whatever order its regressors are."""
        mine = self.formula
        same = (mine.response, mine.intercept) == (formula.response, formula.intercept)
        return same and set(mine.regressors) == set(formula.regressors)


@dataclass(frozen=True)
class Bread:
    """The parts of a regression that its sandwich is made with, in scaled coordinates."""

    inverse: np.ndarray  # H
    regressors: np.ndarray  # directions in z, one a column
    to_original: np.ndarray
    residual: float  # Σ r², without the bias of the noise
    rows: float
    classical: np.ndarray  # the sampling variances in original units, with equal variances of residuals
    privacy: np.ndarray  # those that the noise makes, in original units


@dataclass(frozen=True)
class Robust:
    """A sampling covariance in original units, and how many degrees of freedom each of its variances has."""

    kind: str
    covariance: np.ndarray
    df: np.ndarray


class NotRobust(Exception):
    """Equal variances have to be assumed; the message says why. It depends on released values alone."""


def sandwich(bread: Bread, meat: ReleasedMeat, moments: Moments, names: tuple[str, ...]) -> Robust:
    """Make the sandwich, or say why not. `names` are those of the coefficients."""
    if meat.clusters is not None:
        from dpspark.analysis.clustered import cluster_sandwich

        return cluster_sandwich(bread, meat, moments, names)
    h, half = bread.inverse, meat.clip**2 / 2
    places = [moments.terms.index(term) for term in meat.terms]
    own = bread.regressors[places]
    clipped = float(meat.matrix[0, 0]) + half * float(moments.scaled[0, 0])
    beyond = max(1.0, bread.residual / clipped) if clipped > 0 else math.inf
    if not beyond <= MOST_BEYOND:
        raise NotRobust(TOO_CLIPPED)
    factor = bread.regressors @ _root(h)
    second = bread.regressors.T @ moments.noise.spread(factor, moments.scaled) @ bread.regressors
    plain = h @ (own.T @ meat.matrix @ own + 2 * half * second) @ h + half * h
    variance = bread.to_original @ plain @ bread.to_original.T
    noise = noise_of_variances(bread, meat, moments, own, plain)
    count = len(h)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(np.diag(variance) > 0, noise / np.diag(variance), math.inf)
    worst = int(np.argmax(share))
    if not share[worst] <= MOST_NOISE:
        shown = min(float(share[worst]), 9.99)
        raise NotRobust(TOO_NOISY.format(term=names[worst], share=shown, most=MOST_NOISE))
    found = _floored(without_negative(variance) * beyond * bread.rows / (bread.rows - count), bread.classical)
    part = share * np.diag(found) / (np.diag(found) + bread.privacy)
    return Robust(meat.kind, found, 1 / (1 / (bread.rows - count) + part**2 / 2))


def quiet_clip(bread: Bread, own: np.ndarray, meat: NoiseModel, moments: Moments) -> float:
    """Find the clip up to which the noise is a small part of every variance, were residuals of equal variance.

    `own` are the meat's rows of the regressors, `meat` its noise in units of R²/2. From released numbers alone.
    """
    found = []
    for row, variance in zip(bread.to_original, bread.classical, strict=True):
        a = bread.inverse @ row
        mine, x = own @ a, bread.regressors @ a
        squared = mine @ meat.along(mine, np.zeros((len(mine), len(mine)))) @ mine
        squared += x @ moments.noise.along(x, moments.scaled) @ x
        found.append(float(variance) / math.sqrt(float(squared)))
    return math.sqrt(2 * QUIET * max(0.0, min(found)))


def bread_of(moments: Moments, formula: Formula, plain: Solution) -> Bread:
    """Take the parts of a solution of least squares that its sandwich is made with."""
    regressors, response, to_original, _ = directions(moments, formula)
    _, inverse, _, residual = fit_scaled(moments, regressors, response)
    classical, privacy = np.diag(plain.sampling), np.diag(plain.privacy)
    return Bread(inverse, regressors, to_original, residual, moments.rows, classical, privacy)


def robust_solution(
    moments: Moments, formula: Formula, meat: ReleasedMeat, plain: Solution
) -> tuple[Solution, np.ndarray]:
    """Give a solution of least squares the sampling covariance of a meat; and the degrees of freedom of each coefficient."""
    robust = sandwich(bread_of(moments, formula, plain), meat, moments, coefficient_names(formula))
    return replace(plain, sampling=robust.covariance), robust.df


def noise_of_variances(
    bread: Bread, meat: ReleasedMeat, moments: Moments, own: np.ndarray, plain: np.ndarray
) -> np.ndarray:
    """Compute the standard deviation of each variance in original units: by the meat's noise, and by the matrix's.

    With t a row of the map to original units, a = H t and V the sandwich, tᵀVt moves by aᵀNa, and by aᵀE((R²/2)a − 2Vt).
    """
    found = []
    for row in bread.to_original:
        a, b = bread.inverse @ row, plain @ row
        mine = own @ a
        by_meat = mine @ meat.noise.along(mine, meat.matrix) @ mine
        x, d = bread.regressors @ a, bread.regressors @ (meat.clip**2 / 2 * a - 2 * b)
        found.append(math.sqrt(max(0.0, float(by_meat + x @ moments.noise.along(d, moments.scaled) @ x))))
    return np.array(found)


def _root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def without_negative(covariance: np.ndarray) -> np.ndarray:
    """Take off what is negative. Variances are of very different sizes: in units of each."""
    size = np.sqrt(np.diag(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(size, size))
    if values[0] >= 0:
        return covariance
    return (vectors * np.maximum(values, 0.0)) @ vectors.T * np.outer(size, size)


def _floored(covariance: np.ndarray, classical: np.ndarray) -> np.ndarray:
    """Raise variances to a part of those with equal variances; correlations stay."""
    size = np.sqrt(np.maximum(1.0, LEAST_VARIANCE * classical / np.diag(covariance)))
    return covariance * np.outer(size, size)


def residual_coefficients(
    moments: Moments, formula: Formula, terms: tuple[str, ...], turn: np.ndarray | None = None
) -> np.ndarray:
    """Find the coefficients that residuals are of: y − Σ c·z over some terms, the formula's among them, in scaled coordinates.

    `turn` is the way from those of a release to those of the moments, where they are not the same.

    From a noisy matrix alone. Where that is not positive definite the weak directions are held down: a meat comes out of it in
    any case, whatever it is worth.
    """
    regressors, response, _, _ = directions(moments, formula)
    values, vectors = np.linalg.eigh(regressors.T @ moments.scaled @ regressors)
    least = float(moments.noise.size(regressors.shape[1], float(values[0])))
    inverse = vectors / np.maximum(values, least) @ vectors.T
    w = response - regressors @ (inverse @ (regressors.T @ moments.scaled @ response))
    w = w if turn is None else turn.T @ w
    found = np.array([-w[moments.terms.index(term)] for term in terms])
    if formula.response in terms:  # a category, of a block of which others are regressors
        found[terms.index(formula.response)] += 1.0
    return found
