"""DPExpTheilSen: the exponential mechanism for the median of pairs' values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.mechanisms.base import option
from dpspark.mechanisms.lines.base import COVER, DrawnLines, LineMechanism, LineProblem, Target, epsilon_for_draws
from dpspark.mechanisms.lines.errors import Error, is_near
from dpspark.mechanisms.lines.pairs import CELLS, MATCHINGS, all_pairs, matchings, values_at
from dpspark.mechanisms.lines.plane import Plane, SimpleFit, line_fit
from dpspark.mechanisms.lines.spread import Spread
from dpspark.mechanisms.options import CELLS as CELLS_OPTION
from dpspark.mechanisms.options import MATCHINGS as MATCHINGS_OPTION
from dpspark.privacy.budget import Budget
from dpspark.privacy.exponential_draw import draw
from dpspark.privacy.keyed import KeyedRandom, Stream
from dpspark.privacy.sensitivity import pair_rank_spread

Runs = tuple[np.ndarray, np.ndarray, np.ndarray]  # where each run of edges starts, how many it has, their loss


@dataclass(frozen=True)
class ExponentialTheilSen:
    """A line by an edge of the public grid at each anchor, drawn with weight exp(−exponent·|below − above|).

    Privacy
        Unit         one record: its rows in one group are added, removed or replaced (`records` says which)
        Requires     a fresh secret for the release; all_pairs only where one row is replaced and the number of rows is public
        Sensitivity  sensitivity.pair_rank_spread: of below − above, between two edges
        Guarantee    each draw has epsilon' = exponent·spread; the draws of all anchors together anchors·epsilon', or
                     anchors·epsilon'²/8-zCDP
        Source       Alabi et al., Differentially Private Simple Linear Regression, DPExpTheilSen; McSherry & Talwar (2007)
        Public       bounds, anchors, candidates, grid, matchings, exponent
        Excluded     timing
        Tested by    tests/mechanisms/test_robust_theil_sen.py
    """

    plane: Plane
    exponent: float
    matchings: int | None = 10  # None: all pairs
    cells: int = CELLS

    def fit(self, x: np.ndarray, y: np.ndarray, random: KeyedRandom, *labels: str | bytes | int) -> SimpleFit:
        rows = self.plane.rows(x, y)
        pairs = (
            all_pairs(len(rows))
            if self.matchings is None
            else matchings(len(rows), self.matchings, random.stream("pairs", *labels))
        )
        low, high = self.plane.candidate_range
        exponent = self.exponent / max(1, len(rows) - 1) if self.matchings is None else self.exponent
        stream = random.stream("draws", *labels)
        drawn = [
            draw_edge(self.runs(values), exponent, stream)
            for values in values_at(rows, pairs, self.plane.anchors, (low, high), self.cells)
        ]
        return line_fit(self.plane, self.plane.anchors, tuple(low + (high - low) * edge / self.cells for edge in drawn))

    def runs(self, values: np.ndarray) -> Runs:
        ordered = np.sort(values)
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(ordered) else [])
        return self.runs_of(ordered[starts], np.diff(starts, append=len(ordered)))

    def runs_of(self, at: np.ndarray, counts: np.ndarray) -> Runs:
        """Make the runs of edges that have values, in order, and how many each has."""
        return runs_of(at, counts, self.cells)

    grid: ClassVar[None] = None

    def quieter(self, times: float) -> Self:
        return replace(self, exponent=self.exponent * times)

    def error_at(self, of: Spread, x: float, alpha: float) -> Error:
        """Predict the error of pairs' values, drawn at each of the two anchors by itself; of a line through them elsewhere."""
        away = of.distance(x)
        pairs = 0.0 if self.matchings is None else 2.6 / self.matchings
        sampling = (1.12 + 0.66 / (1 + away) + pairs) * of.residual**2 * (1 + away) / of.rows
        first, last = self.plane.anchors
        shares = ((last - x) / (last - first), (x - first) / (last - first))
        ends = (self._rank_error(of, anchor, alpha) for anchor in (first, last))
        return Error(sampling, math.hypot(*(share * end for share, end in zip(shares, ends, strict=True))))

    def is_sharp(self, of: Spread, width: float) -> bool:
        return is_near(self._rank_exponent(of.rows), 1, width)

    @property
    def flat(self) -> float:
        """The distance from the best value within which others are as good, in units of y's bounds."""
        return 0.0

    def _rank_exponent(self, rows: float) -> float:
        """γ times the number of pairs."""
        return self.exponent * rows / 2 * (1 if self.matchings is None else self.matchings)

    def _rank_error(self, of: Spread, anchor: float, alpha: float) -> float:
        away = of.distance(anchor)
        # The density of pairs' values at the anchor, times σ√(2π): E 1/√(½ + 2w²), w from the middle of a pair in its runs.
        density = (0.97 - 0.05 * math.log(1 + away)) / math.sqrt(1 + away)
        scale = math.sqrt(2 * math.pi) * of.residual / (2 * self._rank_exponent(of.rows) * density)
        flat = self.flat
        # Even up to `flat`, then exponential.
        beyond = flat + scale * math.log(scale / ((flat + scale) * alpha)) if scale > 0 else 0.0
        return max(beyond, min(flat, (flat + scale) * (1 - alpha)))


def draw_edge(of: Runs, exponent: float, stream: Stream) -> int:
    """An edge from 0 to cells. No values: any edge."""
    first, sizes, losses = of
    run, offset = draw(losses, exponent, stream, sizes)
    return int(first[run]) + offset


def runs(values: np.ndarray, cells: int) -> Runs:
    return runs_of(*np.unique(values, return_counts=True), cells)


def runs_of(at: np.ndarray, counts: np.ndarray, cells: int) -> Runs:
    """Edges with one loss |below − above|, by the values below and above them."""
    below = np.concatenate([[0], np.cumsum(counts)])
    total = int(below[-1])
    first, sizes, losses = (np.empty(2 * len(at) + 1, dtype=np.int64) for _ in range(3))
    first[0::2], first[1::2] = np.concatenate([[0], at + 1]), at
    sizes[0::2], sizes[1::2] = np.concatenate([at, [cells + 1]]) - first[0::2], 1
    losses[0::2] = abs(2 * below - total)
    losses[1::2] = abs(below[:-1] + below[1:] - total)
    return first, sizes, losses


@dataclass(frozen=True)
class PairOptions:
    """The options of mechanisms that pair rows at random."""

    matchings: int | None = option(MATCHINGS_OPTION)
    cells: int | None = option(CELLS_OPTION)


@dataclass(frozen=True, kw_only=True)
class ExponentialLines(DrawnLines):
    """`exponential`: for each group an ExponentialTheilSen."""

    name: ClassVar[str] = "exponential"
    kernel_name: ClassVar[str] = "exponential"
    words: ClassVar[str] = "Better values are exponentially more likely to be drawn."
    target: ClassVar[Target] = "median"
    Options: ClassVar[type] = PairOptions
    paid_interval: ClassVar[bool] = True
    at_each_cut: ClassVar[bool] = True
    in_buckets: ClassVar[bool] = True
    line: ExponentialTheilSen

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: Any) -> LineMechanism:
        epsilon, route = epsilon_for_draws(budget, len(problem.plane.anchors))
        k = options.matchings or MATCHINGS
        spread = pair_rank_spread(k, problem.records.rows, problem.records.moves)
        line = cls.made(problem.plane, epsilon / spread * COVER, k, options)
        return cls(problem=problem, line=line, route=route, budget=budget, options=options, epsilon_each=epsilon)

    @classmethod
    def made(cls, plane: Plane, exponent: float, matchings: int, options: Any) -> ExponentialTheilSen:
        return ExponentialTheilSen(plane, exponent, matchings, options.cells or CELLS)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        matchings, cells = facts.whole("matchings"), facts.whole("cells")
        line = ExponentialTheilSen(problem.plane, facts.positive("exponent"), matchings, cells)
        return cls.read_drawn(problem, line, facts, claimed)

    @property
    def draws(self) -> int:
        return len(self.plane.anchors)

    @property
    def spread(self) -> int:
        assert self.line.matchings is not None
        return pair_rank_spread(self.line.matchings, self.records.rows, self.records.moves)

    def option_facts(self) -> dict[str, Any]:
        return {"matchings": self.line.matchings, "cells": self.line.cells}

    @property
    def distinct(self) -> float:
        """The number of values that can be told apart."""
        return self.line.cells

    def rank_share(self, rows: float, beta: float) -> float:
        """Bound the share: of m = n·k/2 slopes |below − above| stays below (4k/ε')·ln(cells/β)."""
        return 4 * math.log(self.distinct / beta) / (rows * self.epsilon_each)
