"""DPSuffStats: Laplace noise on the two sums of squares that a slope is made of, then on a level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, line_fit, no_fit
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.sensitivity import centred_products, sums_l1

UNIT = 1 << 40  # steps of 1.0 of the noisy statistics


@dataclass(frozen=True)
class SufficientStatistics:
    """slope = noisy Σ(x − x̄)(y − ȳ) / noisy Σ(x − x̄)², and no line if the latter is not positive; then a level.

    Privacy
        Unit         one record: its rows are added, removed or replaced (calibrate says which), in one group or several
        Requires     rows in [0, 1]²
        Sensitivity  sensitivity.centred_products for each of the two sums; for the level: 1 + |slope| at the middle of x
                     (public number of rows), or sensitivity.sums_l1 of the count and two sums (private)
        Guarantee    3·epsilon_each, pure; or 3·epsilon_each²/2-zCDP
        Source       Alabi et al., Differentially Private Simple Linear Regression, DPSuffStats; the level without a public
                     number of rows is ours
        Public       bounds, epsilon_each, the range of slopes; the number of rows only if `public_rows`
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_moments.py
    """

    plane: Plane
    epsilon_each: float
    public_rows: bool
    rows_per_record: int = 1

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows = self.plane.rows(x, y)
        stream = random.stream("draws", *labels)
        slope = self.slope(rows, stream)
        level = self.level(rows, slope, stream)
        if slope is None or level is None:
            return no_fit(self.plane)
        low, high = self.plane.candidate_range
        anchors = self.plane.joint_anchors
        ends = (min(max(level + slope * (anchor - 0.5), low), high) for anchor in anchors)
        return line_fit(self.plane, anchors, tuple(ends))

    def slope(self, rows: Rows, stream: Stream) -> float | None:
        """None: the noise left no spread of x. What follows is drawn all the same."""
        products, squares = (self._noisy(sum_, stream) for sum_ in centred_sums(rows))
        if squares <= 0:
            return None
        limit = self.plane.slope_limit()
        return min(max(products / squares, -limit), limit)

    def _noisy(self, exact: Fraction, stream: Stream) -> int:
        # A fraction is cut to whole steps, which can move it by one step more, in each group that a record has rows in.
        most = centred_products(self.rows_per_record) * UNIT + self.rows_per_record
        return math.floor(exact * UNIT) + stream.discrete_laplace(most / self._epsilon)

    @property
    def scale(self) -> float:
        """Of the noise on each of the two sums, in units of 1.0."""
        return centred_products(self.rows_per_record) / self.epsilon_each

    @property
    def level_scale(self) -> float:
        """Of the noise on the count and sums that a level is made of; with public rows, in units of 1 + |slope|."""
        return (self.rows_per_record if self.public_rows else sums_l1(self.rows_per_record)) / self.epsilon_each

    @property
    def _epsilon(self) -> Fraction:
        return Fraction(self.epsilon_each)

    def level(self, rows: Rows, slope: float | None, stream: Stream) -> float | None:
        """The line's value in the middle of x."""
        right, up = (Fraction(int(part.sum()), FINE) - Fraction(len(rows), 2) for part in (rows.x, rows.y))
        if not self.public_rows:
            scale = (sums_l1(self.rows_per_record) * UNIT + 2 * self.rows_per_record) / self._epsilon
            count, right_sum, up_sum = (
                math.floor(part * UNIT) + stream.discrete_laplace(scale) for part in (Fraction(len(rows)), right, up)
            )
            return 0.5 + (up_sum - (slope or 0.0) * right_sum) / count if count >= UNIT else None
        if len(rows) == 0:
            return None
        steep = Fraction(slope or 0.0)
        scale = (self.rows_per_record * (1 + abs(steep)) * UNIT + 1) / self._epsilon
        noisy = math.floor((up - steep * right) * UNIT) + stream.discrete_laplace(scale)
        return 0.5 + noisy / UNIT / len(rows)


def centred_sums(rows: Rows) -> tuple[Fraction, Fraction]:
    """Σ(x − x̄)(y − ȳ) and Σ(x − x̄)², exactly."""
    n = len(rows)
    if n == 0:
        return Fraction(0), Fraction(0)
    x, y = int(rows.x.sum()), int(rows.y.sum())
    unit = n * FINE * FINE
    products, squares = n * exact_sum(rows.x * rows.y) - x * y, n * exact_sum(rows.x * rows.x) - x * x
    return Fraction(products, unit), Fraction(squares, unit)


def exact_sum(products: np.ndarray) -> int:
    """Of whole numbers up to 2^54 in size, however many: high and low halves by themselves."""
    return (int((products >> 27).sum()) << 27) + int((products & ((1 << 27) - 1)).sum())
