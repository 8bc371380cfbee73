"""Distinguishing attacks on regressions, built from a spec as a release is, and what the attacks of all kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpspark.audit.attacks import Case, NoiseView
from dpspark.audit.likelihood import (
    additive_ratio,
    exact_statistics,
    statistics_std,
    statistics_vector,
)
from dpspark.audit.neighbours import neighbour_tables, orthogonal_rows
from dpspark.audit.recorded import RecordedNoise
from dpspark.audit.tables import TableRows
from dpspark.exact.gradient import GRADIENT_BITS
from dpspark.mechanisms.regression.descent import GradientDescent
from dpspark.mechanisms.regression.regressions import DescentRegression, ObjectiveRegression, StatisticsRegression
from dpspark.mechanisms.regression.statistics import NoisyStatistics
from dpspark.privacy.budget import Budget, zcdp_epsilon
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.spec import Spec

AT_RHO = 1e-6  # the delta at which a claim in rho is shown


def target_of(spec: Spec) -> str:
    return f"{spec.release.kind} {spec.mechanism_name}"


def claim_of(budget: Budget) -> tuple[float, float]:
    if budget.rho is not None:
        return zcdp_epsilon(budget.rho, AT_RHO), AT_RHO
    assert budget.epsilon is not None
    return budget.epsilon, budget.delta or 0.0


def case_of(
    spec: Spec, budget: Budget, draw: Callable[[int, NoiseSource], Any], target: str = "", view: NoiseView | None = None
) -> Case:
    epsilon, delta = claim_of(budget)
    return Case(target or target_of(spec), spec.privacy.neighbours, epsilon, delta, draw, view)


def additive_case(
    spec: Spec,
    budget: Budget,
    law: str,
    std: np.ndarray,
    exact: Sequence[np.ndarray],
    see: Callable[[int, NoiseSource], np.ndarray],
    target: str = "",
) -> Case:
    """Numbers that get independent noise: `see` makes a release and lists them. A standard deviation of 0: a public one."""
    ratio, used = additive_ratio(law, std, (exact[0], exact[1])), std > 0
    shift = (exact[1] - exact[0])[used] / std[used]
    view = NoiseView(law, shift, lambda noise: ((see(1, noise) - exact[1])[used]) / std[used])
    return case_of(spec, budget, lambda side, noise: ratio(see(side, noise)), target, view)


def statistics_case(
    spec: Spec,
    mechanism: StatisticsRegression | ObjectiveRegression,
    drawn: StatisticsRegression | ObjectiveRegression | None = None,
) -> Case:
    """The released statistics, all at once; of `objective` also its coefficients, by their density inside the ball."""
    domain, maker = mechanism.domain, drawn or mechanism
    before, after = neighbour_tables(domain.regressors, spec.records.change, spec.records.rows, "l2")
    response = domain.numeric[-1]
    ends = [[(*row, end) for row in rows] for rows, end in ((before, response.lower), (after, response.upper))]
    rest = orthogonal_rows(domain, ends[1][0]) if mechanism.statistics.shares.least_eigenvalue else []
    if isinstance(mechanism, ObjectiveRegression):  # others like it, who say the opposite: its gradient is largest
        rest = [(*after[0], response.lower)] * 20
    tables = [TableRows.of(domain, [*rest, *rows]) for rows in ends]
    noise_model = mechanism.statistics.noise
    exact = [exact_statistics(table.exact, noise_model) for table in tables]
    std = statistics_std(noise_model, domain.width - 1)

    def released(side: int, noise: NoiseSource) -> tuple[np.ndarray, np.ndarray]:
        found = maker.release(tables[side], noise, lambda step: None)
        assert isinstance(found.statistics, NoisyStatistics)
        return found.theta, statistics_vector(found.statistics)

    if isinstance(mechanism, StatisticsRegression):
        return additive_case(
            spec, spec.release_budget, "gaussian", std, exact, lambda side, noise: released(side, noise)[1]
        )
    ratio, tilt = additive_ratio("gaussian", std, (exact[0], exact[1])), _tilt_ratio(mechanism, tables)

    def draw(side: int, noise: NoiseSource) -> float:
        theta, statistics = released(side, noise)
        return ratio(statistics) + tilt(theta)

    return case_of(spec, spec.release_budget, draw)


def _tilt_ratio(mechanism: ObjectiveRegression, tables: list[TableRows]) -> Callable[[np.ndarray], float]:
    """θ shows the tilt b(θ) = Σxy − (Σxxᵀ + ridge)θ where it lies inside the ball: φ(b)·det of each table."""
    from dpspark.mechanisms.gram.sampling import scaled_matrix

    parts = []
    for table in tables:
        matrix = scaled_matrix(table.exact)
        parts.append((matrix[:-1, :-1] + mechanism.objective.ridge * np.eye(len(matrix) - 1), matrix[:-1, -1]))
    gap = np.linalg.slogdet(parts[1][0])[1] - np.linalg.slogdet(parts[0][0])[1]

    def ratio(theta: np.ndarray) -> float:
        zero, one = (float(((cross - squares @ theta) ** 2).sum()) for squares, cross in parts)
        return (zero - one) / (2 * mechanism.objective.sigma**2) + gap

    return ratio


def descent_case(spec: Spec, mechanism: DescentRegression, quieter: float = 1.0) -> Case:
    """Every noisy gradient, which is what the guarantee covers; the release publishes less. The record's is clipped."""
    descent, domain = mechanism.descent, mechanism.domain
    before, after = neighbour_tables(domain.regressors, spec.records.change, spec.records.rows, "l2")
    response = domain.numeric[-1]
    # A replaced record keeps its regressors and turns its response round.
    first = [(*after[0], response.lower)] * len(before)
    tables = [TableRows.of(domain, rows) for rows in (first, [(*row, response.upper) for row in after])]

    def draw(side: int, _: NoiseSource) -> float:
        recorded, gradients = RecordedNoise(quieter), []  # two gradients a step, with and without the record

        def gradient(theta: np.ndarray, clip: Any) -> Any:
            found = [table.gradient(domain, theta, clip) for table in tables]
            gradients.append([np.array(part.reveal(), dtype=float) for part in found])
            return found[side]

        descent.release(gradient, recorded, lambda step: None)
        exact = [np.concatenate([pair[which] for pair in gradients]) for which in (0, 1)]
        seen = exact[side] + np.array(recorded.draws, dtype=float)
        return additive_ratio(descent.law, _gradient_std(descent, len(seen)), (exact[0], exact[1]))(seen)

    return case_of(spec, spec.release_budget, draw)


def _gradient_std(descent: GradientDescent, count: int) -> np.ndarray:
    times = 1.0 if descent.law == "gaussian" else 2**0.5
    return np.full(count, descent.scale * times * 2.0**GRADIENT_BITS)
