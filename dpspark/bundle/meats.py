"""The meats of regressions as tables: written by a release, read by whoever has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.bundle.schemas import MEAT_SCHEMA
from dpspark.core.domain import Domain
from dpspark.core.scores import ScoreAxes
from dpspark.mechanisms.errors.asked import CLUSTER, AskedRegression
from dpspark.mechanisms.errors.meat import NoisyMeat
from dpspark.mechanisms.errors.score_map import ScoreMap, ScoreNoise
from dpspark.mechanisms.gram.coordinates import centre_and_scale, congruence_of
from dpspark.mechanisms.gram.noisy import AdditiveNoise


def meat_tables(
    domain: Domain,
    regressions: Sequence[AskedRegression],
    noisy: Sequence[NoisyMeat],
    squares: Sequence[np.ndarray],
    squares_noise: AdditiveNoise,
) -> dict[str, pa.Table]:
    """Write M = M' + (R²/2)·Σ x xᵀ, of released matrices alone: in original units, and in scaled ones. Of clusters R is 0."""
    scaled, original = [], []
    for one, meat, square in zip(regressions, noisy, squares, strict=True):
        matrix = meat.matrix + meat.clip**2 / 2 * square
        stds = scaled_std(len(matrix), meat.noise, meat.clip, squares_noise)
        scaled.append(_table(one, domain, matrix, stds))
        back = back_of(domain, one)
        values = back @ matrix @ back.T * response_half(domain, one) ** 2
        values = np.triu(values) + np.triu(values, 1).T
        original.append(_table(one, domain, values, original_std(domain, one, meat.noise, meat.clip, squares_noise)))
    return {"meat": pa.concat_tables(original), "scaled_meat": pa.concat_tables(scaled)}


def meat_laws(
    mechanism: Mapping[str, Any], domain: Domain, regressions: Sequence[AskedRegression]
) -> list[tuple[AdditiveNoise | ScoreNoise, float]]:
    """Read the noise of each regression's meat, and the clip R whose R²/2 times Σ x xᵀ was added to it: 0 for clusters."""
    facts, clips = mechanism["errors"], mechanism["residual_clips"]
    if facts["kind"] != CLUSTER:
        halves = [(one, clip, clip**2 / 2) for one, clip in zip(facts["regressions"], clips, strict=True)]
        return [
            (AdditiveNoise(o["diagonal_std"] * half, o["off_diagonal_std"] * half), clip) for o, clip, half in halves
        ]
    stds = [
        one["diagonal_std"] * unit for one, unit in zip(facts["regressions"], mechanism["score_units"], strict=True)
    ]
    maps = score_maps(mechanism, domain, regressions)
    return [(ScoreNoise(std, one.back), 0.0) for std, one in zip(stds, maps, strict=True)]


def score_maps(mechanism: Mapping[str, Any], domain: Domain, regressions: Sequence[AskedRegression]) -> list[ScoreMap]:
    """Read the way of each regression's clusters from their scores to its terms."""
    told = (mechanism[key] for key in ("score_shifts", "score_scales", "residual_clips", "score_radii"))
    found = []
    for one, shifts, scales, clip, radius in zip(regressions, *told, strict=True):
        regressors = one.regressors(domain)
        if not len(shifts) == len(scales) == regressors.width:
            raise ValueError("other axes than the regression has")
        found.append(ScoreMap(ScoreAxes(regressors, tuple(shifts)), tuple(scales), clip, radius))
    return found


def scaled_std(width: int, noise: AdditiveNoise | ScoreNoise, clip: float, squares_noise: AdditiveNoise) -> np.ndarray:
    """Compute the standard deviation of each entry's noise: the meat's own, and that of the matrix which is added to it."""
    middle, half = np.zeros(width), np.ones(width)
    middle[0], half[0] = 1.0, 0.0
    return _both(noise, clip, squares_noise, middle, half)


def original_std(
    domain: Domain, one: AskedRegression, noise: AdditiveNoise | ScoreNoise, clip: float, squares_noise: AdditiveNoise
) -> np.ndarray:
    """Compute the same in original units."""
    regressors, unit = one.regressors(domain), response_half(domain, one) ** 2
    if not regressors.products:
        return _both(noise, clip, squares_noise, *centre_and_scale(regressors)) * unit
    assert isinstance(noise, AdditiveNoise)  # clusters have no blocks of products
    zeros = np.zeros((regressors.width, regressors.width))
    own, added = (each.entry_std(regressors, zeros) for each in (noise, squares_noise))
    return np.hypot(own, clip**2 / 2 * added) * unit


def _both(
    noise: AdditiveNoise | ScoreNoise, clip: float, squares_noise: AdditiveNoise, middle: np.ndarray, half: np.ndarray
) -> np.ndarray:
    own = noise.congruence_std(middle, half)
    return np.hypot(own, clip**2 / 2 * squares_noise.congruence_std(middle, half))


def back_of(domain: Domain, one: AskedRegression) -> np.ndarray:
    """T with (1, x) = T z, of a regression's own terms."""
    return congruence_of(one.regressors(domain))


def response_half(domain: Domain, one: AskedRegression) -> float:
    """Half of the range of a regression's response: residuals are in units of it."""
    return float(centre_and_scale(domain)[1][domain.terms.index(one.formula.response)])


def read_matrices(table: pa.Table) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Read the matrices of a table by regression, each with its terms, in their order."""
    found: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    names = table["regression"].to_pylist()
    for name in dict.fromkeys(names):
        at = [i for i, other in enumerate(names) if other == name]
        part = table.take(pa.array(at))
        terms = tuple(dict.fromkeys(part["row"].to_pylist()))
        matrix = part["value"].to_numpy().reshape(len(terms), len(terms))
        found[name] = terms, matrix
    return found


def _table(one: AskedRegression, domain: Domain, matrix: np.ndarray, stds: np.ndarray) -> pa.Table:
    terms = one.terms(domain)
    rows, names = [term for term in terms for _ in terms], [one.text] * len(terms) ** 2
    return pa.table([names, rows, list(terms) * len(terms), matrix.ravel(), stds.ravel()], schema=MEAT_SCHEMA)
