"""Intervals of least squares on a noisy matrix that hold where the noise in it is not small. Post-processing: no cost.

The noise moves an estimate by t = u·E·w, with u = X H l for the coefficient l·γ and w = y − Xγ at the true coefficients:
Var(t) = wᵀ Cov(E u) w. At the estimates it would be that of ŵ, which has t itself in it: such an interval covers too often
or too seldom at kappa_w = 2 to 4. But each value in question tells its own t, and with it what the other estimates
are off by, X d t with d = V l / (lᵀ V l) and V = H Ω H. So a value is in the interval if

    t² <= q² · (sampling variance + level + slope·t + curve·t²),   level + slope·t + curve·t² = Var(t) at w = ŵ + X d t

(after Fieller, 1954; with one regressor and no sampling error it is exact). The ends are the roots in t, not as far from the
estimate on both sides; where curve·q² >= 1 there are none, and every value is in the interval. Where sampling moves the
estimate, too, the noise has only its share of t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpspark.mechanisms.gram.noise_model import NoiseModel


@dataclass(frozen=True)
class Inversion:
    """The variance that the noise gives each estimate, in original units, if it is off by t: level + slope·t + curve·t²."""

    level: np.ndarray
    slope: np.ndarray
    curve: np.ndarray

    def intervals(self, estimates: np.ndarray, sampling: np.ndarray | float, reach: np.ndarray | float) -> np.ndarray:
        """Compute two columns, low and high; `sampling` are variances, `reach` how many standard errors an interval has."""
        total = self.level + sampling
        share = np.divide(self.level, total, out=np.zeros_like(total), where=total > 0)
        square = np.square(reach)
        left, middle = 1 - square * self.curve * share**2, square * self.slope * share / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            root = np.sqrt(middle**2 + left * square * total)
            low, high = estimates - (middle + root) / left, estimates - (middle - root) / left
        bounded = ~(left <= 0)
        return np.column_stack([np.where(bounded, low, -np.inf), np.where(bounded, high, np.inf)])


def inversion_of(
    noise: NoiseModel,
    scaled: np.ndarray,
    regressors: np.ndarray,
    left: np.ndarray,
    inverse: np.ndarray,
    omega: np.ndarray,
    to_original: np.ndarray,
) -> Inversion:
    """Find it for a fit in scaled coordinates: `left` is ŵ, `omega` Cov(Xᵀ E ŵ), `inverse` H."""
    covariance = inverse @ omega @ inverse
    found = np.empty((3, len(to_original)))
    for i, row in enumerate(to_original):
        around = noise.along(regressors @ (inverse @ row), scaled)
        moved = covariance @ row
        own = float(row @ moved)
        others = regressors @ moved / own if own > 0 else np.zeros(len(left))
        found[:, i] = left @ around @ left, 2 * left @ around @ others, others @ around @ others
    return Inversion(*np.maximum(found, [[0.0], [-np.inf], [0.0]]))
