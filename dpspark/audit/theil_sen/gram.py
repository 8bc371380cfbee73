"""Attacks on a group's noisy moments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case
from dpspark.audit.sensitivity_attack import matrix_finding
from dpspark.audit.target import Attack, Target, measured
from dpspark.audit.theil_sen.shared import corner_tables, fresh_stream
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.gram import MomentsLines
from dpspark.mechanisms.lines.plane import FINE
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell noisy moments apart: a record in a corner, or one that goes from one corner to the next."""
    line = cast(MomentsLines, choose(spec)).line
    tables, at = corner_tables(spec, line.plane), np.triu_indices(3)
    std = np.where(at[0] == at[1], line.std(line.diagonal), line.off_diagonal_std)
    if line.public_rows:
        std[0] = 0.0
    exact = []
    for rows in tables:
        z = np.stack([np.ones(len(rows)), 2 * rows.x / FINE - 1, 2 * rows.y / FINE - 1])
        exact.append((z @ z.T)[at])

    def see(side: int, _: NoiseSource) -> np.ndarray:
        return line.noisy(tables[side], fresh_stream(quieter))[at]

    return additive_case(spec, spec.release_budget, line.law, std, exact, see)


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [matrix_finding(target, neighbours, "l1")]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ √3": measured(lambda: case(spec, 3**0.5))}


TARGET = Target("theil_sen", "gram", case, noise_free, broken)
