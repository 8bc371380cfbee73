"""DPExpTheilSen with every pair of rows: only where the number of rows is public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dpspark.core.facts import Facts
from dpspark.mechanisms.base import option
from dpspark.mechanisms.lines.base import (
    COVER,
    DrawnLines,
    LineMechanism,
    LineProblem,
    Target,
    check_public_rows,
    epsilon_for_draws,
    need_public_rows,
)
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.pairs import CELLS
from dpspark.mechanisms.options import CELLS as CELLS_OPTION
from dpspark.privacy.budget import Budget
from dpspark.privacy.sensitivity import all_pairs_rank_spread


@dataclass(frozen=True)
class AllPairsOptions:
    """The options of `all_pairs`."""

    cells: int | None = option(CELLS_OPTION)


@dataclass(frozen=True, kw_only=True)
class AllPairsLines(DrawnLines):
    """`all_pairs`: for each group an ExponentialTheilSen without matchings."""

    name: ClassVar[str] = "all_pairs"
    kernel_name: ClassVar[str] = "all_pairs"
    words: ClassVar[str] = (
        "Values at the cuts were drawn from those of all pairs of rows; nearer to the median is more likely."
    )
    target: ClassVar[Target] = "median"
    Options: ClassVar[type] = AllPairsOptions
    paid_interval: ClassVar[bool] = True
    at_each_cut: ClassVar[bool] = True
    slow: ClassVar[bool] = True
    line: ExponentialTheilSen

    @classmethod
    def calibrated(cls, problem: LineProblem, budget: Budget, options: AllPairsOptions) -> LineMechanism:
        epsilon, route = epsilon_for_draws(budget, len(problem.plane.anchors))
        need_public_rows(cls.name, problem.records)
        exponent = epsilon / all_pairs_rank_spread(problem.records.rows) * COVER
        line = ExponentialTheilSen(problem.plane, exponent, None, options.cells or CELLS)
        return cls(problem=problem, line=line, route=route, budget=budget, options=options, epsilon_each=epsilon)

    @classmethod
    def read(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> LineMechanism:
        check_public_rows(cls.name, problem.records)
        line = ExponentialTheilSen(problem.plane, facts.positive("exponent"), None, facts.whole("cells"))
        return cls.read_drawn(problem, line, facts, claimed)

    @property
    def draws(self) -> int:
        return len(self.plane.anchors)

    @property
    def spread(self) -> int:
        return all_pairs_rank_spread(self.records.rows)

    def option_facts(self) -> dict[str, Any]:
        return {"matchings": None, "cells": self.line.cells}
