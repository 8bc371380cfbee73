"""Attacks on medians of all pairs' values: exact likelihood ratios of the line that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.target import Attack, Target, seen
from dpspark.audit.theil_sen.pairs import edge_losses, loss_at
from dpspark.audit.theil_sen.shared import (
    PLANE,
    TABLES,
    fitted,
    small_tables,
    spread_finding,
    spread_of,
    steps_of,
)
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.all_pairs import AllPairsLines
from dpspark.mechanisms.lines.pairs import all_pairs, values_at
from dpspark.mechanisms.lines.plane import Rows, SimpleFit
from dpspark.privacy.sensitivity import all_pairs_rank_spread
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec

# Found by climbing on the exact law of a 4-cell grid at epsilon = 1: the last record takes the first one's place.
REPLACED = [
    (0.82, 0.1), (0.88, 0.2), (1, 0.2), (0.92, 0.2), (0.96, 0.2), (0.98, 0.2), (0.86, 0.5), (0.86, 0.2), (0.9, 0.5), (0.8, 1)
]  # fmt: skip


def case(spec: Spec, times: float = 1.0) -> Case:
    """Tell lines of two neighbours apart; `times` is by how much the exponent is too large."""
    line = cast(AllPairsLines, choose(spec)).line
    plane = line.plane

    def weight(rows: Rows) -> Callable[[SimpleFit], float]:
        values = values_at(rows, all_pairs(len(rows)), plane.anchors, plane.candidate_range, line.cells)
        gamma, of = line.exponent / max(1, len(rows) - 1), [line.runs(part) for part in values]

        def of_line(fit: SimpleFit) -> float:
            edges = steps_of(fit, plane, plane.anchors, line.cells)
            return -gamma * sum(loss_at(runs, edge) for runs, edge in zip(of, edges, strict=True))

        return of_line

    return case_of(spec, spec.release_budget, fitted(plane, line.quieter(times), weight, REPLACED))


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find how far |below − above| at two edges is driven apart, of whole tables, for each other record."""
    cells, worst = 20, 0.0
    for before, after in small_tables("replaced"):
        losses = []
        for table in (before, after):
            rows = PLANE.rows(table[:, 0], table[:, 1])
            (values,) = values_at(rows, all_pairs(len(rows)), (0.25,), (0.0, 1.0), cells)
            losses.append(edge_losses(values, cells))
        worst = max(worst, spread_of(losses[1] - losses[0]) / max(1, len(before) - 1))
    return [spread_finding(target, neighbours, all_pairs_rank_spread(), worst, TABLES, "for each other record")]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"exponent × 4": seen(lambda: case(spec, 4.0))}


# It is for a public number of rows.
TARGET = Target("theil_sen", "all_pairs", case, noise_free, broken, ("replace_one",), {"cells": 4})
