"""The distinguishing attack on quantiles, of a release or of the stage that finds bounds."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.audit.attacks import Case
from dpspark.audit.cases import case_of
from dpspark.exact.histogram import Axis, ExactHistogram, HistogramAccumulator
from dpspark.mechanisms.quantiles.exponential import Quantiles
from dpspark.privacy.budget import Budget
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.spec import Spec


def quantile_case(
    spec: Spec, quantiles: Quantiles, budget: Budget, target: str, drawn: Quantiles | None = None
) -> Case:
    """A column of which as much lies below the cut as above it; a record goes from one end to the other, or comes at an end."""
    maker = drawn or quantiles
    axes = tuple(dict.fromkeys(axis for axis, _ in quantiles.targets))
    tables = [_histogram(axes, quantiles, spec.records.change == "added", moved) for moved in (False, True)]
    laws = [[quantiles.law(table, axis, p) for axis, p in quantiles.targets] for table in tables]

    def draw(side: int, noise: NoiseSource) -> float:
        cells = maker.release(tables[side], noise)
        return sum(_log_cell(one, cell) - _log_cell(zero, cell) for zero, one, cell in zip(*laws, cells, strict=True))

    return case_of(spec, budget, draw, target)


def _log_cell(law: Any, cell: int) -> float:
    weight = law.weights[bisect_right(law.first, cell) - 1]
    return math.log(weight) - math.log(law.sums[-1])


class KnownHistogram(ExactHistogram):
    """Counts of a table that the attacker made: looked up once, not in every trial."""

    def reveal(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        self._known: dict[str, Any] = getattr(self, "_known", {})
        if name not in self._known:
            self._known[name] = super().reveal(name)
        return self._known[name]


def _histogram(axes: tuple[Axis, ...], quantiles: Quantiles, added: bool, moved: bool) -> ExactHistogram:
    """Four values around the rank of each quantile: to their left it is 2 ranks too low, to their right 2 too high.

    The record comes at the lowest end, or goes there from the highest: every rank rises by 1.
    """
    columns, rows = [], 400
    for axis in axes:
        chances = sorted(p for of, p in quantiles.targets if of == axis)
        shares, rank, before = [], 0, 0.0
        for number, chance in enumerate(chances):
            at, target = (number + 1) / (len(chances) + 2), round(chance * rows)
            shares += [(before + at) / 2 if number else 0.0] * (target - 2 - rank) + [at] * 4
            rank, before = target + 2, at
        shares += [1.0] * (rows - rank)
        if moved:
            shares = [0.0, *shares] if added else [0.0, *shares[:-1]]
        columns.append(pa.array([axis.lowest + share * (axis.highest - axis.lowest) for share in shares], pa.float64()))
    found = HistogramAccumulator(axes)
    found.add(columns, len(columns[0]))
    return KnownHistogram.from_partials(axes, [found.finish()])
