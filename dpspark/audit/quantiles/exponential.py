"""Attacks on quantiles, of a release or of the extra that finds bounds."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.sensitivity_attack import CHANGES
from dpspark.audit.target import Attack, Target, seen
from dpspark.audit.theil_sen.shared import spread_finding, spread_of
from dpspark.core.domain import Domain
from dpspark.exact.histogram import Axis, ExactHistogram, HistogramAccumulator
from dpspark.mechanisms.quantiles.exponential import Quantiles, cell_weights
from dpspark.privacy.budget import Budget
from dpspark.privacy.noise import NoiseSource
from dpspark.privacy.sensitivity import rank_distance
from dpspark.spec.choose import choose_quantiles
from dpspark.spec.spec import Spec


def case(spec: Spec) -> Case:
    return quantile_case(spec, choose_quantiles(spec).quantiles, spec.release_budget)


def quantile_case(
    spec: Spec, quantiles: Quantiles, budget: Budget, target: str = "", drawn: Quantiles | None = None
) -> Case:
    """A column of which as much lies below the cut as above it; a record goes from one end to the other, or comes at an end."""
    maker = drawn or quantiles
    axes = tuple(dict.fromkeys(axis for axis, _ in quantiles.targets))
    tables = [_histogram(axes, quantiles, spec.records.change == "added", moved) for moved in (False, True)]
    laws = [[quantiles.law(table, axis, p) for axis, p in quantiles.targets] for table in tables]

    def draw(side: int, noise: NoiseSource) -> float:
        cells = maker.release(tables[side], noise)
        return sum(log_cell(one, cell) - log_cell(zero, cell) for zero, one, cell in zip(*laws, cells, strict=True))

    return case_of(spec, budget, draw, target)


def log_cell(law: Any, cell: int) -> float:
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


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [quantile_finding(target, neighbours)]


def quantile_finding(target: str, neighbours: str) -> Finding:
    """Find how far a record drives apart the distance of every cell from the quantile, as the weights have it."""
    change, rng, gamma, found = CHANGES[neighbours], np.random.default_rng(5), 0.25, []
    for chance in (0.01, 0.3, 0.5):
        worst = 0.0
        for _ in range(40):
            values = rng.integers(0, 6, int(rng.integers(2, 60)))
            after = np.append(values if change == "added" else values[1:], rng.integers(0, 6))
            logs = []
            for table in (values, after):
                up_to = np.cumsum(np.bincount(table, minlength=6))
                weights = cell_weights(np.concatenate([[0], up_to[:-1]]), up_to, Fraction(chance) * len(table), gamma)
                logs.append(np.array([math.log(weight) / gamma for weight in weights]))
            worst = max(worst, spread_of(logs[1] - logs[0]))
        most = 2 * rank_distance(chance, change)
        found.append((worst / most, most, worst, f"ranks, at probability {chance}"))
    _, most, worst, note = max(found)
    return spread_finding(target, neighbours, most, worst, 120, note, 1 + 1e-9)


def too_sharp(spec: Spec) -> Case:
    """Draw with four times the exponent that the budget allows."""
    of = choose_quantiles(spec).quantiles
    return quantile_case(spec, of, spec.release_budget, drawn=replace(of, epsilon_each=4 * of.epsilon_each))


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"exponent × 4": seen(lambda: too_sharp(spec), 2)}


TARGET = Target("quantiles", "exponential", case, noise_free, broken)
