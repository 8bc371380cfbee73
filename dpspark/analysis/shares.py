"""R-squared, collinearity and standardised coefficients, each with what the privacy noise does to it. No cost.

Sums of squares are quadratic forms of the matrix: Σ r² = wᵀ S w with w the response less its fit, and so is the total. Their
ratio moves by tr(A E) to first order (noise_of.py). Intervals made of it are about the same number without privacy noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from dpspark.analysis.noise_of import noise_of
from dpspark.analysis.ols import Moments, coefficient_names, directions, fit_scaled
from dpspark.core.domain import INTERCEPT
from dpspark.core.formula import Formula


@dataclass(frozen=True)
class Squares:
    """A sum of squares left by a regression, without the bias of the noise, and the direction that it is along."""

    value: float
    along: np.ndarray

    @property
    def slope(self) -> np.ndarray:
        """How it moves with the matrix."""
        return np.outer(self.along, self.along)


def left_by(moments: Moments, formula: Formula) -> Squares:
    """The residual sum of squares of a formula, in half-ranges of its response."""
    regressors, response, _, _ = directions(moments, formula)
    if regressors.shape[1] == 0:
        return Squares(float(response @ moments.scaled @ response), response)
    gamma, _, _, residual = fit_scaled(moments, regressors, response)
    return Squares(residual, response - regressors @ gamma)


def total_of(moments: Moments, formula: Formula) -> Squares:
    """The sum of squares around the mean; around zero of a formula without intercept."""
    return left_by(moments, replace(formula, regressors=()))


def r_squared_noise(moments: Moments, formula: Formula) -> float:
    """The standard deviation that the privacy noise gives to R-squared."""
    residual, total = left_by(moments, formula), total_of(moments, formula)
    if not total.value > 0:
        return math.nan
    slope = -residual.slope / total.value + residual.value / total.value**2 * total.slope
    return noise_of(moments, slope)


def sigma2_noise(moments: Moments, formula: Formula, sigma2: float) -> float:
    """The standard deviation that the privacy noise gives to a residual variance in original units: Σ r² over the rows."""
    residual, half = left_by(moments, formula), float(moments.half[moments.terms.index(formula.response)])
    if not residual.value > 0:
        return math.nan
    rows = residual.value * half**2 / sigma2  # that it was divided by
    count = np.zeros_like(residual.slope)
    count[0, 0] = sigma2
    return noise_of(moments, (residual.slope * half**2 - count) / rows)


def share_interval(share: float, noise: float, level: float) -> tuple[float, float]:
    """An interval of a share, inside 0 and 1."""
    if not math.isfinite(share) or not math.isfinite(noise):
        return math.nan, math.nan
    reach = float(special.ndtri((1 + level) / 2)) * noise
    return max(0.0, min(1.0, share - reach)), max(0.0, min(1.0, share + reach))


def variance_inflation(moments: Moments, formula: Formula) -> dict[str, tuple[float, float]]:
    """1/(1 − R²) of each regressor on the others, and the standard deviation of its noise; NaN where noise left no variance."""
    found = {}
    for term in formula.regressors:
        others = tuple(other for other in formula.regressors if other != term)
        on_others = Formula(term, others, formula.intercept)
        residual, total = left_by(moments, on_others), total_of(moments, on_others)
        if residual.value > 0 and total.value > 0:
            slope = total.slope / residual.value - total.value / residual.value**2 * residual.slope
            found[term] = total.value / residual.value, noise_of(moments, slope)
        else:
            found[term] = math.nan, math.nan
    return found


def standardised(
    moments: Moments, formula: Formula, estimates: np.ndarray, sampling: np.ndarray
) -> dict[str, tuple[float, float]]:
    """Coefficients in standard deviations of y for one of x, with standard errors: the noise of both deviations is in them.

    The sampling part is that of least squares on standardised columns, which takes their deviations as given.
    """
    regressors, response, to_original, _ = directions(moments, formula)
    gamma, inverse, _, _ = fit_scaled(moments, regressors, response)
    w, names = response - regressors @ gamma, coefficient_names(formula)
    total, found = total_of(moments, formula), {}
    y = moments.half[moments.terms.index(formula.response)]
    for at, term in enumerate(names):
        if term == INTERCEPT:
            continue
        own = total_of(moments, Formula(term, (), formula.intercept))
        if not (own.value > 0 and total.value > 0):
            found[term] = math.nan, math.nan
            continue
        ratio = math.sqrt(own.value / total.value) * moments.half[moments.terms.index(term)] / y
        value = ratio * float(estimates[at])
        moves = ratio * np.outer(regressors @ inverse @ to_original[at], w)  # of the coefficient
        slope = moves + value / 2 * (own.slope / own.value - total.slope / total.value)
        variance = float(sampling[at, at])  # NaN where no standard error is known
        found[term] = value, math.sqrt(ratio**2 * variance + noise_of(moments, slope) ** 2)
    return found
