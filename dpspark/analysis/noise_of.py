"""How far the privacy noise moves a number that is computed from a matrix. Post-processing: no cost.

To first order such a number moves by tr(A E), E the noise and A its derivative. The law of E says Var(aᵀ E b) for any two
directions; as uᵀEu − vᵀEv = (u + v)ᵀ E (u − v), it gives the covariances of all uᵀEu, and so the variance of tr(A E).
"""

from __future__ import annotations

import math

import numpy as np

from dpspark.analysis.ols import Moments


def noise_of(moments: Moments, derivative: np.ndarray) -> float:
    """Compute the standard deviation of tr(A E), A symmetric in scaled coordinates."""
    values, vectors = np.linalg.eigh((derivative + derivative.T) / 2)
    large = np.abs(values) > 1e-12 * np.max(np.abs(values), initial=0.0)
    values, vectors = values[large], vectors[:, large]
    own = [_variance(moments, u, u) for u in vectors.T]
    total = float(sum(value**2 * one for value, one in zip(values, own, strict=True)))
    for i in range(len(values)):
        for j in range(i):
            u, v = vectors[:, i], vectors[:, j]
            apart = _variance(moments, u + v, u - v)
            total += float(values[i] * values[j] * (own[i] + own[j] - apart))
    return math.sqrt(max(0.0, total))


def _variance(moments: Moments, a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ moments.noise.along(b, moments.scaled) @ a)
