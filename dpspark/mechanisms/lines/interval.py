"""A line with an interval at each cut, from noisy sums that are paid for beside the line."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpspark.mechanisms.lines.errors import error_at, is_sharp, normal_quantile
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import Plane, SimpleFit
from dpspark.mechanisms.lines.spread import SpreadSums
from dpspark.privacy.keyed import KeyedRandom

FEWEST_DEGREES = 4.0  # of freedom of an interval's width: with fewer it says nothing
CLEAR = 3.0  # standard deviations of noise in Σt² that the spread of x must exceed
ABSOLUTE_DEVIATION = math.pi / 2 - 1  # squared relative error of a mean |residual|, times n


@dataclass(frozen=True)
class LineWithInterval:
    """The kernel's line, then noisy sums of the group, and from both a half-width at each cut.

    The interval is for the line that the mechanism aims at in the population. Where the sums are too noisy to tell, or the
    draw is not near the best line, there is none: status weakly_identified.

    Privacy
        Unit         as the kernel's
        Requires     as the kernel and spread.SpreadSums
        Sensitivity  of both
        Guarantee    the kernel's and that of the sums, added up; the half-widths are post-processing of what both release
        Source       basic composition; what is drawn second knows the first one's result
        Public       as both
        Excluded     timing
        Tested by    tests/mechanisms/test_intervals.py
    """

    plane: Plane
    kernel: Kernel
    sums: SpreadSums
    level: float

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        line = self.kernel.fit(x, y, random, *labels)
        if math.isnan(line.slope):
            return line
        sums = self.sums.noisy(self.plane.rows(x, y), line, random.stream("spread", *labels))
        return self.with_interval(line, sums)

    def with_interval(self, line: SimpleFit, sums: tuple[float, ...]) -> SimpleFit:
        """Post-processing: no cost."""
        x_low, x_high = self.plane.x_bounds
        y_low, y_high = self.plane.y_bounds
        widths = [self.half_width(sums, (cut - x_low) / (x_high - x_low)) for cut in self.plane.wanted]
        half = [width * (y_high - y_low) for width in widths if width is not None]
        if len(half) < len(widths):
            return replace(line, status="weakly_identified")
        low = tuple(at - h for at, h in zip(line.estimate, half, strict=True))
        return replace(line, ci_low=low, ci_high=tuple(at + h for at, h in zip(line.estimate, half, strict=True)))

    def half_width(self, sums: tuple[float, ...], x: float) -> float | None:
        """At a scaled x, in units of y's bounds."""
        middle, spread = self._squared(sums, x), self.sums.spread(sums)
        if middle is None or spread is None or not is_sharp(self.kernel, spread, math.sqrt(sum(middle))):
            return None
        if 4 * spread.x_variance * spread.rows < CLEAR * self.sums.squares_std:  # x may be all the same
            return None
        variance = 4 * ABSOLUTE_DEVIATION / spread.rows * (middle[0] / sum(middle)) ** 2
        for part in range(self.sums.public_rows, len(sums)):
            ends = [self._squared(_moved(sums, part, step), x) for step in (-self.sums.std, self.sums.std)]
            if ends[0] is None or ends[1] is None:
                return None
            variance += (math.log(sum(ends[1]) / sum(ends[0])) / 2) ** 2
        degrees = 2 / variance if variance else math.inf
        return math.sqrt(sum(middle)) * _wider(self.level, degrees) if degrees >= FEWEST_DEGREES else None

    def _squared(self, sums: tuple[float, ...], x: float) -> tuple[float, float] | None:
        """The squared half-width if the sums had no noise: of the sampling, and of the privacy part."""
        spread = self.sums.spread(sums)
        error = None if spread is None else error_at(self.kernel, spread, x, 1 - self.level)
        return None if error is None else (normal_quantile(self.level) ** 2 * error.sampling, error.privacy**2)


def _moved(sums: tuple[float, ...], part: int, step: float) -> tuple[float, ...]:
    return (*sums[:part], sums[part] + step, *sums[part + 1 :])


def _wider(level: float, degrees: float) -> float:
    """Student's quantile over the normal one: the width is an estimate too (Cornish & Fisher's expansion)."""
    z = normal_quantile(level)
    first, second = (z**2 + 1) / 4, (5 * z**4 + 16 * z**2 + 3) / 96
    third = (3 * z**6 + 19 * z**4 + 17 * z**2 - 15) / 384
    return 1 + first / degrees + second / degrees**2 + third / degrees**3
