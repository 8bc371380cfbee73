"""Ordinary least squares from a noisy second-moment matrix, with the privacy noise in the standard errors.

Post-processing of a release: no cost. Everything is done in the release's scaled coordinates z, where the noise is
simple, and mapped to original units at the end. A regressor is a direction l in z-space (x = scale · l·z), so that a
regression with or without intercept, on numbers or categories, is one and the same calculation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dpspark.analysis.inversion import Inversion, inversion_of
from dpspark.analysis.second_order import at_truth
from dpspark.analysis.weak_terms import WeakTerms, weak_terms
from dpspark.core.domain import INTERCEPT, Domain
from dpspark.core.formula import Formula
from dpspark.core.tables import KnownFacts
from dpspark.mechanisms.gram.coordinates import centre_and_scale, turn_of
from dpspark.mechanisms.gram.identification import ENOUGH, WEAK, is_enough, kappa_w
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.turned_noise import turned


@dataclass(frozen=True)
class Moments:
    """A released matrix in scaled coordinates: u = (x − middle) / half, the intercept first. They are the release's own z but
    for products of a category and a number, which lean on their category there (mechanisms/gram/coordinates.py).

    `noise` is what is left of it, where what is known of the matrix was put in: see `given`.
    """

    terms: tuple[str, ...]
    scaled: np.ndarray
    middle: np.ndarray
    half: np.ndarray
    noise: NoiseModel
    weighted: bool = False  # then rows are a sum of weights, and residuals alone say nothing of the estimates' variance
    squared_weights: np.ndarray | None = None  # Σ w² z zᵀ, with which they do
    squared_noise: NoiseModel | None = None  # of those

    @classmethod
    def of(cls, domain: Domain, scaled: np.ndarray, noise: NoiseModel) -> Moments:
        """Take a matrix in the release's own coordinates."""
        turn = turn_of(domain)
        seen = scaled if turn is None else turn @ scaled @ turn.T
        return cls(domain.terms, seen, *centre_and_scale(domain), turned(noise, domain))

    @classmethod
    def from_original(
        cls, terms: tuple[str, ...], matrix: np.ndarray, middle: np.ndarray, half: np.ndarray, noise: NoiseModel
    ) -> Moments:
        """Undo the congruence: S = T⁻¹ C T⁻ᵀ."""
        inverse = np.diag(np.concatenate([[1.0], 1 / half[1:]]))
        inverse[1:, 0] = -middle[1:] / half[1:]
        return cls(terms, inverse @ matrix @ inverse.T, middle, half, noise)

    def only(self, terms: Sequence[str]) -> Moments:
        """Take the moments of some of the terms."""
        at = [self.terms.index(term) for term in terms]
        squared = None if self.squared_weights is None else self.squared_weights[np.ix_(at, at)]
        squared_noise = None if self.squared_noise is None else self.squared_noise.only(at)
        noise = self.noise.only(at)
        found = Moments(tuple(terms), self.scaled[np.ix_(at, at)], self.middle[at], self.half[at], noise)
        return replace(found, weighted=self.weighted, squared_weights=squared, squared_noise=squared_noise)

    def given(self, known: KnownFacts | None) -> Moments:
        """Put in what is known exactly of such a matrix, and of that of squared weights, whose rows are the same."""
        noise, squared_noise, squared = self.noise.given(known), self.squared_noise, self.squared_weights
        if squared_noise is not None and squared is not None:
            squared_noise = squared_noise.given(known)
            squared = squared_noise.project(squared)
        found = replace(self, noise=noise, scaled=noise.project(self.scaled))
        return replace(found, squared_weights=squared, squared_noise=squared_noise)

    @property
    def has_intervals(self) -> bool:
        return not self.weighted or self.squared_weights is not None

    @property
    def rows(self) -> float:
        """The number of rows, or the sum of their weights."""
        return float(self.scaled[0, 0])

    @property
    def effective_rows(self) -> float:
        """The number of rows of equal weight that say as much, (Σw)²/Σw² (Kish, 1965); NaN where that is not known."""
        if not self.weighted:
            return self.rows
        squared = math.nan if self.squared_weights is None else float(self.squared_weights[0, 0])
        return self.rows**2 / squared if squared > 0 and self.rows > 0 else math.nan

    @property
    def counted(self) -> str:
        """The word for a number of rows, in messages."""
        return "effective rows" if self.weighted else "rows"


@dataclass(frozen=True)
class Strength:
    """The signal in the regressors over the noise: kappa_w decides, kappa is shown beside it."""

    kappa: float
    kappa_w: float


@dataclass(frozen=True)
class Solution:
    """Least squares in original units; the covariance in its two parts."""

    estimates: np.ndarray
    sampling: np.ndarray
    privacy: np.ndarray
    sigma2: float
    df: float
    strength: Strength
    r_squared: float
    inversion: Inversion | None = None  # what intervals are made with; without it they are symmetric

    @property
    def kappa(self) -> float:
        return self.strength.kappa

    @property
    def kappa_w(self) -> float:
        return self.strength.kappa_w


class NotIdentified(Exception):
    """The noise drowns the signal; the message says how. Never depends on anything but released values."""

    def __init__(self, reason: str, strength: Strength, weak: WeakTerms | None = None):
        super().__init__(reason)
        self.strength, self.weak = strength, weak


def sweep(matrix: np.ndarray, pivots: int) -> np.ndarray:
    """Sweep the first `pivots` rows: [[A, b], [bᵀ, c]] becomes [[−A⁻¹, A⁻¹b], [bᵀA⁻¹, c − bᵀA⁻¹b]] (Goodnight, 1979)."""
    swept = matrix.astype(float).copy()
    for k in range(pivots):
        pivot = swept[k, k]
        row = swept[k] / pivot
        swept -= np.outer(swept[:, k], row)
        swept[k] = row
        swept[:, k] = row
        swept[k, k] = -1 / pivot
    return swept


def solve(moments: Moments, formula: Formula, guessed: bool = False) -> Solution:
    """Estimates and their covariance, or NotIdentified; `guessed`: the matrix has no noise in it, which is yet to come."""
    regressors, response, to_original, shift = directions(moments, formula)
    strength = identification(moments, regressors)
    df = degrees_of_freedom(moments, regressors, strength)
    if not is_enough(strength.kappa_w):
        reason = f"{WEAK.format(kappa_w=strength.kappa_w)}; at least {ENOUGH:g} is needed"
        if strength.kappa_w <= 0:
            reason = "the noisy matrix of the regressors is not positive definite"
        weak = weak_terms(coefficient_names(formula), regressors, moments.noise, moments.scaled)
        raise NotIdentified(reason, strength, weak)
    gamma, inverse, omega, residual = fit_scaled(moments, regressors, response)
    inversion = None
    if not guessed:
        left = response - regressors @ gamma
        inversion = inversion_of(moments.noise, moments.scaled, regressors, left, inverse, omega, to_original)
        omega = at_truth(omega, inverse, partial(_spread, moments, regressors))
    if residual <= 0:
        raise NotIdentified("the residual sum of squares is not positive, after noise", strength)
    if moments.weighted:
        sigma2, sampling = _weighted(moments, regressors, inverse, residual if df > 0 else math.nan)
    else:
        sigma2, sampling = residual / df, residual / df * inverse
    return Solution(
        estimates=to_original @ gamma + shift,
        sampling=to_original @ sampling @ to_original.T,
        privacy=to_original @ (inverse @ omega @ inverse) @ to_original.T,
        sigma2=sigma2 * float(moments.half[moments.terms.index(formula.response)]) ** 2,
        df=df,
        strength=strength,
        r_squared=r_squared_of(moments, formula, response, residual),
        inversion=inversion,
    )


def _spread(moments: Moments, regressors: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """E[Xᵀ E X F Fᵀ Xᵀ E X]."""
    return regressors.T @ moments.noise.spread(regressors @ factor, moments.scaled) @ regressors


def degrees_of_freedom(moments: Moments, regressors: np.ndarray, strength: Strength) -> float:
    """Rows less coefficients; of weighted rows the effective ones, NaN where they are not known."""
    count = regressors.shape[1]
    df = moments.effective_rows - count
    if df < 1:
        about = f"about {max(0.0, moments.effective_rows):.0f} {moments.counted} for {count} coefficients, after noise"
        raise NotIdentified(about, strength)
    return df if trusted_squares(moments, regressors) else math.nan


def trusted_squares(moments: Moments, regressors: np.ndarray) -> bool:
    """Tell whether the sampling error can be known: not if moments of squared weights are missing, or drowned by noise."""
    if not moments.weighted:
        return True
    squared, noise = moments.squared_weights, moments.squared_noise
    if squared is None or not moments.effective_rows > 0:
        return False
    block = regressors.T @ squared @ regressors
    if noise is None:
        return float(np.linalg.eigvalsh(block)[0]) > 0
    return is_enough(kappa_w(block, regressors, noise, squared))


def _weighted(
    moments: Moments, regressors: np.ndarray, inverse: np.ndarray, residual: float
) -> tuple[float, np.ndarray]:
    """Solve for residuals of equal variance σ²: E Σ w e² = σ² (Σ w − tr H M) and Var = σ² H M H, with M = Σ w² x xᵀ."""
    if moments.squared_weights is None:
        return math.nan, np.full(inverse.shape, math.nan)
    squared = regressors.T @ moments.squared_weights @ regressors
    spare = moments.rows - float(np.trace(squared @ inverse))
    sigma2 = residual / spare if spare > 0 else math.nan
    return sigma2, sigma2 * inverse @ squared @ inverse


def identification(moments: Moments, regressors: np.ndarray) -> Strength:
    """kappa: the least eigenvalue of the regressors' matrix over the typical norm of its noise. kappa_w: see there."""
    basis, _ = np.linalg.qr(regressors)
    least = float(np.linalg.eigvalsh(basis.T @ moments.scaled @ basis)[0])
    kappa = least / moments.noise.size(regressors.shape[1], least)
    matrix = regressors.T @ moments.scaled @ regressors
    return Strength(kappa, kappa_w(matrix, regressors, moments.noise, moments.scaled) if least > 0 else 0.0)


def fit_scaled(
    moments: Moments, regressors: np.ndarray, response: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Coefficients, inverse matrix, noise covariance of the normal equations, residual sum of squares without its bias."""
    both = np.column_stack([regressors, response])
    count = regressors.shape[1]
    swept = sweep(both.T @ moments.scaled @ both, count)
    inverse, gamma, raw_residual = -swept[:count, :count], swept[:count, count], float(swept[count, count])
    omega = regressors.T @ moments.noise.along(response - regressors @ gamma, moments.scaled) @ regressors
    # Fitting to the noise makes the residuals look smaller by tr(inverse · omega).
    return gamma, inverse, omega, raw_residual + float(np.trace(inverse @ omega))


def directions(moments: Moments, formula: Formula) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Regressors and response as directions in z, and the map of their coefficients to original units."""
    at = [moments.terms.index(term) for term in formula.regressors]
    y = moments.terms.index(formula.response)
    width = len(moments.terms)
    ratio = moments.middle / np.where(moments.half > 0, moments.half, 1.0)
    scale = moments.half[y]
    slopes = scale / moments.half[at] if at else np.zeros(0)
    regressors, response = np.zeros((width, len(at))), np.zeros(width)
    regressors[at, range(len(at))] = 1.0
    response[y] = 1.0
    if not formula.intercept:
        regressors[0] = ratio[at]
        response[0] = ratio[y]
        return regressors, response, np.diag(slopes), np.zeros(len(at))
    intercept = np.zeros((width, 1))
    intercept[0] = 1.0
    to_original = np.diag(np.concatenate([[scale], slopes]))
    to_original[0, 1:] = -slopes * moments.middle[at]
    shift = np.zeros(1 + len(at))
    shift[0] = moments.middle[y]
    return np.hstack([intercept, regressors]), response, to_original, shift


def r_squared_of(moments: Moments, formula: Formula, response: np.ndarray, residual: float) -> float:
    """Share of the variance explained, both sums of squares without the noise's bias; about zero without an intercept."""
    if formula.intercept:
        only = np.zeros((len(moments.terms), 1))
        only[0] = 1.0
        total = fit_scaled(moments, only, response)[3]
    else:
        total = float(response @ moments.scaled @ response)
    return 1 - residual / total if total > 0 else math.nan


def coefficient_names(formula: Formula) -> tuple[str, ...]:
    return ((INTERCEPT,) if formula.intercept else ()) + formula.regressors
