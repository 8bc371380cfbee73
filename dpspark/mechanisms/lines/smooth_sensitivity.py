"""DPSSTheilSen: the median of pairs' values with Student noise scaled to its smooth sensitivity."""

from __future__ import annotations

import decimal
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.mechanisms.lines.base import (
    COVER,
    LineMechanism,
    LineProblem,
    Target,
    check_public_rows,
    epsilon_for_parts,
    need_public_rows,
)
from dpspark.mechanisms.lines.exponential import PairOptions
from dpspark.mechanisms.lines.pairs import CELLS, MATCHINGS, matchings, values_at
from dpspark.mechanisms.lines.plane import Plane, SimpleFit, line_fit
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Event, Pure
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.sensitivity import student_loss, student_split

BITS = 512  # of the uniform number that a Student draw is made of
DIGITS = 200


@dataclass(frozen=True)
class SmoothTheilSen:
    """A line by median + (S / noise)·T at each anchor: S is the decay-smooth sensitivity, T Student with 2 degrees of freedom.

    Privacy
        Unit         one record, replaced; the number of rows of its group is public and stays
        Requires     a fresh secret; the number of values fixed: a pair with one x is rL or rU by a coin
        Sensitivity  smooth_sensitivity: a replaced record changes at most `per_record` values
        Guarantee    each anchor has epsilon' = sensitivity.student_loss(noise, decay), pure, up to a total variation of
                     2^−500: the draw inverts a 512-bit number, not a float
        Source       Alabi et al., DPSSTheilSen; Student noise with 2 degrees of freedom; Nissim, Raskhodnikova & Smith (2007)
        Public       bounds, anchors, candidates, grid, matchings, noise, decay, the number of rows
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_theil_sen.py
    """

    plane: Plane
    noise: float
    decay: float
    matchings: int = 10
    rows_per_record: int = 1
    cells: int = CELLS

    @property
    def per_record(self) -> int:
        return self.matchings * self.rows_per_record

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows = self.plane.rows(x, y)
        pairs = matchings(len(rows), self.matchings, random.stream("pairs", *labels))
        low, high = self.plane.candidate_range
        anchors, stream = self.plane.anchors, random.stream("draws", *labels)
        values = values_at(rows, pairs, anchors, (low, high), self.cells, random.stream("ties", *labels))
        drawn = [self.released(np.sort(at), stream) for at in values]
        return line_fit(self.plane, anchors, tuple(low + (high - low) * edge / self.cells for edge in drawn))

    def released(self, values: np.ndarray, stream: Stream) -> int:
        """An edge. Rounding to the grid and clipping to it are post-processing."""
        middle = int(values[(len(values) - 1) // 2]) if len(values) else self.cells // 2
        context = decimal.Context(prec=DIGITS)
        step = context.multiply(context.divide(self.sensitivity(values), decimal.Decimal(self.noise)), student(stream))
        most = decimal.Decimal(self.cells)
        limited = max(-most, min(most, step))
        return min(max(middle + int(limited.to_integral_value(decimal.ROUND_HALF_EVEN)), 0), self.cells)

    def sensitivity(self, values: np.ndarray) -> decimal.Decimal:
        return smooth_sensitivity(values, self.per_record, self.decay, self.cells)

    grid: ClassVar[None] = None

    def quieter(self, times: float) -> Self:
        return replace(self, noise=self.noise * times)


def smooth_sensitivity(values: np.ndarray, per_record: int, decay: float, cells: int) -> decimal.Decimal:
    """max over l of e^(−decay·l) times the most that one more record can move the median after l others.

    l + 1 records change up to q = (l + 1)·per_record values, so the median can then lie anywhere from one order statistic to
    the q-th one after it, in a window that has the median in it: t = 0 to q, both included. Missing ones are 0 and `cells`.
    """
    context = decimal.Context(prec=DIGITS)
    m, best = len(values), decimal.Decimal(0)
    middle = (m - 1) // 2
    for others in range(m // per_record + 2):
        factor = _decayed(decay, others)
        if factor * cells <= best:
            break
        q = (others + 1) * per_record
        upper = order_statistics(values, np.arange(middle, middle + q + 1), cells)
        lower = order_statistics(values, np.arange(middle - q, middle + 1), cells)
        best = max(best, context.multiply(factor, decimal.Decimal(int((upper - lower).max()))))
    return best


@lru_cache(maxsize=1 << 12)
def _decayed(decay: float, others: int) -> decimal.Decimal:
    context = decimal.Context(prec=DIGITS)
    return context.exp(context.multiply(decimal.Decimal(-others), decimal.Decimal(decay)))


def order_statistics(values: np.ndarray, at: np.ndarray, cells: int) -> np.ndarray:
    if not len(values):
        return np.where(at < 0, 0, cells)
    inside = values[np.clip(at, 0, len(values) - 1)]
    return np.where(at < 0, 0, np.where(at >= len(values), cells, inside))


def student(stream: Stream) -> decimal.Decimal:
    """Student's T with 2 degrees of freedom, by its inverse distribution function (2p − 1)/√(2p(1 − p))."""
    context = decimal.Context(prec=DIGITS)
    odd, whole = 2 * stream.bits(BITS) + 1, 1 << (BITS + 1)  # p = odd / whole
    root = context.sqrt(decimal.Decimal(2 * odd * (whole - odd)))
    return context.divide(decimal.Decimal(2 * odd - whole), root)


@dataclass(frozen=True, kw_only=True)
class SmoothLines(LineMechanism):
    """`smooth_sensitivity`: for each group a SmoothTheilSen."""

    name: ClassVar[str] = "smooth_sensitivity"
    kernel_name: ClassVar[str] = "smooth_sensitivity"
    words: ClassVar[str] = "Noise of the size of the median's smooth sensitivity was added to each value."
    target: ClassVar[Target] = "median"
    Options: ClassVar[type] = PairOptions
    line: SmoothTheilSen
    epsilon_each: float

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: PairOptions) -> LineMechanism:
        need_public_rows(cls.name, problem.records)
        epsilon, route = epsilon_for_parts(budget, len(problem.plane.anchors))
        noise, decay = (part * COVER for part in student_split(epsilon))
        k, cells = options.matchings or MATCHINGS, options.cells or CELLS
        line = SmoothTheilSen(problem.plane, noise, decay, k, problem.records.rows, cells)
        return cls(problem=problem, line=line, route=route, budget=budget, options=options, epsilon_each=epsilon)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        check_public_rows(cls.name, problem.records)
        noise, decay = facts.positive("noise"), facts.positive("decay")
        rows, cells = problem.records.rows, facts.whole("cells")
        line = SmoothTheilSen(problem.plane, noise, decay, facts.whole("matchings"), rows, cells)
        each = max(facts.positive("epsilon_each"), student_loss(noise, decay))
        route = facts.text("calibration")
        return cls(problem=problem, line=line, route=route, budget=claimed, options=cls.Options(), epsilon_each=each)

    @property
    def draws(self) -> int:
        return len(self.plane.anchors)

    @property
    def draw_epsilon(self) -> float:
        return self.epsilon_each

    def line_event(self) -> Event:
        return Pure(self.epsilon_each, self.draws)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return self.line.per_record, "values of one record"

    def line_facts(self) -> dict[str, Any]:
        return {
            "sampler": "Student noise with 2 degrees of freedom, by inverting 512-bit numbers, from a secret drawn once",
            "calibration": self.route,
            "epsilon_each": self.epsilon_each,
            "draws": self.draws,
            "noise": self.line.noise,
            "decay": self.line.decay,
            "matchings": self.line.matchings,
            "cells": self.line.cells,
        }
