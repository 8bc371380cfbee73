"""Discrete noise on the number of rows of each group, and on how all rows lie around the released lines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.facts import Facts
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.exact.histogram import Axis, ExactHistogram
from dpspark.exact.line_cells import STEPS, LineCells
from dpspark.mechanisms.base import ANY, Currency, Kind, Mechanism
from dpspark.mechanisms.counts.rows import ROUNDED_UP, count_std, law_of_count
from dpspark.mechanisms.lines.base import LineProblem
from dpspark.mechanisms.lines.defaults import RESIDUAL, ROWS
from dpspark.mechanisms.lines.errors import height_of
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.events import Event
from dpspark.privacy.laws import GAUSSIAN, Law
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import group_counts, line_cells

CELLS_SHARE = Fraction(1, 10)  # of what is spent: rows of all groups together need little
ENOUGH = 6.0  # rows that are expected in a cell, in scales of its noise: with fewer there are fewer cells
MOST_X_CELLS = 8
GROUPS, CELLS = "groups", "cells"


@dataclass(frozen=True)
class NoisyGroupCounts:
    """Numbers of rows of the groups and of the cells, in their order, and the standard deviations of their noise."""

    rows: tuple[int, ...]
    noise_std: float  # 0 where the number of rows is public
    cells: tuple[int, ...]
    cells_std: float


@dataclass(frozen=True)
class GroupCounts(Mechanism):
    """The number of rows of each group, and of each cell of x and residual over all groups, with noise.

    For counts Laplace noise is used, so that delta is left alone; in rho it is Gaussian.

    Privacy
        Unit         one record: `Records` says what it does to its rows, and in how many groups
        Requires     lines that are released before; a row is in one group and in one cell of exact.line_cells, or in none
        Sensitivity  sensitivity.group_counts and sensitivity.line_cells, in the law's norm
        Guarantee    pure: epsilon = sensitivity / scale; zCDP: rho = (sensitivity / scale)² / 2; of the two parts
                     together, in addition to the lines
        Source       Canonne, Kamath & Steinke (2020), Theorem 4 and Section 5; Dwork et al. (2006), Proposition 1
        Public       scales, cells; the numbers of rows themselves if no record can change them
        Excluded     timing
        Tested by    tests/mechanisms/test_group_counts.py
    """

    kind: ClassVar[Kind] = "extra"
    name: ClassVar[str] = "group_counts"
    words: ClassVar[str] = "Noise, added once to each group's number of rows, and to counts of rows around all lines."
    currencies: ClassVar[tuple[Currency, ...]] = ANY
    records: Records
    law: Law
    scale: float  # of the groups' numbers; 0 where these are public
    cells_scale: float
    cells: LineCells

    @classmethod
    def for_budget(cls, problem: LineProblem, budget: Budget, options: int = 1) -> Self:
        """Take the least noise within the budget for a number of groups; counts that are public take nothing of it."""
        law, public = law_of_count(budget), problem.records.public_rows
        spread = (problem.y_spread or RESIDUAL) * height_of(problem.plane)
        of_cells = budget if public else budget.part(CELLS_SHARE)
        cells_scale = _scale(law, line_cells(law.norm, problem.records), of_cells)
        scale = 0.0 if public else _scale(law, group_counts(law.norm, problem.records), budget.part(1 - CELLS_SHARE))
        rows = (problem.expected_rows or ROWS) * options
        x_cells = min(MOST_X_CELLS, max(1, int(rows / cells_scale / (len(STEPS) + 1) / ENOUGH)))
        return cls(problem.records, law, scale, cells_scale, LineCells(x_cells, spread))

    @classmethod
    def from_facts(cls, problem: LineProblem, facts: Facts, claimed: Budget) -> Self:
        records, parts = problem.records, facts.part("cells")
        scale = 0.0 if records.public_rows else facts.positive("scale")
        cells = LineCells(parts.whole("x_cells"), parts.positive("spread"))
        return cls(records, law_of_count(claimed), scale, parts.positive("scale"), cells)

    @property
    def noise_std(self) -> float:
        return count_std(self.law, self.scale)

    @property
    def cells_std(self) -> float:
        return count_std(self.law, self.cells_scale)

    def axes(self, groups: int) -> list[Axis]:
        """The axes of the exact histogram: one cell for each group, and one for each cell around the lines."""
        return [Axis(GROUPS, 0.0, 1.0, groups), Axis(CELLS, 0.0, 1.0, self.cells.count)]

    def release(self, exact: ExactHistogram, noise: NoiseSource) -> NoisyGroupCounts:
        """Draw the noise, once."""
        rows, cells = (_all_counts(exact, axis) for axis in exact.axes)
        if self.scale > 0:
            rows = rows + np.array(self.law.draw(noise, self.scale, len(rows)), dtype=np.int64)
        cells = cells + np.array(self.law.draw(noise, self.cells_scale, len(cells)), dtype=np.int64)
        return NoisyGroupCounts(tuple(rows.tolist()), self.noise_std, tuple(cells.tolist()), self.cells_std)

    def events(self) -> tuple[Event, ...]:
        """All counts get their noise together: one event, with each part in units of its own scale."""
        records, norm = self.records, self.law.norm
        parts = [(line_cells(norm, records), 2 * records.rows, self.cells_scale)]
        if self.scale > 0:
            parts.append((group_counts(norm, records), records.groups, self.scale))
        losses = [moved / scale for moved, _, scale in parts]
        if self.law is not GAUSSIAN:
            return (self.law.event(sum(losses), 0.0),)
        distance = sum(distance_from_rounded(entries, scale) for _, entries, scale in parts)
        return (self.law.event(math.hypot(*losses), distance),)

    def sensitivity_in_words(self) -> tuple[float, str]:
        return group_counts(self.law.norm, self.records), f"{self.law.norm} of all groups"

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """Compare the words, too."""
        own = self.facts()
        said = stated.says(own, "sampler") and stated.part("sensitivity").says(own["sensitivity"], "norm")
        return (*super().differences(stated), *(() if said else ("sampler or norm",)))

    def facts(self) -> dict[str, Any]:
        value, norm = self.sensitivity_in_words()
        return {
            "sampler": f"{self.law.sampler}, independent for each group and cell, drawn once",
            "scale": self.scale,
            "sensitivity": {"value": value, "norm": norm},
            "cells": {
                "scale": self.cells_scale,
                "sensitivity": line_cells(self.law.norm, self.records),
                "x_cells": self.cells.x_cells,
                "spread": self.cells.spread,
            },
        }


def _scale(law: Law, sensitivity: float, budget: Budget) -> float:
    if budget.rho is not None:
        scale = sensitivity / math.sqrt(2 * budget.rho)
    else:
        assert budget.epsilon is not None
        scale = sensitivity / budget.epsilon
    if not scale * ROUNDED_UP <= law.largest:
        raise ConfError(f"release.group_counts: the budget asks for noise of {scale:g} rows, which cannot be drawn.")
    return scale * ROUNDED_UP


def _all_counts(exact: ExactHistogram, axis: Axis) -> np.ndarray:
    counts = np.zeros(axis.cells, dtype=np.int64)
    occupied, found = exact.reveal(axis.name)
    counts[occupied] = found
    return counts
