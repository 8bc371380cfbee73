"""The attack on gradient descent: every noisy gradient, which is what the guarantee covers."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpspark.audit.attacked import Attacked, Broken
from dpspark.audit.attacks import Case
from dpspark.audit.cases import case_of
from dpspark.audit.likelihood import additive_ratio
from dpspark.audit.neighbours import neighbour_tables
from dpspark.audit.recorded import RecordedNoise
from dpspark.audit.sensitivity_attack import gradient_finding
from dpspark.audit.tables import TableRows
from dpspark.mechanisms.regression.gradient_descent import GradientDescent
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.spec import Spec


def descent_case(spec: Spec, mechanism: GradientDescent, drawn: GradientDescent | None = None) -> Case:
    """Every noisy gradient; the release publishes less. The record's is clipped. `drawn` makes the releases, if given."""
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

        (drawn or mechanism).descend(gradient, recorded, lambda step: None)
        exact = [np.concatenate([pair[which] for pair in gradients]) for which in (0, 1)]
        seen = exact[side] + np.array(recorded.draws, dtype=float)
        return additive_ratio(of.law, np.full(len(seen), of.grid_std), (exact[0], exact[1]))(seen)

    return case_of(spec, spec.release_budget, draw)


ATTACKED = Attacked(
    descent_case,
    (gradient_finding,),
    (Broken("noise ÷ 5", lambda spec, made: descent_case(spec, made, made.quieter(5.0))),),
    options={"steps": 4},
)
