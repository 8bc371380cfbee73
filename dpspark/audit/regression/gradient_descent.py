"""The attack on gradient descent: every noisy gradient, which is what the guarantee covers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.likelihood import additive_ratio
from dpspark.audit.neighbours import neighbour_tables
from dpspark.audit.recorded import RecordedNoise
from dpspark.audit.sensitivity_attack import gradient_finding
from dpspark.audit.tables import TableRows
from dpspark.audit.target import Attack, Target, seen
from dpspark.core.domain import Domain
from dpspark.mechanisms.regression.gradient_descent import GradientDescent
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.choose import choose_regression
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell noisy gradients apart; the release publishes less. The record's is clipped."""
    mechanism = choose_regression(spec)
    assert isinstance(mechanism, GradientDescent)
    drawn = mechanism.quieter(quieter)
    domain, of = mechanism.domain, mechanism.gradients
    before, after = neighbour_tables(domain.regressors, spec.records.change, spec.records.rows, "l2")
    response = domain.numeric[-1]
    # A replaced record keeps its regressors and turns its response round.
    first = [(*after[0], response.lower)] * len(before)
    tables = [TableRows.of(domain, rows) for rows in (first, [(*row, response.upper) for row in after])]

    def draw(side: int, _: NoiseSource) -> float:
        recorded, gradients = RecordedNoise(), []  # two gradients a step, with and without the record

        def gradient(theta: np.ndarray, clip: Any) -> Any:
            found = [table.gradient(domain, theta, clip) for table in tables]
            gradients.append([np.array(part.reveal(), dtype=float) for part in found])
            return found[side]

        drawn.descend(gradient, recorded, lambda step: None)
        exact = [np.concatenate([pair[which] for pair in gradients]) for which in (0, 1)]
        noisy = exact[side] + np.array(recorded.draws, dtype=float)
        return additive_ratio(of.law.name, np.full(len(noisy), of.grid_std), (exact[0], exact[1]))(noisy)

    return case_of(spec, spec.release_budget, draw)


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [gradient_finding(target, neighbours)]


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"noise ÷ 5": seen(lambda: case(spec, 5.0))}


TARGET = Target("regression", "gradient_descent", case, noise_free, broken, options={"steps": 4})
