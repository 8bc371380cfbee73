"""The standard errors that a release would show, by the code that computes them from a release, on a guessed matrix.

A release's residual sum of squares is smaller than that of the data by tr(H·Ω), which its analysis adds again: here it is
taken off first, so that what comes out is what a release shows on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpspark.analysis.fit import RegressionFit, to_original
from dpspark.analysis.ols import (
    Moments,
    NotIdentified,
    Strength,
    coefficient_names,
    directions,
    fit_scaled,
    identification,
    solve,
)
from dpspark.core.domain import Domain
from dpspark.core.formula import Formula, formula_text
from dpspark.mechanisms.gram.coordinates import centre_and_scale
from dpspark.mechanisms.gram.identification import ENOUGH, is_enough, kappa_w
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.noisy import AdditiveNoise, sum_of_noises
from dpspark.mechanisms.gram.simulated import draw_noise
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.mechanisms.regression.statistics import NoisyStatistics
from dpspark.planning.guess import Guess
from dpspark.planning.row_norm import made_up_rows
from dpspark.spec.choose import GramMechanism

CHANCE_DRAWS = 400
CHANCE_BELOW = 3.0  # times the least kappa_w: above, no draw is likely to fall short
WIDEST_CHANCE = 40  # terms: more take too long to simulate
SIMULATED_ROWS = 400


@dataclass(frozen=True)
class Prediction:
    """One regression, in original units. `chance` is the probability that a release identifies it."""

    formula: str
    terms: tuple[str, ...]
    coefficients: np.ndarray  # of the guess itself
    sampling: np.ndarray  # standard errors that would remain without any noise
    std_errors: np.ndarray
    df: float
    kappa: float
    kappa_w: float
    status: str
    reason: str = ""
    chance: float = 1.0

    @property
    def ok(self) -> bool:
        return bool(np.isfinite(self.std_errors).all())

    @property
    def privacy(self) -> np.ndarray:
        return np.sqrt(np.maximum(self.std_errors**2 - self.sampling**2, 0.0))


def short_formula(formula: str, most: int = 100) -> str:
    """Shorten a formula for people."""
    if len(formula) <= most:
        return formula
    shown = formula[: most - 20].rpartition(" + ")[0]
    return f"{shown} + {formula.count(' + ') - shown.count(' + ')} more"


def predict_gram(
    mechanism: GramMechanism, domain: Domain, guess: Guess, formula: Formula, matrices: int = 1
) -> Prediction:
    """Least squares from a released matrix, or from a sum of so many with independent noise."""
    noise = mechanism.noise
    if matrices > 1 and isinstance(noise, AdditiveNoise):
        noise = sum_of_noises([noise] * matrices)
    moments = guessed_moments(noise, domain, guess, formula)
    regressors, response, _, _ = directions(moments, formula)
    strength = identification(moments, regressors)
    exact = _without_noise(moments, formula)
    said: dict[str, Any] = {"status": "OK"}
    try:
        _, inverse, omega, _ = fit_scaled(moments, regressors, response)
        take_off(moments, formula, float(np.trace(inverse @ omega)))
        found = solve(moments, formula, guessed=True)
        errors = np.sqrt(np.diag(found.sampling + found.privacy))
        if math.isnan(found.df):
            errors = np.sqrt(np.diag(found.privacy))
            why = "the noise drowns their squares" if moments.has_intervals else "without squares_share"
            said = {"status": "NO_INTERVAL", "reason": f"weighted rows, {why}: the privacy part alone"}
            exact = replace(exact, sampling=np.zeros(len(errors)))
    except (NotIdentified, np.linalg.LinAlgError, ZeroDivisionError) as error:
        errors = np.full(len(exact.sampling), math.nan)
        reason = str(error) if isinstance(error, NotIdentified) else "the regressors are collinear in the guess"
        weak = error.weak if isinstance(error, NotIdentified) else None
        if weak is not None and weak.terms:
            reason = f"{reason}. {weak}"
        said = {"status": "NOT_IDENTIFIED", "reason": reason}
    return Prediction(
        str(formula),
        coefficient_names(formula),
        exact.estimates,
        exact.sampling,
        errors,
        guess.effective_rows - regressors.shape[1],
        strength.kappa,
        strength.kappa_w,
        chance=_chance(moments, regressors, strength),
        **said,
    )


def guessed_moments(noise: NoiseModel, domain: Domain, guess: Guess, formula: Formula) -> Moments:
    moments = Moments.of(domain, guess.matrix, noise.given(domain.known))
    if guess.squared_weights is not None:
        paid = guess.squared_noise
        squared = Moments.of(domain, guess.squared_weights, (paid or noise).given(domain.known))
        moments = replace(
            moments, squared_weights=squared.scaled, squared_noise=None if paid is None else squared.noise
        )
    moments = replace(moments, weighted=domain.weight is not None)
    wanted = guess.residual_sds.get(formula.response)
    if wanted is not None:
        at = moments.terms.index(formula.response)
        regressors, response, _, _ = directions(moments, formula)
        _, inverse, omega, residual = fit_scaled(moments, regressors, response)
        take_off(moments, formula, residual - float(np.trace(inverse @ omega)))
        moments.scaled[at, at] += moments.rows * (wanted / moments.half[at]) ** 2
    return moments


@dataclass(frozen=True)
class _Exact:
    estimates: np.ndarray
    sampling: np.ndarray


def _without_noise(moments: Moments, formula: Formula) -> _Exact:
    """Ordinary least squares of the guess: what an exact release would give."""
    silent = Moments(
        moments.terms,
        moments.scaled,
        moments.middle,
        moments.half,
        AdditiveNoise(1e-300, 1e-300),
        moments.weighted,
        moments.squared_weights,
    )
    try:
        found = solve(silent, formula)
    except (NotIdentified, np.linalg.LinAlgError, ZeroDivisionError):
        nothing = np.full(len(coefficient_names(formula)), math.nan)
        return _Exact(nothing, nothing)
    sampling = np.sqrt(np.diag(found.sampling))
    return _Exact(found.estimates, sampling)


def take_off(moments: Moments, formula: Formula, amount: float) -> None:
    """Take an amount off the residual sum of squares, and off nothing else."""
    at = moments.terms.index(formula.response)
    moments.scaled[at, at] -= amount


def _chance(moments: Moments, regressors: np.ndarray, strength: Strength) -> float:
    """The probability that the released matrix is strong enough, from draws of its noise with a fixed seed."""
    found = strength.kappa_w
    if not 0 < found < CHANCE_BELOW * ENOUGH:
        return float(found > 0)
    used = np.flatnonzero(np.abs(regressors).sum(axis=1))
    if len(used) > WIDEST_CHANCE:
        return float(is_enough(found))
    block, x, noise = moments.scaled[np.ix_(used, used)], regressors[used], moments.noise.only(used.tolist())
    drawn = block + draw_noise(noise, block, bool(used[0] == 0), np.random.default_rng(0), CHANCE_DRAWS)
    return float(np.mean([is_enough(kappa_w(x.T @ one @ x, x, noise, one)) for one in drawn]))


def predict_regression(name: str, mechanism: RegressionMechanism, domain: Domain, guess: Guess) -> Prediction:
    """The one regression of a release of kind regression."""
    scaled = guess.matrix
    squares, cross = scaled[:-1, :-1], scaled[:-1, -1]
    inverse = np.linalg.pinv(squares)
    theta, count = inverse @ cross, len(cross)
    df = max(guess.rows - count, 1.0)
    wanted = guess.residual_sds.get(domain.terms[-1])
    half = centre_and_scale(domain)[1][-1]
    sigma2 = float(scaled[-1, -1] - theta @ cross) / df if wanted is None else (wanted / half) ** 2
    matrix, shift = to_original(domain)
    sampling = np.sqrt(np.maximum(np.diag(matrix @ (sigma2 * inverse) @ matrix.T), 0.0))
    known: dict[str, Any] = {
        "formula": formula_text(domain.terms[-1], domain.terms[1:-1]),
        "terms": domain.terms[:-1],
        "coefficients": matrix @ theta + shift,
        "sampling": sampling,
        "df": df,
    }
    noise, solver = mechanism.statistics_noise, mechanism.solver
    if noise is None or solver is None:
        spread = matrix @ _simulated_covariance(mechanism, guess) @ matrix.T
        errors = np.sqrt(np.maximum(np.diag(spread), 0.0) + sampling**2)
        reason = "simulated with normal rows; a release has no intervals, and a bias that is not in here"
        known |= {"kappa": math.nan, "kappa_w": math.nan}
        return Prediction(std_errors=errors, status="NO_INTERVAL", reason=reason, **known)
    omega = noise.squares.given(domain.regressors.known).along(theta, squares) + noise.cross_std**2 * np.eye(count)
    shown = sigma2 * df + float(theta @ cross) - float(np.trace(inverse @ omega))
    statistics = NoisyStatistics(
        squares,
        cross,
        None if noise.response_std is None else shown,
        float(np.linalg.eigvalsh(squares)[0]),
        noise,
    )
    statistics = mechanism.with_second_step(statistics.given(domain), theta, sigma2)
    fit = RegressionFit(domain, {"name": name, **mechanism.facts()}, solver.solve(statistics), statistics, seed=0)
    errors = np.array([fit.std_errors[term] for term in fit.terms])
    known |= {"kappa": fit.kappa, "kappa_w": fit.kappa_w}
    return Prediction(std_errors=errors, status=fit.status, reason=fit.statement, **known)


def _simulated_covariance(mechanism: RegressionMechanism, guess: Guess) -> np.ndarray:
    """Simulate the noise of the coefficients, on a few made-up rows that stand for all."""
    z = made_up_rows(guess.mean, guess.covariance, SIMULATED_ROWS)
    x, y = np.column_stack([np.ones(SIMULATED_ROWS), z[:, :-1]]), z[:, -1]
    return mechanism.simulated_covariance(x, y, guess.rows / SIMULATED_ROWS)
