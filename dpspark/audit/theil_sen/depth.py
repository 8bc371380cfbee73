"""Attacks on regression depth: exact likelihood ratios of the line that is drawn."""

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
from dpspark.mechanisms.lines.depth import DepthLines, line_depths
from dpspark.mechanisms.lines.plane import Rows, SimpleFit
from dpspark.privacy.sensitivity import depth_spread
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec

# Found by climbing on the exact laws of a 4-cell grid at epsilon = 1: the last record is added, or takes the first one's place.
ADDED = [(0.55, 0.65), (0, 0), (0.45, 1), (0.13, 0.99), (0.5, 0.06), (0.55, 0.27), (0.4, 0), (0.4, 1)]
REPLACED = [(0.5, 1), (0.55, 0.5), (0, 0), (0.5, 0), (0.5, 0), (1, 0.75), (0.45, 0)]


def case(spec: Spec, times: float = 1.0) -> Case:
    """Tell lines of two neighbours apart; `times` is by how much the exponent is too large."""
    line, added = cast(DepthLines, choose(spec)).line, spec.records.change == "added"

    def weight(rows: Rows) -> Callable[[SimpleFit], float]:
        return grid_weight(line.grid, line.exponent * line_depths(line.grid, rows).astype(float))

    draw = fitted(line.grid.plane, line.quieter(times), weight, ADDED if added else REPLACED, added)
    return case_of(spec, spec.release_budget, draw)


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find how far a record drives the depths of two lines apart."""
    change = CHANGES[neighbours]

    def depths(table: np.ndarray) -> np.ndarray:
        return line_depths(GRID, PLANE.rows(table[:, 0], table[:, 1]))

    return [scores_finding(target, neighbours, depth_spread(change), change, depths)]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"exponent × 2": seen(lambda: case(spec, 2.0), 3)}


TARGET = Target("theil_sen", "depth", case, noise_free, broken, options={"cells": 4})
