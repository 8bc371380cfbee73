"""The noisy sums of one regression as a table: written by a release, read by whoever has it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from dpspark.bundle.schemas import CLIP, LEAST_EIGENVALUE, RESIDUAL, START, STATISTICS_SCHEMA
from dpspark.mechanisms.regression.refinement import RefinedNoise, Refinement
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise


def statistics_table(terms: tuple[str, ...], noisy: NoisyStatistics) -> pa.Table:
    """Write the sums, each with the standard deviation of its noise."""
    noise, regressors = noisy.noise, terms[:-1]
    rows: list[tuple[str, str, float, float | None]] = []
    for i, row in enumerate(regressors):
        for j, col in enumerate(regressors):
            std = noise.diagonal_std if i == j else noise.off_diagonal_std
            public = i == j == 0 and noise.count_is_exact
            rows.append((row, col, float(noisy.squares[i, j]), 0.0 if public else std))
        rows.append((row, terms[-1], float(noisy.cross[i]), noise.cross_std))
    if noisy.response is not None:
        rows.append((terms[-1], terms[-1], noisy.response, noise.response_std))
    if noisy.least_eigenvalue is not None:
        rows.append((LEAST_EIGENVALUE, LEAST_EIGENVALUE, noisy.least_eigenvalue, noise.least_eigenvalue_std))
    if noisy.refinement is not None:
        rows += _refinement_rows(regressors, noisy.refinement)
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=STATISTICS_SCHEMA)


def _refinement_rows(regressors: tuple[str, ...], found: Refinement) -> list[tuple[str, str, float, float | None]]:
    """The start and the clip are as they were used: they have no noise beyond that of what they come from."""
    start = zip(regressors, found.start.tolist(), strict=True)
    cross = zip(regressors, found.cross.tolist(), strict=True)
    return [
        *((START, term, value, 0.0) for term, value in start),
        (CLIP, CLIP, found.clip, 0.0),
        *((RESIDUAL, term, value, found.cross_std) for term, value in cross),
        (RESIDUAL, RESIDUAL, found.response, found.response_std),
    ]


def read_statistics(table: pa.Table, terms: tuple[str, ...], noise: StatisticsNoise) -> NoisyStatistics:
    """Read them again; the noise is the manifest's."""
    found = {(row["row"], row["col"]): row["value"] for row in table.to_pylist()}
    regressors, response = terms[:-1], terms[-1]
    return NoisyStatistics(
        np.array([[found[row, col] for col in regressors] for row in regressors]),
        np.array([found[row, response] for row in regressors]),
        found.get((response, response)),
        found.get((LEAST_EIGENVALUE, LEAST_EIGENVALUE)),
        noise,
        refinement=_read_refinement(found, regressors, noise) if isinstance(noise, RefinedNoise) else None,
    )


def _read_refinement(
    found: dict[tuple[str, str], float], regressors: tuple[str, ...], noise: RefinedNoise
) -> Refinement:
    clip = found[CLIP, CLIP]
    if not 0 < clip < math.inf:
        raise ValueError("no clip")
    start, cross = (np.array([found[name, term] for term in regressors]) for name in (START, RESIDUAL))
    return Refinement(start, clip, cross, found[RESIDUAL, RESIDUAL], noise)
