"""DPSuffStats: Laplace noise on the two sums of squares that a slope is made of, then on a level."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts, Garbled
from dpspark.mechanisms.lines.base import LineMechanism, LineProblem, Target, epsilon_for_parts
from dpspark.mechanisms.lines.plane import FINE, Plane, Rows, SimpleFit, exact_sum, line_fit, no_fit
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Event, Pure
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.sensitivity import (
    ROUNDED_LEVEL,
    centred_products,
    groups_drawn_apart,
    rounded_products,
    rounded_sums,
    sums_l1,
)

UNIT = 1 << 40  # steps of 1.0 of the noisy statistics
PARTS = 3  # two sums and a level


@dataclass(frozen=True)
class SufficientStatistics:
    """slope = noisy Σ(x − x̄)(y − ȳ) / noisy Σ(x − x̄)², and no line if the latter is not positive; then a level.

    Privacy
        Unit         one record: its rows are added, removed or replaced (`records` says which), in one group or several
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

    grid: ClassVar[None] = None

    def quieter(self, times: float) -> Self:
        return replace(self, epsilon_each=self.epsilon_each * times)

    def slope(self, rows: Rows, stream: Stream) -> float | None:
        """None: the noise left no spread of x. What follows is drawn all the same."""
        products, squares = (self._noisy(sum_, stream) for sum_ in centred_sums(rows))
        if squares <= 0:
            return None
        limit = self.plane.slope_limit()
        return min(max(products / squares, -limit), limit)

    def _noisy(self, exact: Fraction, stream: Stream) -> int:
        # A fraction is cut to whole steps, which can move it by one step more, in each group that a record has rows in.
        most = centred_products(self.rows_per_record) * UNIT + rounded_products(self.rows_per_record)
        return math.floor(exact * UNIT) + stream.discrete_laplace(most / self._epsilon)

    @property
    def scale(self) -> float:
        """The scale of the noise on each of the two sums, in units of 1.0."""
        return centred_products(self.rows_per_record) / self.epsilon_each

    @property
    def level_scale(self) -> float:
        """The scale of the noise on the count and sums of a level; with public rows, in units of 1 + |slope|."""
        return (self.rows_per_record if self.public_rows else sums_l1(self.rows_per_record)) / self.epsilon_each

    @property
    def _epsilon(self) -> Fraction:
        return Fraction(self.epsilon_each)

    def level(self, rows: Rows, slope: float | None, stream: Stream) -> float | None:
        """The line's value in the middle of x."""
        right, up = (Fraction(int(part.sum()), FINE) - Fraction(len(rows), 2) for part in (rows.x, rows.y))
        if not self.public_rows:
            scale = (sums_l1(self.rows_per_record) * UNIT + rounded_sums(self.rows_per_record)) / self._epsilon
            count, right_sum, up_sum = (
                math.floor(part * UNIT) + stream.discrete_laplace(scale) for part in (Fraction(len(rows)), right, up)
            )
            return 0.5 + (up_sum - (slope or 0.0) * right_sum) / count if count >= UNIT else None
        if len(rows) == 0:
            return None
        steep = Fraction(slope or 0.0)
        scale = (self.rows_per_record * (1 + abs(steep)) * UNIT + ROUNDED_LEVEL) / self._epsilon
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


@dataclass(frozen=True, kw_only=True)
class SufficientLines(LineMechanism):
    """`sufficient_statistics`: for each group a SufficientStatistics."""

    name: ClassVar[str] = "sufficient_statistics"
    kernel_name: ClassVar[str] = "sufficient_statistics"
    words: ClassVar[str] = "Laplace noise, added once to the sums that a line needs."
    target: ClassVar[Target] = "mean"
    line: SufficientStatistics

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: Any) -> LineMechanism:
        # Where a record moves, groups change by twice as many rows, each as if it were added or removed.
        records = problem.records
        epsilon, route = epsilon_for_parts(budget.part(Fraction(1, groups_drawn_apart(records))), PARTS)
        line = SufficientStatistics(problem.plane, epsilon, records.public_rows, records.rows)
        return cls(problem=problem, line=line, route=route, budget=budget, options=options)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        records = problem.records
        if facts.flag("rows_are_public") != records.public_rows:
            raise Garbled("mechanism.rows_are_public does not agree with what a record changes")
        one = SufficientStatistics(problem.plane, 1.0, records.public_rows, records.rows)
        losses = one.scale / facts.positive("scale"), one.level_scale / facts.positive("level_scale")
        line = replace(one, epsilon_each=max(facts.positive("epsilon_each"), *losses))
        return cls(problem=problem, line=line, route=facts.text("calibration"), budget=claimed, options=cls.Options())

    @property
    def draw_epsilon(self) -> float:
        return self.line.epsilon_each

    def line_event(self) -> Event:
        return Pure(self.line.epsilon_each, groups_drawn_apart(self.records) * PARTS)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return centred_products(self.records.rows), "of each centred sum"

    def line_facts(self) -> dict[str, Any]:
        return {
            "sampler": "exact discrete Laplace, from a secret drawn once",
            "calibration": self.route,
            "epsilon_each": self.line.epsilon_each,
            "draws": PARTS,
            "scale": self.line.scale,
            "level_scale": self.line.level_scale,
            "rows_are_public": self.records.public_rows,
        }
