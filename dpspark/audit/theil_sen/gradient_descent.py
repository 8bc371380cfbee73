"""Attacks on the noisy gradients of a line's descent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case
from dpspark.audit.sensitivity_attack import gradient_finding
from dpspark.audit.target import Attack, Target, measured
from dpspark.audit.theil_sen.shared import corner_tables, fresh_stream
from dpspark.core.domain import Domain
from dpspark.mechanisms.lines.gradient_descent import UNIT, DescentLines, clipped_gradient_sum
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.choose import choose
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell gradients of every step apart, at the values where the descent starts: a record far from them, on either side."""
    line = cast(DescentLines, choose(spec)).line
    low, high = line.plane.candidate_range
    start = np.full(2, (low + high) / 2)
    tables = corner_tables(spec, line.plane)
    exact = [np.tile(clipped_gradient_sum(line, rows, start), line.steps) / UNIT for rows in tables]

    def see(side: int, _: NoiseSource) -> np.ndarray:
        stream = fresh_stream(quieter)
        return np.concatenate([line.noisy_gradient(tables[side], start, stream) for _ in range(line.steps)])

    return additive_case(spec, spec.release_budget, line.law, np.full(2 * line.steps, line.std), exact, see)


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [gradient_finding(target, neighbours)]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ √3": measured(lambda: case(spec, 3**0.5))}


TARGET = Target("theil_sen", "gradient_descent", case, noise_free, broken, options={"steps": 4})
