"""Sheffet, *Private Approximations of the 2nd-Moment Matrix Using Existing Techniques in Linear Regression*: what is shared.

Section 6: 20 independent standard normal columns x and 20 columns y = Xβ + e with e ~ N(0, 0.5²) and ‖β‖ = 3.2; all 40 are
released at epsilon = 0.1. The regression is of y0 on the 20 columns x and m of the other columns y, whose coefficients are 0.
A projection has r = 2d rows and an inverse-Wishart draw ν = 2d degrees of freedom (its footnote 7). Its Algorithm 3 says n + d:
that is shown too, by its name. A row is added or removed. Not in the paper, and ours: delta = 1e-6; rows clipped to B² = 700;
nothing spent on σ_min.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dpspark.mechanisms.gram.noisy import AdditiveNoise, SamplingNoise
from dpspark.mechanisms.gram.projection import theorem_ridge
from dpspark.mechanisms.gram.sampling import inverse_wishart, wishart
from dpspark.mechanisms.gram.simulated import expected_norm
from dpspark.mechanisms.gram.wishart import safe_ridge, theorem_degrees
from dpspark.privacy.budget import analytic_mu
from dpspark.privacy.profiles import ridge_for, wishart_degrees
from experiments.noise import ExperimentNoise
from experiments.releases import Releases

PAPER = "Sheffet, Private Approximations of the 2nd-Moment Matrix"
EPSILON, DELTA = 0.1, 1e-6
P, WIDTH = 20, 40
NORM, RESIDUAL = 3.2, 0.5  # of each β; the standard deviation of each e
SQUARED_NORM = 700.0  # B², of a row
EXTRA = (0, 1, 5, 10, 20)  # the paper's m; there are 19 others, so that 20 stands for all of them
MANY_ROWS = 10**7  # of a projection whose own error is to be negligible

# The paper's six, then what is compared with them. In the order of the plots' looks.
SIX = ("Analyze Gauss", "Analyze Gauss, scaled", "JL", "Wishart", "Wishart, scaled", "inverse-Wishart")
POSTERIOR = "inverse-Wishart, n + d"  # with the paper's constants alone: as many degrees as rows, and n public
EXACT_ONLY = "JL, many rows"
FEW = 2 * WIDTH  # rows of a projection, degrees of freedom of an inverse-Wishart draw

# What an analyst could know of such columns before seeing one: x is standardised, y is some three times as wide. Nothing here
# depends on the rows. The row norm is of the scaled row: 40 coordinates of standard deviation 1/4.5.
BOUNDS = {**{f"x{i}": 4.5 for i in range(P)}, **{f"y{i}": 15.0 for i in range(P)}}
ROW_NORM = 2.2
CONF = {
    "columns": {name: {"lower": -half, "upper": half} for name, half in BOUNDS.items()},
    "row_norm": {"mode": "cap", "radius": ROW_NORM},
    "privacy": {"epsilon": EPSILON, "delta": DELTA, "neighbours": "add_remove"},
}
HALVES = np.array(list(BOUNDS.values()))


def draw_betas(random: np.random.Generator) -> np.ndarray:
    """A column for each y."""
    drawn = random.normal(size=(P, P))
    return NORM * drawn / np.linalg.norm(drawn, axis=0)


def covariance(betas: np.ndarray) -> np.ndarray:
    own = betas.T @ betas + RESIDUAL**2 * np.eye(P)
    return np.block([[np.eye(P), betas], [betas.T, own]])


def draw_gram(betas: np.ndarray, rows: int, random: np.random.Generator) -> np.ndarray:
    """AᵀA of `rows` normal rows, from its law W(Σ, rows): exact, but for the clipping of the few rows that are too long."""
    return wishart(covariance(betas), rows, ExperimentNoise(random))


def features(extra: int) -> list[int]:
    return [*range(P), *range(P + 1, P + 1 + min(extra, P - 1))]


def truth(betas: np.ndarray, extra: int) -> np.ndarray:
    return np.concatenate([betas[:, 0], np.zeros(min(extra, P - 1))])


def solve(matrix: np.ndarray, extra: int) -> np.ndarray:
    """arg min βᵀMβ with −1 at y0."""
    at = features(extra)
    return np.linalg.solve(matrix[np.ix_(at, at)], matrix[at, P])


def error(found: np.ndarray, betas: np.ndarray, extra: int) -> float:
    wanted = truth(betas, extra)
    return float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))


def _symmetric(diagonal: float, off: float, noise: ExperimentNoise) -> np.ndarray:
    upper = np.triu(noise.random.normal(0, off, (WIDTH, WIDTH)), 1)
    return upper + upper.T + np.diag(noise.random.normal(0, diagonal, WIDTH))


def gauss_stds(constants: str) -> tuple[float, float]:
    """Of the diagonal and off it. Paper: 2B⁴ ln(2/delta)/epsilon² on every entry. Exact: the whole matrix moves by B²."""
    if constants == "paper":
        std = SQUARED_NORM * math.sqrt(2 * math.log(2 / DELTA)) / EPSILON
        return std, std
    std = SQUARED_NORM / analytic_mu(EPSILON, DELTA)
    return std, std / math.sqrt(2)


@lru_cache
def ridge_of(constants: str, degrees: int) -> float:
    """w² of a projection, ψ of an inverse-Wishart draw."""
    least = theorem_ridge if constants == "paper" else ridge_for
    return least(EPSILON, DELTA, degrees, SQUARED_NORM)


@lru_cache
def degrees_of(constants: str) -> int:
    """k of Wishart noise with the paper's scale B²."""
    if constants == "paper":
        return theorem_degrees(WIDTH, EPSILON, DELTA)
    return wishart_degrees(EPSILON, DELTA, WIDTH, 1.0)


def paper_matrices(gram: np.ndarray, rows: int, constants: str, noise: ExperimentNoise) -> dict[str, np.ndarray]:
    """One draw of each of the six, two of which are another reading of the same draw, and of one more.

    With exact constants a known ridge is also taken off where the paper leaves it, as far as the matrix stays positive.
    """
    eye = np.eye(WIDTH)
    stds = gauss_stds(constants)
    gauss = gram + _symmetric(*stds, noise)
    lifted = expected_norm(AdditiveNoise(*stds), WIDTH, True) if np.linalg.eigvalsh(gauss)[0] <= 0 else 0.0
    degrees = degrees_of(constants)
    noisy = gram + wishart(SQUARED_NORM * eye, degrees, noise)
    lowered = noisy - degrees * SQUARED_NORM * eye
    if np.linalg.eigvalsh(lowered)[0] <= 0:
        lowered = lowered + safe_ridge(degrees, SQUARED_NORM, WIDTH, DELTA) * eye
    found = {
        "Analyze Gauss": gauss,
        "Analyze Gauss, scaled": gauss + lifted * eye,
        "JL": wishart(gram + ridge_of(constants, FEW) * eye, FEW, noise) / FEW,
        "Wishart": noisy,
        "Wishart, scaled": lowered,
        "inverse-Wishart": _posterior(gram, FEW, constants, noise),
    }
    if constants == "paper":
        found[POSTERIOR] = _posterior(gram, rows + WIDTH, constants, noise)
    else:
        ridge = ridge_of(constants, MANY_ROWS)
        found[EXACT_ONLY] = _without(ridge, MANY_ROWS, wishart(gram + ridge * eye, MANY_ROWS, noise) / MANY_ROWS)
    return found


def _posterior(gram: np.ndarray, degrees: int, constants: str, noise: ExperimentNoise) -> np.ndarray:
    """In units of AᵀA: times what its mean is divided by."""
    eye, ridge = np.eye(WIDTH), ridge_of(constants, degrees)
    drawn = inverse_wishart(gram + ridge * eye, degrees, noise) * (degrees - WIDTH - 1)
    return _without(ridge, degrees - WIDTH - 3, drawn) if constants == "exact" else drawn


def _without(ridge: float, degrees: float, drawn: np.ndarray) -> np.ndarray:
    """Less its ridge; if that is not positive definite, with the mean norm of its noise, as scaled Analyze Gauss has."""
    lowered = drawn - ridge * np.eye(WIDTH)
    if np.linalg.eigvalsh(lowered)[0] > 0:
        return lowered
    return lowered + expected_norm(SamplingNoise(degrees, ridge), WIDTH, True) * np.eye(WIDTH)


def formula(extra: int) -> str:
    names = list(BOUNDS)
    return f"y0 ~ {' + '.join(names[i] for i in features(extra))} - 1"


def to_scaled(gram: np.ndarray, rows: int) -> np.ndarray:
    """The same in dpspark's scaled coordinates, intercept first; the means of such columns are as good as 0."""
    scaled = np.zeros((WIDTH + 1, WIDTH + 1))
    scaled[0, 0] = rows
    scaled[1:, 1:] = gram / np.outer(HALVES, HALVES)
    return scaled


def dpspark_errors(releases: Releases, betas: np.ndarray, noise: ExperimentNoise) -> dict[int, float]:
    """By m, of one release: least squares where it is identified, else `repair: ridge`; where that fails too, β = 0."""
    release, found = releases.draw(noise), {}
    for extra in EXTRA:
        fit = release.regress(formula(extra))
        if fit.status != "OK":
            fit = release.regress(formula(extra), repair="ridge")
        estimates = np.array(list(fit.params.values())) if fit.status == "OK" else np.zeros(len(features(extra)))
        found[extra] = error(estimates, betas, extra)
    return found


def summary(errors: list[float]) -> dict[str, float]:
    low, middle, high = np.quantile(errors, [0.25, 0.5, 0.75])
    return {"low": float(low), "median": float(middle), "high": float(high), "mean": float(np.mean(errors))}
