"""A line with an interval at each cut, from noisy sums that are paid for beside the line."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.core.records import Records
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism
from dpspark.mechanisms.lines.base import COVER, LineProblem
from dpspark.mechanisms.lines.defaults import RESIDUAL
from dpspark.mechanisms.lines.errors import KernelWithError, height_of, normal_quantile
from dpspark.mechanisms.lines.grid import Grid
from dpspark.mechanisms.lines.plane import Plane, SimpleFit
from dpspark.mechanisms.lines.spread import UNIT, SpreadSums
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded, largest_mu
from dpspark.privacy.events import ROUNDED_UP, Event, Gaussian, Pure
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.sensitivity import rounded_spread, spread_l1, spread_l2

CLIP = 2.0  # of the sums' residuals, in standard deviations as guessed
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
    kernel: KernelWithError
    sums: SpreadSums
    level: float

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        line = self.kernel.fit(x, y, random, *labels)
        if math.isnan(line.slope):
            return line
        sums = self.sums.noisy(self.plane.rows(x, y), line, random.stream("spread", *labels))
        return self.with_interval(line, sums)

    @property
    def grid(self) -> Grid | None:
        return self.kernel.grid

    def quieter(self, times: float) -> Self:
        return replace(self, kernel=self.kernel.quieter(times), sums=self.sums.quieter(times))

    def with_interval(self, line: SimpleFit, sums: tuple[float, ...]) -> SimpleFit:
        """Add the interval to a line. Post-processing: no cost."""
        x_low, x_high = self.plane.x_bounds
        y_low, y_high = self.plane.y_bounds
        widths = [self.half_width(sums, (cut - x_low) / (x_high - x_low)) for cut in self.plane.wanted]
        half = [width * (y_high - y_low) for width in widths if width is not None]
        if len(half) < len(widths):
            return replace(line, status="weakly_identified")
        low = tuple(at - h for at, h in zip(line.estimate, half, strict=True))
        return replace(line, ci_low=low, ci_high=tuple(at + h for at, h in zip(line.estimate, half, strict=True)))

    def half_width(self, sums: tuple[float, ...], x: float) -> float | None:
        """Compute the half width at a scaled x, in units of y's bounds."""
        middle, spread = self._squared(sums, x), self.sums.spread(sums)
        if middle is None or spread is None or not self.kernel.is_sharp(spread, math.sqrt(sum(middle))):
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
        if spread is None:
            return None
        error = self.kernel.error_at(spread, x, 1 - self.level)
        return normal_quantile(self.level) ** 2 * error.sampling, error.privacy**2


def _moved(sums: tuple[float, ...], part: int, step: float) -> tuple[float, ...]:
    return (*sums[:part], sums[part] + step, *sums[part + 1 :])


def _wider(level: float, degrees: float) -> float:
    """Student's quantile over the normal one: the width is an estimate too (Cornish & Fisher's expansion)."""
    z = normal_quantile(level)
    first, second = (z**2 + 1) / 4, (5 * z**4 + 16 * z**2 + 3) / 96
    third = (3 * z**6 + 19 * z**4 + 17 * z**2 - 15) / 384
    return 1 + first / degrees + second / degrees**2 + third / degrees**3


@dataclass(frozen=True)
class PaidInterval(Mechanism):
    """The sums behind the intervals of all groups, for their share of the budget: an extra, beside the line."""

    kind: ClassVar[Kind] = "extra"
    name: ClassVar[str] = "interval"
    words: ClassVar[str] = "Noise, added once to sums of rows, x, x² and residuals of each group."
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    problem: LineProblem
    sums: SpreadSums
    route: str
    level: float

    @classmethod
    def for_budget(cls, problem: LineProblem, budget: Budget, options: None = None) -> Self:
        """Take the law with the smaller standard deviation."""
        assert problem.interval is not None
        law, scale, route = _noise(budget, problem.records)
        clip = CLIP * (problem.y_spread or RESIDUAL) * height_of(problem.plane)
        sums = SpreadSums(problem.plane, law, scale, problem.records.public_rows, clip)
        return cls(problem, sums, route, problem.interval.level)

    @classmethod
    def from_facts(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> Self:
        law: Literal["laplace", "gaussian"] = (
            "laplace" if facts.part("sensitivity").text("norm", "l1", "l2") == "l1" else "gaussian"
        )
        scale, public = facts.positive("scale") * UNIT, problem.records.public_rows
        sums = SpreadSums(problem.plane, law, scale, public, facts.positive("clip"))
        return cls(problem, sums, facts.text("calibration"), facts.positive("level"))

    def around(self, line: Any) -> LineWithInterval:
        """The kernel of a line with these intervals."""
        return LineWithInterval(self.problem.plane, line, self.sums, self.level)

    @property
    def norm(self) -> Literal["l1", "l2"]:
        return "l1" if self.sums.law == "laplace" else "l2"

    @property
    def sensitivity(self) -> float:
        """The most that one record moves the sums, in all groups that it can change."""
        records, of = self.problem.records, spread_l1 if self.norm == "l1" else spread_l2
        return of(records.change, records.rows, records.moves)

    def events(self) -> tuple[Event, ...]:
        scale, rounding = self.sums.scale / UNIT, _slack(self.problem.records) / UNIT
        loss = (self.sensitivity + rounding) / scale * ROUNDED_UP
        if self.norm == "l1":
            return (Pure(loss),)
        return (Gaussian.of(loss, sums_distance(scale * UNIT, self.problem.records)),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.sensitivity, self.norm

    def facts(self) -> dict[str, Any]:
        law = self.sums.law.capitalize()
        return {
            "sampler": f"exact discrete {law} on sums of rows, x, x² and residuals, from a secret drawn once",
            "calibration": self.route,
            "scale": self.sums.scale / UNIT,
            "rounding": _slack(self.problem.records) / UNIT,  # beside the sensitivity: sums are rounded to the grid
            "sensitivity": {"value": self.sensitivity, "norm": self.norm},
            "clip": self.sums.clip,
            "level": self.level,
        }


def _noise(budget: Budget, records: Records) -> tuple[Literal["laplace", "gaussian"], float, str]:
    """The law, its scale in steps, and the route."""
    slack = _slack(records)
    l1, l2 = (of(records.change, records.rows, records.moves) for of in (spread_l1, spread_l2))
    laplace = math.inf if budget.epsilon is None else (l1 * UNIT + slack) / (budget.epsilon * COVER)
    if budget.rho is not None or budget.delta:
        length = l2 * UNIT + slack
        mu, route = largest_mu(budget, lambda mu: sums_distance(length / mu, records))
        gaussian = length / (mu * COVER)
        if gaussian < math.sqrt(2) * laplace:
            return "gaussian", gaussian, route
    return "laplace", laplace, "pure"


def _slack(records: Records) -> float:
    """Compute what rounding adds to a sensitivity, in steps: in every group that a record has rows in."""
    return rounded_spread(records)


def sums_distance(scale: float, records: Records) -> float:
    """Bound how far the samplers of all groups that a record can change are from rounded Gaussians; `scale` in steps."""
    return distance_from_rounded(4 * records.groups, scale)
