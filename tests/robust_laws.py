"""What the audits of line mechanisms share: exact laws, and neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import stats

from dpspark.audit.attacks import epsilon_bound
from dpspark.mechanisms.lines.depth import DepthLine, line_depths
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.huber import UNIT, HuberLine
from dpspark.privacy.keyed import KeyedRandom

RANDOM = KeyedRandom(bytes(range(32)))
Data = tuple[np.ndarray, np.ndarray]


def edge_law(mechanism: ExponentialTheilSen, values: np.ndarray, exponent: float | None = None) -> np.ndarray:
    """The probability of every edge, from the mechanism's own runs."""
    _, sizes, losses = mechanism.runs(values)
    gamma = mechanism.exponent if exponent is None else exponent
    weights = np.exp(-gamma * np.repeat(losses - losses.min(), sizes))
    return weights / weights.sum()


def line_law(kernel: DepthLine | HuberLine, data: Data, exponent: float | None = None) -> np.ndarray:
    """The log probability of every line."""
    rows = kernel.grid.plane.rows(*data)
    gamma = kernel.exponent if exponent is None else exponent
    if isinstance(kernel, DepthLine):
        logs = gamma * line_depths(kernel.grid, rows).astype(float)
    else:
        logs = -gamma * kernel.scores(rows) / (kernel.clip_steps * UNIT)
    logs -= logs.max()
    return logs - math.log(np.exp(logs).sum())


def loss(one: np.ndarray, other: np.ndarray) -> float:
    """The largest log ratio of two laws."""
    return float(abs(np.log(one) - np.log(other)).max())


def added(data: Data, new: tuple[float, float]) -> Data:
    return np.append(data[0], new[0]), np.append(data[1], new[1])


def replaced(data: Data, at: int, new: tuple[float, float]) -> Data:
    x, y = data[0].copy(), data[1].copy()
    x[at], y[at] = new
    return x, y


def small_data(seed: int, count: int, most: int = 9) -> Iterator[tuple[Data, tuple[float, float], int]]:
    """Data with ties and corners, a new record, and which one it replaces."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(1, most))
        pick = [rng.choice([0, 0.25, 0.5, 0.75, 1.0, *rng.random(3)], n + 1) for _ in range(2)]
        yield (pick[0][:n], pick[1][:n]), (float(pick[0][n]), float(pick[1][n])), int(rng.integers(n))


def lower_bound(hits: tuple[int, int], n: int) -> float:
    """An epsilon that an event shows, at 99.9% confidence (Clopper & Pearson)."""
    return float(epsilon_bound(max(hits), n, min(hits), n, 0.0, 0.999))


def chi_squared(observed: np.ndarray, chances: np.ndarray) -> float:
    """p-value; rare outcomes together."""
    expected = observed.sum() * chances
    rare = expected < 5
    seen, wanted = (np.append(part[~rare], part[rare].sum()) for part in (observed, expected))
    keep = wanted > 0
    return float(stats.chisquare(seen[keep], wanted[keep] * seen.sum() / wanted[keep].sum()).pvalue)
