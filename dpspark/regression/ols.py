"""Ordinary least squares from a noisy second-moment matrix, with the privacy noise in the standard errors.

Post-processing of a release: no cost. Everything is done in the release's scaled coordinates z, where the noise is
simple, and mapped to original units at the end. A regressor is a direction l in z-space (x = scale · l·z), so that a
regression with or without intercept, on numbers or categories, is one and the same calculation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpspark.data.domain import INTERCEPT
from dpspark.mechanisms.noisy import NoiseModel
from dpspark.regression.formula import Formula

# lambda_min of the regressors' matrix over the size of its noise. Below this the delta method is not to be trusted.
SMALLEST_KAPPA = 2.0


@dataclass(frozen=True)
class Moments:
    """A released matrix in scaled coordinates: z = (x − middle) / half, the intercept first."""

    terms: tuple[str, ...]
    scaled: np.ndarray
    middle: np.ndarray
    half: np.ndarray
    noise: NoiseModel
    weighted: bool = False  # then rows are a sum of weights, and residuals alone say nothing of the estimates' variance
    squared_weights: np.ndarray | None = None  # Σ w² z zᵀ, with which they do

    @classmethod
    def from_original(
        cls, terms: tuple[str, ...], matrix: np.ndarray, middle: np.ndarray, half: np.ndarray, noise: NoiseModel
    ) -> Moments:
        """Undo the congruence: S = T⁻¹ C T⁻ᵀ."""
        inverse = np.diag(np.concatenate([[1.0], 1 / half[1:]]))
        inverse[1:, 0] = -middle[1:] / half[1:]
        return cls(terms, inverse @ matrix @ inverse.T, middle, half, noise)

    def only(self, terms: Sequence[str]) -> Moments:
        """Of some of the terms."""
        at = [self.terms.index(term) for term in terms]
        squared = None if self.squared_weights is None else self.squared_weights[np.ix_(at, at)]
        found = Moments(tuple(terms), self.scaled[np.ix_(at, at)], self.middle[at], self.half[at], self.noise)
        return replace(found, weighted=self.weighted, squared_weights=squared)

    @property
    def has_intervals(self) -> bool:
        return not self.weighted or self.squared_weights is not None

    @property
    def rows(self) -> float:
        return float(self.scaled[0, 0])


@dataclass(frozen=True)
class Solution:
    """Least squares in original units; the covariance in its two parts."""

    estimates: np.ndarray
    sampling: np.ndarray
    privacy: np.ndarray
    sigma2: float
    df: float
    kappa: float
    r_squared: float


class NotIdentified(Exception):
    """The noise drowns the signal; the message says how. Never depends on anything but released values."""

    def __init__(self, reason: str, kappa: float):
        super().__init__(reason)
        self.kappa = kappa


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


def solve(moments: Moments, formula: Formula) -> Solution:
    """Estimates and their covariance, or NotIdentified."""
    regressors, response, to_original, shift = directions(moments, formula)
    kappa = identification(moments, regressors)
    count = regressors.shape[1]
    df = moments.rows - count
    if df < 1 and not moments.weighted:
        raise NotIdentified(f"about {max(0.0, moments.rows):.0f} rows for {count} coefficients, after noise", kappa)
    if kappa <= 0:
        raise NotIdentified("the noisy matrix of the regressors is not positive definite", kappa)
    if kappa < SMALLEST_KAPPA:
        reason = f"the signal in the regressors is {kappa:.2g} times the noise (kappa); at least {SMALLEST_KAPPA:g} is needed"
        raise NotIdentified(reason, kappa)
    gamma, inverse, omega, residual = fit_scaled(moments, regressors, response)
    if residual <= 0:
        raise NotIdentified("the residual sum of squares is not positive, after noise", kappa)
    if moments.weighted:
        sigma2, df, sampling = _weighted(moments, regressors, inverse, residual)
    else:
        sigma2, sampling = residual / df, residual / df * inverse
    return Solution(
        estimates=to_original @ gamma + shift,
        sampling=to_original @ sampling @ to_original.T,
        privacy=to_original @ (inverse @ omega @ inverse) @ to_original.T,
        sigma2=sigma2 * float(moments.half[moments.terms.index(formula.response)]) ** 2,
        df=df,
        kappa=kappa,
        r_squared=r_squared_of(moments, formula, response, residual),
    )


def _weighted(
    moments: Moments, regressors: np.ndarray, inverse: np.ndarray, residual: float
) -> tuple[float, float, np.ndarray]:
    """Var = σ² H (Σ w² x xᵀ) H for residuals of equal variance σ²; degrees of freedom of as many equal weights."""
    squared = moments.squared_weights
    if squared is None or squared[0, 0] <= 0:
        return math.nan, math.nan, np.full(inverse.shape, math.nan)
    df = max(1.0, moments.rows**2 / float(squared[0, 0]) - len(inverse))
    sigma2 = residual / moments.rows
    return sigma2, df, sigma2 * inverse @ regressors.T @ squared @ regressors @ inverse


def identification(moments: Moments, regressors: np.ndarray) -> float:
    """kappa: the least eigenvalue of the regressors' matrix over the typical norm of its noise."""
    basis, _ = np.linalg.qr(regressors)
    least = float(np.linalg.eigvalsh(basis.T @ moments.scaled @ basis)[0])
    return least / moments.noise.size(regressors.shape[1], least)


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
