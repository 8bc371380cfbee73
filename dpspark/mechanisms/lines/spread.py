"""What an interval must know of a group and a line does not say: how many rows, how far x spreads, how large residuals are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Self

import numpy as np

from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit
from dpspark.privacy.keyed import Stream
from dpspark.privacy.sensitivity import RESIDUAL_WEIGHT, SQUARE_WEIGHT, X_WEIGHT

UNIT = 1 << 20  # steps of 1.0 of the sums
_RATIOS = np.concatenate([[0.0], np.geomspace(0.01, 100.0, 200)])  # of the residuals' standard deviation to the clip


def _mean_clipped(ratio: float) -> float:
    """E min(|r|, 1) of normal residuals with this standard deviation."""
    if ratio == 0:
        return 0.0
    u = 1 / ratio
    return ratio * math.sqrt(2 / math.pi) * (1 - math.exp(-u * u / 2)) + math.erfc(u / math.sqrt(2))


_MEANS = np.array([_mean_clipped(ratio) for ratio in _RATIOS.tolist()])


@dataclass(frozen=True)
class Spread:
    """The spread of one group, in units of the bounds of x and y."""

    rows: float
    x_mean: float
    x_variance: float
    residual: float  # standard deviation

    def distance(self, x: float) -> float:
        """Squared, from the mean of x, in variances of x."""
        return (x - self.x_mean) ** 2 / self.x_variance


@dataclass(frozen=True)
class SpreadSums:
    """Σ(1, a·t, b·(t² − ½), c·(ρ − ½)) with noise: t is x in [−1, 1], ρ a row's distance from the released line, clipped.

    Privacy
        Unit         one record: its rows in one group are added, removed or replaced, or leave for another group
        Requires     a line that is released before; a fresh secret; weights as in sensitivity
        Sensitivity  sensitivity.spread_l1 (laplace) or spread_l2 (gaussian), and sensitivity.rounded_spread steps for rounding
        Guarantee    laplace: epsilon = sensitivity / scale, pure; gaussian: mu = sensitivity / scale, or rho. In addition to
                     the line's
        Source       Dwork, McSherry, Nissim & Smith (2006); Canonne, Kamath & Steinke (2020)
        Public       bounds, clip, scale; the number of rows only if `public_rows`
        Excluded     timing
        Tested by    tests/mechanisms/test_intervals.py
    """

    plane: Plane
    law: Literal["laplace", "gaussian"]
    scale: float  # of the noise in each sum, in steps of 1/UNIT
    public_rows: bool
    clip: float  # of a residual, in units of y's bounds

    @property
    def std(self) -> float:
        """The standard deviation of the noise in units of 1.0."""
        return self.scale / UNIT * (math.sqrt(2) if self.law == "laplace" else 1.0)

    @property
    def squares_std(self) -> float:
        """The standard deviation of the noise in Σt²."""
        return self.std * math.hypot(1 / SQUARE_WEIGHT, 0.0 if self.public_rows else 0.5)

    def quieter(self, times: float) -> Self:
        return replace(self, scale=self.scale / times)

    def noisy(self, rows: Rows, line: SimpleFit, stream: Stream) -> tuple[float, ...]:
        return self.released([int(part.sum()) for part in self.features(rows, line)], stream)

    def released(self, exact: Sequence[int], stream: Stream) -> tuple[float, ...]:
        """The sums with noise. The first has none where it is public."""
        draw = stream.discrete_gaussian if self.law == "gaussian" else stream.discrete_laplace
        scale = Fraction(self.scale)
        return tuple(
            (total if part == 0 and self.public_rows else total + draw(scale)) / UNIT
            for part, total in enumerate(exact)
        )

    def features(self, rows: Rows, line: SimpleFit) -> np.ndarray:
        """One row a column, in whole steps; each depends on that row and the released line alone."""
        (x_low, x_high), (y_low, y_high) = self.plane.x_bounds, self.plane.y_bounds
        steep = line.slope * (x_high - x_low) / (y_high - y_low)
        middle = (line.intercept + line.slope * (x_low + x_high) / 2 - y_low) / (y_high - y_low)
        t = 2 * rows.x / FINE - 1
        residual = np.minimum(abs(rows.y / FINE - middle - steep * t / 2) / self.clip, 1.0)
        parts = [np.ones(len(rows)), X_WEIGHT * t, SQUARE_WEIGHT * (t * t - 0.5), RESIDUAL_WEIGHT * (residual - 0.5)]
        return np.rint(np.stack(parts) * UNIT).astype(np.int64)

    def spread(self, sums: tuple[float, ...]) -> Spread | None:
        """Read the spread from the sums, if they make sense at all. Post-processing: no cost."""
        rows, first, second, residuals = sums
        if rows < 3:
            return None
        mean = first / X_WEIGHT / rows
        variance = (second / SQUARE_WEIGHT + rows / 2) / rows - mean**2
        clipped = (residuals / RESIDUAL_WEIGHT + rows / 2) / rows
        if not variance > 0 or not 0 < clipped < _MEANS[-1]:
            return None
        ratio = float(np.interp(clipped, _MEANS, _RATIOS))
        return Spread(rows, (1 + mean) / 2, variance / 4, ratio * self.clip)
