"""A noisy matrix made positive definite. Post-processing: no cost; what is stored is always the unrepaired matrix.

    ridge        λ·I is added in scaled coordinates, λ = E‖E‖ the mean norm of the noise: known before any data
    eigen        negative eigenvalues become the least positive one (Xi, Kantarcioglu & Inan, 2011). Explosive: a tiny
                 positive eigenvalue takes the place of each, and its inverse is what a regression sees
    nearest_psd  negative eigenvalues become 0: the nearest positive semidefinite matrix (Higham, 1988)
    safe         wishart alone: σ²(√k − √d − t)² is taken off instead of the mean kσ², so that the matrix is positive
                 definite with probability >= 1 − e^(−t²/2) = 1 − delta/4 (Sheffet, after Theorem 4.2)

A ridge, safe or otherwise, shrinks what is estimated: such estimates are predictions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from dpspark.analysis.ols import (
    Moments,
    NotIdentified,
    Solution,
    coefficient_names,
    degrees_of_freedom,
    directions,
    identification,
    r_squared_of,
)
from dpspark.core.formula import Formula
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.base import GramMechanism
from dpspark.mechanisms.gram.simulated import expected_norm
from dpspark.mechanisms.registry import mechanisms_of

How = Literal["none", "ridge", "eigen", "nearest_psd", "safe"]
HOWS: tuple[str, ...] = get_args(How)


@dataclass(frozen=True)
class Repair:
    """A way to repair a release's matrix; `safe_ridge` is what that choice adds, None where there is no such choice."""

    how: str
    safe_ridge: float | None = None

    def matrix(self, moments: Moments) -> np.ndarray:
        """The whole matrix, repaired, in scaled coordinates."""
        eye = np.eye(len(moments.scaled))
        if self.how == "ridge":
            return moments.scaled + expected_norm(moments.noise, len(eye), True) * eye
        if self.how == "safe":
            assert self.safe_ridge is not None
            return moments.scaled + self.safe_ridge * eye
        return moments.scaled if self.how == "none" else _lifted(moments.scaled, self.how)


def choose_repair(how: str | None, manifest: dict[str, Any]) -> Repair:
    """The repair asked for, by default the release's own."""
    mechanism = manifest["mechanism"]
    chosen = mechanism.get("repair", "none") if how is None else how
    if chosen not in HOWS:
        raise ConfError(f"repair={chosen!r}; expected one of {', '.join(HOWS)}.")
    if chosen != "safe":
        return Repair(chosen)
    safe = {each.name: each for each in mechanisms_of("gram") if issubclass(each, GramMechanism) and each.safe_repair}
    if mechanism["name"] not in safe:
        names = " or ".join(safe)
        raise ConfError(f"repair='safe' is for mechanism {names}; this release is by {mechanism['name']}. Use ridge.")
    width, delta = len(manifest["terms"]), manifest["privacy"]["delta"]
    return Repair("safe", safe[mechanism["name"]].safe_ridge(mechanism, width, delta))


def _lifted(matrix: np.ndarray, how: str) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    if values[0] > 0:
        return matrix
    positive = values[values > 0]
    least = float(positive[0]) if how == "eigen" and len(positive) else 0.0
    return (vectors * np.where(values > 0, values, least)) @ vectors.T


def solve_repaired(moments: Moments, formula: Formula, repair: Repair) -> Solution:
    """Estimates from a repaired matrix, without a covariance; a ridge is that of the regressors' own block."""
    x, y, to_original, shift = directions(moments, formula)
    strength = identification(moments, x)
    df = degrees_of_freedom(moments, x, strength)
    if moments.rows <= 0:
        raise NotIdentified("the sum of the weights is not positive, after noise", strength)
    whole = moments.scaled if repair.how == "ridge" else repair.matrix(moments)
    block = x.T @ whole @ x
    if repair.how == "ridge":
        places = [moments.terms.index(term) for term in coefficient_names(formula)]
        noise = moments.noise.only(places)
        block = block + expected_norm(noise, x.shape[1], formula.intercept) * x.T @ x
    if np.linalg.eigvalsh(block)[0] <= 1e-12 * np.trace(np.abs(block)):
        raise NotIdentified(
            f"the matrix of the regressors is not positive definite even after repair {repair.how}", strength
        )
    gamma = np.linalg.solve(block, x.T @ whole @ y)
    # Of these coefficients on the data: the released matrix at w, less what fitting to its noise made of it.
    w = y - x @ gamma
    omega = x.T @ moments.noise.along(w, moments.scaled) @ x
    residual = float(w @ moments.scaled @ w) + 2 * float(np.trace(np.linalg.solve(block, omega)))
    nothing = np.full((len(gamma), len(gamma)), math.nan)
    at = moments.terms.index(formula.response)
    return Solution(
        estimates=to_original @ gamma + shift,
        sampling=nothing,
        privacy=nothing,
        sigma2=residual / moments.rows * float(moments.half[at]) ** 2 if residual > 0 else math.nan,
        df=df,
        strength=strength,
        r_squared=r_squared_of(moments, formula, y, residual) if residual > 0 else math.nan,
    )
