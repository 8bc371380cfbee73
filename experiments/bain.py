"""Bain, D'Orazio, Sheffet & Vadhan, *Releasing a Differentially Private Variance-covariance Matrix*: what is shared.

Their mechanism: columns scaled to [0, 1], an intercept, iid Gaussian noise on the upper triangle of DᵀD; then regressions by
the sweep operator, after negative eigenvalues have become the least positive one. As printed and corrected differ in the
sensitivity alone: what would not run as printed (the sign of the scaling, scaling back, the rows of the sweep) is right in
both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspark.analysis.ols import Moments, directions, sweep
from dpspark.analysis.repair import Repair
from dpspark.core.domain import INTERCEPT
from dpspark.core.formula import Formula
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.privacy.budget import analytic_mu

PAPER = "Bain, D'Orazio, Sheffet & Vadhan"
EPSILON, DELTA = 0.01, 2.0**-16  # section 3.2
METHODS = ("as printed", "corrected", "dpspark")
ANALYTIC = "corrected, exact calibration"  # a step on the way to dpspark's, which also centres the columns
EIGEN = Repair("eigen")

Bounds = Mapping[str, Mapping[str, float]]  # as a conf has them


def noise_std(method: str, columns: int, epsilon: float, delta: float) -> float:
    """Of every entry, in rows. Printed: sensitivity √d. Their calibration is the classical one, printed and corrected."""
    if method == ANALYTIC:
        return row_change(columns) / analytic_mu(epsilon, delta)
    sensitivity = math.sqrt(columns) if method == "as printed" else row_change(columns)
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def row_change(columns: int) -> float:
    """How far a row with an intercept, in [0, 1], moves the upper triangle of DᵀD in l2: all of its entries by 1."""
    return math.sqrt((columns + 1) * (columns + 2) / 2)


def paper_noise(std: float, width: int, random: np.random.Generator) -> np.ndarray:
    upper = np.triu(random.normal(0, std, (width, width)))
    return upper + np.triu(upper, 1).T


def to_unit_box(matrix: np.ndarray) -> np.ndarray:
    """A matrix, or noise, of columns in [-1, 1] in terms of the same columns in [0, 1], intercept first."""
    turn = np.diag(np.full(len(matrix), 0.5))
    turn[:, 0] = 0.5
    turn[0, 0] = 1.0
    return turn @ matrix @ turn.T


@dataclass(frozen=True)
class PaperFit:
    """Coefficients and standard errors in original units, the intercept first; s² is theirs, without the privacy noise."""

    estimates: np.ndarray
    std_errors: np.ndarray
    s2: float


class PaperReleases:
    """As many of their releases of the same rows as wanted; bounds are public, as they are for dpspark."""

    def __init__(self, rows: Mapping[str, np.ndarray], bounds: Bounds):
        lower, upper = (np.array([bound[side] for bound in bounds.values()], float) for side in ("lower", "upper"))
        columns = [np.clip(rows[name], low, high) for name, low, high in zip(bounds, lower, upper, strict=True)]
        scaled = (np.column_stack(columns) - lower) / (upper - lower)
        matrix = np.empty((len(bounds) + 1,) * 2)
        matrix[0, 0], matrix[1:, 1:] = len(scaled), scaled.T @ scaled
        matrix[0, 1:] = matrix[1:, 0] = scaled.sum(axis=0)
        self._terms = (INTERCEPT, *bounds)
        self._place = np.append(1.0, lower), np.append(0.0, upper - lower)
        self.exact = Moments(self._terms, matrix, *self._place, AdditiveNoise(0.0, 0.0))

    def draw(self, method: str, epsilon: float, delta: float, random: np.random.Generator) -> Moments:
        std = noise_std(method, len(self._terms) - 1, epsilon, delta)
        noisy = self.exact.scaled + paper_noise(std, len(self._terms), random)
        return Moments(self._terms, noisy, *self._place, AdditiveNoise(std, std))


def sweep_fit(moments: Moments, formula: Formula) -> PaperFit:
    """Algorithm 2, with the rows of the regressors and df = n − (k + 1); the matrix made positive first."""
    regressors, response, to_original, shift = directions(moments, formula)
    whole, both = EIGEN.matrix(moments), np.column_stack([regressors, response])
    count = regressors.shape[1]
    swept = sweep(both.T @ whole @ both, count)
    residual, df = float(swept[count, count]), float(whole[0, 0]) - count
    s2 = residual / df if residual > 0 and df > 0 else math.nan
    covariance = to_original @ -swept[:count, :count] @ to_original.T
    return PaperFit(
        to_original @ swept[:count, count] + shift,
        np.sqrt(s2 * np.maximum(np.diag(covariance), 0.0)),
        s2 * float(moments.half[moments.terms.index(formula.response)]) ** 2,
    )


def conf_for(bounds: Bounds, epsilon: float, delta: float, **mechanism: Any) -> dict[str, Any]:
    """dpspark's conf for the same columns and budget; without a mechanism the default."""
    pure = mechanism.get("name") == "laplace"
    privacy = {"epsilon": epsilon} if pure else {"epsilon": epsilon, "delta": delta}
    return {"columns": bounds, "privacy": privacy, **({"mechanism": mechanism} if mechanism else {})}
