"""Exact sums of clipped gradients of least squares: whole numbers, the same for any partitioning.

Each row's gradient is computed, clipped and rounded by itself, in elementwise arithmetic of a fixed order, so that one
record changes one row's numbers and no other's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from dpspark.core.domain import Clip, Domain
from dpspark.exact.bounds import grid_rows, plain_values, settle_nulls, shorten

GRADIENT_BITS = 20  # the grid of a gradient's coordinates
BLOCK_ROWS = 8192


class GradientAccumulator:
    """An accumulator of Σ x (x·θ − y), each row's clipped."""

    def __init__(self, domain: Domain, theta: np.ndarray, clip: Clip):
        self.domain, self.theta, self.clip = domain, theta, clip
        self._sum = [0] * (domain.width - 1)

    def add(self, columns: Sequence[Any], rows: int) -> None:
        ready = [
            values if isinstance(values, np.ndarray) else plain_values(column, values)
            for column, values in zip(self.domain.columns, columns, strict=True)
        ]
        for start in range(0, rows, BLOCK_ROWS):
            part = [values[start : start + BLOCK_ROWS] for values in ready]
            block = np.empty((self.domain.width, min(BLOCK_ROWS, rows - start)))
            grid_rows(self.domain, part, block)
            settle_nulls(self.domain, block)
            steps = _clipped_gradients(block / self.domain.one, self.theta, self.clip)
            # Whole numbers far below 2^53: float64 adds them exactly in any order.
            for i, total in enumerate(steps.sum(axis=1).tolist()):
                self._sum[i] += int(total)

    def finish(self) -> bytes:
        return np.array(self._sum, dtype="<i8").tobytes()


def _clipped_gradients(rows: np.ndarray, theta: np.ndarray, clip: Clip) -> np.ndarray:
    """Compute each row's clipped gradient, one column a row, in whole steps of the gradient's grid."""
    residual = -rows[-1]
    for x, coefficient in zip(rows[:-1], theta.tolist(), strict=True):
        residual = residual + coefficient * x  # not a matrix product: its rounding depends on the other rows
    unit = 2.0**GRADIENT_BITS
    gradient = rows[:-1] * residual * unit
    if clip.shape == "box":
        most = math.floor(clip.size * unit)
        return np.rint(np.clip(gradient, -most, most))
    shorten("cap", clip.size * unit, gradient)
    return np.rint(gradient)


class ExactGradient:
    """A sum of clipped gradients in grid steps. Only a mechanism may look inside."""

    def __init__(self, steps: Sequence[int]):
        self._steps = list(steps)

    def reveal(self) -> list[int]:
        """Return the sum. For mechanisms and tests."""
        return list(self._steps)

    def __repr__(self) -> str:
        return f"ExactGradient({len(self._steps)} coordinates, not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ExactGradient is private: release it through a mechanism")


def merge_gradients(payloads: Iterable[bytes], width: int) -> bytes:
    total = np.zeros(width, dtype=np.int64)
    for payload in payloads:
        total += np.frombuffer(payload, dtype="<i8")
    return total.astype("<i8").tobytes()
