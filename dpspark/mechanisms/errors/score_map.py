"""The way from clusters' weighted scores back to the terms of a regression, and the noise that a meat has on this way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpspark.core.domain import SCORE_STEPS, Domain
from dpspark.core.scores import SHIFT_STEPS, ScoreAxes
from dpspark.mechanisms.gram.coordinates import back_transform
from dpspark.privacy.sensitivity import row_score

LEAST_SCALE, LARGEST_SCALE = SCORE_STEPS >> 8, 1 << 40  # of an axis, in steps


@dataclass(frozen=True)
class ScoreNoise:
    """Symmetric noise B E Bᵀ on a meat: E has N(0, std²) on the diagonal and half of that variance off it."""

    std: float
    back: np.ndarray  # B: from weighted scores to terms, in scaled coordinates

    def along(self, w: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        """Compute Cov(N w): of such noise, Cov(E v) = std²/2·(‖v‖²·I + v·vᵀ)."""
        v = self.back.T @ w
        return self.std**2 / 2 * self.back @ (float(v @ v) * np.eye(len(v)) + np.outer(v, v)) @ self.back.T

    def congruence_std(self, middle: np.ndarray, half: np.ndarray) -> np.ndarray:
        """Compute the standard deviation of each entry after a map to terms with these middles and half-ranges."""
        rows = back_transform(middle, half) @ self.back
        products = rows @ rows.T
        return self.std * np.sqrt((np.outer(np.diag(products), np.diag(products)) + products**2) / 2)


@dataclass(frozen=True)
class ScoreMap:
    """All that is public of a regression's scores, once it is drawn: axes, scales, the clip R and the bound C."""

    axes: ScoreAxes
    scales: tuple[int, ...]
    clip: float
    radius: int

    @property
    def score(self) -> float:
        """The most that a row's weighted score can be, in steps."""
        return weighted_score(self.axes, self.scales)

    @property
    def back(self) -> np.ndarray:
        """B: from shortened scores, in units of C, to Σ x·r in scaled coordinates."""
        sizes = np.array(self.scales, dtype=float) * np.array(self.axes.extents)
        found = np.diag(sizes * (self.clip * self.radius / SCORE_STEPS**2))
        found[1:, 0] += np.array(self.axes.means[1:]) * found[0, 0]
        return found


def weighted_score(axes: ScoreAxes, scales: Sequence[int]) -> float:
    """The most that a row's score can be, in steps, where each axis is in units of its scale."""
    return row_score(axes, [SCORE_STEPS / scale for scale in scales])


def axes_of(regressors: Domain, squares: np.ndarray) -> ScoreAxes:
    """Choose axes by a released matrix of a regression's terms: near the mean of each, as far as it is known."""
    count = float(squares[0, 0])
    means = np.clip(squares[0] / count, -1.0, 1.0) if count > 0 else np.zeros(len(squares))
    shifts = [0, *np.rint(means[1:] * SHIFT_STEPS).astype(int).tolist()]
    axes = ScoreAxes(regressors, tuple(shifts))
    for places, block in axes.columns():
        for at in places if block else ():
            shifts[at] = max(0, shifts[at])
    return ScoreAxes(regressors, tuple(shifts))


def scales_of(totals: Sequence[float], count: float) -> tuple[int, ...]:
    """Choose the scale of each axis by released sums of sizes: their mean over clusters, in steps, within public limits."""
    means = [total * SCORE_STEPS / max(count, 1.0) for total in totals]
    return tuple(int(min(max(math.floor(mean), LEAST_SCALE), LARGEST_SCALE)) for mean in means)
