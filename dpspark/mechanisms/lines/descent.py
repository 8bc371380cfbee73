"""DPGradDescent: gradient descent on a line's two values, with noise in every gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from dpspark.core.domain import Clip
from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, line_fit
from dpspark.privacy.keyed import KeyedRandom, Stream

UNIT = 1 << 20  # steps of 1.0 of a gradient's coordinates
STRIDE = 0.35  # of the first step, in units of the candidates' range


@dataclass(frozen=True)
class DescentLine:
    """`steps` times: each record's gradient clipped, summed exactly, noise added, the two values moved.

    Privacy
        Unit         one record: its rows are added, removed or replaced (calibrate says which), in one group or several
        Requires     each record's gradient clipped, then cut to whole steps towards 0
        Sensitivity  sensitivity.clipped_gradient, of one step; a record that moves between groups counts as replaced
        Guarantee    gaussian: mu = √steps·sensitivity / scale, or rho; laplace: epsilon = steps·sensitivity / scale, pure
        Source       Alabi et al., Differentially Private Simple Linear Regression, DPGradDescent
        Public       bounds, anchors, steps, clip, scale; never the number of rows
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_moments.py
    """

    plane: Plane
    law: Literal["gaussian", "laplace"]
    scale: float  # of the noise in each coordinate and step, in units of 1.0
    clip: Clip
    steps: int = 20

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows, stream = self.plane.rows(x, y), random.stream("draws", *labels)
        low, high = self.plane.candidate_range
        values = np.full(2, (low + high) / 2)
        seen, kept = 0.0, []
        for step in range(self.steps):
            noisy = self.noisy_gradient(rows, values, stream)
            seen += float(noisy @ noisy)
            # AdaGrad with one length for both (Ward, Wu & Bottou, 2020): it needs no number of rows.
            stride = STRIDE * (high - low) / math.sqrt(seen) if seen > 0 else 0.0
            values = np.clip(values - stride * noisy, low, high)
            if step >= self.steps // 2:
                kept.append(values)
        mean = np.mean(kept, axis=0)
        return line_fit(self.plane, self.plane.joint_anchors, (float(mean[0]), float(mean[1])))

    def noisy_gradient(self, rows: Rows, values: np.ndarray, stream: Stream) -> np.ndarray:
        draw = stream.discrete_gaussian if self.law == "gaussian" else stream.discrete_laplace
        scale = Fraction(self.scale) * UNIT
        return np.array([(total + draw(scale)) / UNIT for total in clipped_gradient_sum(self, rows, values)])


def clipped_gradient_sum(of: DescentLine, rows: Rows, values: np.ndarray) -> list[int]:
    """In whole steps. Elementwise arithmetic, so that a record's gradient does not depend on the others."""
    first, last = of.plane.joint_anchors
    share = (rows.x / FINE - first) / (last - first)
    weights = np.stack([1 - share, share])
    residual = values[0] * weights[0] + values[1] * weights[1] - rows.y / FINE
    gradient = weights * residual * UNIT
    most = of.clip.size * UNIT
    if of.clip.shape == "box":
        gradient = np.clip(gradient, -most, most)
    else:
        size = np.sqrt(gradient[0] ** 2 + gradient[1] ** 2)
        gradient = gradient * np.minimum(1.0, most * (1 - 2.0**-48) / np.maximum(size, 1.0))
    return [int(part.sum()) for part in np.trunc(gradient).astype(np.int64)]
