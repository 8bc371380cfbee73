"""The noisy sums of one regression as a table: written by a release, read by whoever has it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dpspark.bundle.schemas import LEAST_EIGENVALUE, STATISTICS_SCHEMA
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
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=STATISTICS_SCHEMA)


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
    )
