"""What the audits share: rows through the real bounding code, and the delta that two samples show."""

from __future__ import annotations

import math

import numpy as np

from dpspark.audit.tables import bounded_rows as bounded
from dpspark.audit.tables import gram_of

__all__ = ["bounded", "gram_of", "shown_delta"]


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
