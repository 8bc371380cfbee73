"""Two kernels with the errors of Alabi et al. left in. Neither is private: for comparison alone."""

from __future__ import annotations

import decimal
from dataclasses import dataclass, fields

import numpy as np

from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import FINE, Rows
from dpspark.mechanisms.lines.smooth_sensitivity import SmoothTheilSen, order_statistics
from dpspark.mechanisms.lines.sufficient_statistics import SufficientStatistics
from dpspark.privacy.keyed import Stream


def short_maximum(kernel: Kernel) -> Kernel:
    assert isinstance(kernel, SmoothTheilSen)
    return _ShortMaximum(**{field.name: getattr(kernel, field.name) for field in fields(kernel)})


def exact_means(kernel: Kernel) -> Kernel:
    assert isinstance(kernel, SufficientStatistics)
    return _ExactMeans(**{field.name: getattr(kernel, field.name) for field in fields(kernel)})


@dataclass(frozen=True)
class _ShortMaximum(SmoothTheilSen):
    """The code of the paper takes the inner maximum over t = 0 and q where no other record changes, else over t = 0 to q − 1;
    it is over t = 0 to q."""

    def sensitivity(self, values: np.ndarray) -> decimal.Decimal:
        middle, best = (len(values) - 1) // 2, 0.0
        for others in range(len(values) // self.per_record + 2):
            factor = np.exp(-self.decay * others)
            if factor * self.cells <= best:
                break
            q = (others + 1) * self.per_record
            t = np.arange(q) if others else np.array([0, q])
            upper = order_statistics(values, middle + t, self.cells)
            lower = order_statistics(values, middle + t - q, self.cells)
            best = max(best, float(factor * (upper - lower).max()))
        return decimal.Decimal(best)


@dataclass(frozen=True)
class _ExactMeans(SufficientStatistics):
    """The slides have noise in the slope only."""

    def level(self, rows: Rows, slope: float | None, stream: Stream) -> float | None:
        return float(rows.y.mean() + (slope or 0.0) * (FINE / 2 - rows.x.mean())) / FINE if len(rows) else None
