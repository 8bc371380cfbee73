"""What the audits share: rows through the real bounding code, and the delta that two samples show."""

from __future__ import annotations

import math

import numpy as np

from dpspark.audit.tables import bounded_rows as bounded
from dpspark.audit.tables import gram_of
from dpspark.privacy.noise import OpenDPNoise

__all__ = ["SeededNoise", "bounded", "gram_of", "shown_delta"]


class SeededNoise(OpenDPNoise):
    """Rounded draws from the test's own stream: the same outcome every time. OpenDP's are tested in test_gaussian.py."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return [round(value) for value in self.rng.normal(0, sigma, count).tolist()]

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        return [round(value) for value in self.rng.laplace(0, scale, count).tolist()]

    def uniforms(self, count: int) -> np.ndarray:
        return self.rng.uniform(1e-12, 1 - 1e-12, count)

    def secret(self) -> bytes:
        return self.rng.bytes(32)


def shown_delta(epsilon: float, one: np.ndarray, other: np.ndarray) -> float:
    """The largest P(event) − e^epsilon·P'(event) over events `statistic beyond an edge`, both ways."""
    edges = np.quantile(np.concatenate([one, other]), np.linspace(0.002, 0.998, 499))
    worst = 0.0
    for p, q in ((one, other), (other, one)):
        p, q = np.sort(p), np.sort(q)
        below_p, below_q = np.searchsorted(p, edges) / len(p), np.searchsorted(q, edges) / len(q)
        for past_p, past_q in ((below_p, below_q), (1 - below_p, 1 - below_q)):
            worst = max(worst, float((past_p - math.exp(epsilon) * past_q).max()))
    return worst
