"""Parametric bootstrap of a regression: fresh sampling error and fresh privacy noise around the fit. No cost.

After Ferrando, Wang & Sheldon (2022): with G the released matrix of the regressors and γ the estimates,
γ* = (G + E*)⁻¹ (Gγ + η* + e*), where η* ~ N(0, σ²G) and (E*, e*) is drawn like the release's own noise.
"""

from __future__ import annotations

import numpy as np

from dpspark.analysis.ols import Moments, directions, fit_scaled
from dpspark.core.formula import Formula
from dpspark.mechanisms.gram.simulated import draw_noise
from dpspark.show.progress import Loop, tell

REPLICATES = 2000
LARGEST_CHUNK = 1 << 22  # numbers of noise in memory at once


def replicates(moments: Moments, formula: Formula, seed: int, count: int = REPLICATES) -> np.ndarray:
    """Bootstrap estimates in original units, a row each. The same seed gives the same ones."""
    regressors, response, to_original, shift = directions(moments, formula)
    gamma, _, _, residual = fit_scaled(moments, regressors, response)
    both = np.column_stack([regressors, response])
    used = np.flatnonzero(np.abs(both).sum(axis=1))  # noise elsewhere has no effect
    x, y, block = regressors[used], response[used], moments.scaled[np.ix_(used, used)]
    matrix = x.T @ block @ x
    root = np.linalg.cholesky(residual / (moments.rows - len(gamma)) * matrix)
    rng, left = np.random.default_rng(seed), moments.noise.only(used.tolist())
    found = []
    at_once = max(1, LARGEST_CHUNK // len(used) ** 2)
    for done in range(0, count, at_once):
        size = min(at_once, count - done)
        noise = draw_noise(left, block, bool(used[0] == 0), rng, size)
        sampling = rng.standard_normal((size, len(gamma))) @ root.T
        right = matrix @ gamma + sampling + (noise @ y) @ x
        found.append(np.linalg.solve(matrix + x.T @ noise @ x, right[:, :, None])[:, :, 0])
        tell(Loop("replicates", done + size, count))
    return np.concatenate(found) @ to_original.T + shift


def basic_interval(estimates: np.ndarray, drawn: np.ndarray, level: float) -> np.ndarray:
    """(low, high) for each estimate: reflecting the replicates takes off the bias that they show."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.column_stack([2 * estimates - high, 2 * estimates - low])
