"""The attack on objective: its statistics, and its coefficients by their density inside the ball."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dpspark.audit.attacks import Case
from dpspark.audit.cases import case_of
from dpspark.audit.likelihood import additive_ratio
from dpspark.audit.regression.statistics import (
    chosen,
    ends_of,
    exact_of,
    noise_free,
    releases_of,
    std_of,
    tables_of,
)
from dpspark.audit.tables import TableRows
from dpspark.audit.target import Attack, Target, seen
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.mechanisms.regression.objective import ObjectivePerturbation, Tilt
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell regressions apart, among others like the record who say the opposite: there its gradient is largest.

    The attacker knows the code, so the likelihoods are those of a broken copy too; the claim is the spec's.
    """
    mechanism = chosen(spec).quieter(quieter)
    assert isinstance(mechanism, ObjectivePerturbation)
    ends = ends_of(spec, mechanism)
    other = (*ends[1][0][:-1], mechanism.domain.numeric[-1].lower)
    tables = tables_of(mechanism, ends, [other] * 20)
    released, exact = releases_of(mechanism, tables), exact_of(mechanism, tables)
    ratio = additive_ratio("gaussian", std_of(mechanism), (exact[0], exact[1]))
    tilt = _tilt_ratio(mechanism.tilt, tables)

    def draw(side: int, noise: NoiseSource) -> float:
        theta, statistics = released(side, noise)
        return ratio(statistics) + tilt(theta)

    return case_of(spec, spec.release_budget, draw)


def _tilt_ratio(tilt: Tilt, tables: Sequence[TableRows]) -> Callable[[np.ndarray], float]:
    """θ shows the tilt b(θ) = Σxy − (Σxxᵀ + ridge)θ where it lies inside the ball: φ(b)·det of each table."""
    parts = []
    for table in tables:
        matrix = scaled_matrix(table.exact)
        parts.append((matrix[:-1, :-1] + tilt.ridge * np.eye(len(matrix) - 1), matrix[:-1, -1]))
    gap = np.linalg.slogdet(parts[1][0])[1] - np.linalg.slogdet(parts[0][0])[1]

    def ratio(theta: np.ndarray) -> float:
        zero, one = (float(((cross - squares @ theta) ** 2).sum()) for squares, cross in parts)
        return (zero - one) / (2 * tilt.sigma**2) + gap

    return ratio


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"tilt ÷ 8": seen(lambda: case(spec, 8.0))}


# Two rows' group privacy is not tight: one relation is enough.
TARGET = Target("regression", "objective", case, noise_free, broken, relations=("add_remove",))
