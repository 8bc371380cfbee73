"""What the audits share: rows through the real bounding code, and the delta that two samples show."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from dpspark.data.bounds import grid_rows, plain_values, settle_nulls
from dpspark.data.domain import Domain
from dpspark.data.fixed_point import ExactGram, GramAccumulator
from dpspark.privacy.noise import OpenDPNoise


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


def bounded(domain: Domain, raw: list[list[object]]) -> np.ndarray:
    """Rows as they are summed, in units of 1.0: one a row."""
    out = np.empty((domain.width, len(raw)))
    columns = [plain_values(c, pa.array(list(v))) for c, v in zip(domain.columns, zip(*raw, strict=True), strict=True)]
    grid_rows(domain, columns, out)
    settle_nulls(domain, out)
    return out.T / domain.one


def gram_of(domain: Domain, raw: list[list[object]]) -> ExactGram:
    accumulator = GramAccumulator(domain)
    if raw:
        accumulator.add([pa.array(list(values)) for values in zip(*raw, strict=True)], len(raw))
    return ExactGram.from_partials(domain, [accumulator.finish()])


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
