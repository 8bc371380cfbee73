"""Attacks on bounded residuals: exact likelihood ratios of the line that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.sensitivity_attack import CHANGES
from dpspark.audit.target import Attack, Target, seen
from dpspark.audit.theil_sen.shared import GRID, PLANE, fitted, grid_weight, scores_finding
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.huber import UNIT, HuberLine, HuberLines
from dpspark.mechanisms.lines.plane import Rows, SimpleFit
from dpspark.privacy.sensitivity import score_spread
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec

# Found by climbing on the exact laws of a 4-cell grid at epsilon = 1: the last record is added, or takes the first one's place.
ADDED = [(0.1, 1), (0.79, 0.75), (0, 0.1), (0.66, 0), (0.6, 0), (0.9, 0.01), (0.6, 0), (0.25, 0.61)]
REPLACED = [
    (0.5, 1), (0.5, 0.75), (0.75, 0), (0.45, 0.75), (1, 0.5), (0.45, 1), (0.1, 0.5), (0.25, 0), (0.45, 0)
]  # fmt: skip


def case(spec: Spec, times: float = 1.0) -> Case:
    """Tell lines of two neighbours apart; `times` is by how much the exponent is too large."""
    line, added = cast(HuberLines, choose(spec)).line, spec.records.change == "added"

    def weight(rows: Rows) -> Callable[[SimpleFit], float]:
        return grid_weight(line.grid, -line.exponent / (line.clip_steps * UNIT) * line.scores(rows))

    draw = fitted(line.grid.plane, line.quieter(times), weight, ADDED if added else REPLACED, added)
    return case_of(spec, spec.release_budget, draw)


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find how far a record drives the scores of two lines apart."""
    change, line = CHANGES[neighbours], HuberLine(GRID, 1.0, 0.1)

    def scores(table: np.ndarray) -> np.ndarray:
        return line.scores(PLANE.rows(table[:, 0], table[:, 1])) / (line.clip_steps * UNIT)

    return [scores_finding(target, neighbours, score_spread(change), change, scores)]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"exponent × 3": seen(lambda: case(spec, 3.0))}


TARGET = Target("theil_sen", "huber", case, noise_free, broken, options={"cells": 4})
