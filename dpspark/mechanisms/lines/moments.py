"""Noise on the 3×3 second moments of a group, and least squares from them, with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Literal

import numpy as np

from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, Status, line_fit, no_fit
from dpspark.mechanisms.lines.sufficient import exact_sum
from dpspark.privacy.keyed import KeyedRandom, Stream

WEAK = 2.0  # κ: below this, least squares on noisy moments has no useful interval


@dataclass(frozen=True)
class MomentsLine:
    """Σ zzᵀ of z = (1, x, y), x and y in [-1, 1], with noise on its upper triangle; then least squares.

    Privacy
        Unit         one record: its rows are added, removed or replaced (calibrate says which), in one group or several
        Requires     rows inside the plane's bounds
        Sensitivity  sensitivity.second_moment or moved_moment (gaussian), second_moment_l1 (laplace)
        Guarantee    gaussian: mu = sensitivity / sigma, by the routes of mechanisms.gaussian, or rho; laplace: pure
        Source       as mechanisms.gaussian and mechanisms.laplace; intervals as regression.ols
        Public       bounds, the noise's scale; the number of rows only if `public_rows`
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_moments.py
    """

    plane: Plane
    law: Literal["gaussian", "laplace"]
    diagonal: float  # scale of the noise (sigma, or Laplace's) in units of 1.0
    off_diagonal: float
    public_rows: bool
    level: float = 0.95

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows = self.plane.rows(x, y)
        return self.solve(self.noisy(rows, random.stream("draws", *labels)))

    def noisy(self, rows: Rows, stream: Stream) -> np.ndarray:
        """The released matrix, in units of 1.0."""
        one = FINE
        right, up = 2 * rows.x - FINE, 2 * rows.y - FINE
        exact = {
            (0, 0): len(rows) * one * one,
            (0, 1): int(right.sum()) * one,
            (0, 2): int(up.sum()) * one,
            (1, 1): exact_sum(right * right),
            (1, 2): exact_sum(right * up),
            (2, 2): exact_sum(up * up),
        }
        result = np.empty((3, 3))
        for (i, j), value in exact.items():
            scale = Fraction(self.diagonal if i == j else self.off_diagonal) * one * one
            if not (self.public_rows and i == j == 0):
                draw = stream.discrete_gaussian if self.law == "gaussian" else stream.discrete_laplace
                value += draw(scale)
            result[i, j] = result[j, i] = value / (one * one)
        return result

    def solve(self, moments: np.ndarray) -> SimpleFit:
        """Least squares, and intervals with the noise in them. Post-processing: no cost."""
        squares, cross = moments[:2, :2], moments[:2, 2]
        smallest = float(np.linalg.eigvalsh(squares)[0])
        diagonal, off = (self.std(part) for part in (self.diagonal, self.off_diagonal))
        strength = smallest / (2 * off * math.sqrt(2))
        if not strength > 0.1:  # not even the sign of a determinant is sure
            return no_fit(self.plane)
        inverse = np.linalg.inv(squares)
        beta = inverse @ cross
        low, high = self.plane.candidate_range
        anchors = self.plane.joint_anchors
        ends = [(float(beta @ (1, 2 * anchor - 1)) + 1) / 2 for anchor in anchors]
        inside = tuple(min(max(end, low), high) for end in ends)
        status: Status = "ok" if strength >= WEAK and moments[0, 0] > 2 else "weakly_identified"
        half = self._half_widths(moments, beta, inverse, diagonal, off) if status == "ok" else None
        return line_fit(self.plane, anchors, inside, status, half)

    def std(self, scale: float) -> float:
        return scale if self.law == "gaussian" else math.sqrt(2) * scale

    def _half_widths(
        self, moments: np.ndarray, beta: np.ndarray, inverse: np.ndarray, diagonal: float, off: float
    ) -> tuple[float, ...]:
        """As in regression.ols: Var(β̃) = σ̂²H + HΩH, with σ̂² = (RSS + tr(HΩ))/(n − 2)."""
        noise = off**2 * ((1 + beta @ beta) * np.eye(2) + np.outer(beta, beta))
        noise += (diagonal**2 - 2 * off**2) * np.diag(beta**2)
        if self.public_rows:
            noise[0, 0] -= diagonal**2 * beta[0] ** 2
        rss = moments[2, 2] - 2 * beta @ moments[:2, 2] + beta @ moments[:2, :2] @ beta
        variance = max(0.0, (rss + np.trace(inverse @ noise)) / (moments[0, 0] - 2))
        covariance = variance * inverse + inverse @ noise @ inverse
        z = NormalDist().inv_cdf((1 + self.level) / 2)
        x_low, x_high = self.plane.x_bounds
        at = [np.array([1.0, 2 * (cut - x_low) / (x_high - x_low) - 1]) for cut in self.plane.wanted]
        return tuple(z * math.sqrt(max(0.0, float(c @ covariance @ c))) / 2 for c in at)
