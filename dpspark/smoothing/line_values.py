"""Lines of many groups, as noisy values of what the mechanism aims at."""

from __future__ import annotations

import numpy as np

from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import Plane
from dpspark.smoothing.between import positive
from dpspark.smoothing.counts import averaged, likely_rows
from dpspark.smoothing.model import Areas
from dpspark.smoothing.problem import RowsOfGroups
from dpspark.smoothing.simulation import DRAWS, Law, density, simulate_noise

# Of the simulated covariance. Groups are taken to be as unlike in their rows as those of a survey; where they are more
# alike, it is a seventh or more too large, and not by as much at each cut.
NOISE_ERROR = 0.15


def line_areas(
    values: np.ndarray,
    rows: np.ndarray,
    rows_std: float,
    design: np.ndarray,
    kernel: Kernel,
    plane: Plane,
    law: Law,
    seed: bytes,
    slope: float = 0.0,
    draws: int = DRAWS,
    offsets: bool = False,
) -> tuple[Areas, RowsOfGroups]:
    """Say what noise is in the groups' lines, and what is known of their rows.

    `values` are the groups' lines at the anchors in units of y's bounds, `rows` their noisy numbers of rows.
    """
    likely = likely_rows(rows, rows_std)
    line, scatter = _pooled(values, likely.mean(axis=1))
    noise = simulate_noise(kernel, plane, law, line, scatter, likely.mean(axis=1), seed, slope, draws, offsets)
    covariance, wild = averaged(noise, likely)
    areas = Areas(values, covariance, design, NOISE_ERROR, wild, density(plane))
    return areas, RowsOfGroups(rows, rows_std, likely, noise)


def _pooled(values: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The middle of the lines of larger groups, and how these scatter: not less than the groups truly do."""
    there = np.isfinite(values).all(axis=1)
    large = there & (rows >= np.median(rows[there]))
    middle = np.median(values[large], axis=0)
    scatter = np.median(abs(values[large] - middle), axis=0) * 1.4826
    least = 0.02
    correlation = np.corrcoef(values[large].T) if values.shape[1] > 1 and large.sum() > 3 else np.eye(values.shape[1])
    size = np.clip(scatter, least, 0.15)
    return np.clip(middle, 0.02, 0.98), positive(np.outer(size, size) * np.nan_to_num(correlation, nan=0.0))
