"""Distinguishing attacks on matrices and counts, each built from a spec as the pipeline builds a release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpspark.audit.attacks import Case, NoiseView
from dpspark.audit.likelihood import (
    additive_ratio,
    additive_std,
    gram_ratio,
)
from dpspark.audit.neighbours import neighbour_tables
from dpspark.audit.tables import gram_of, upper_of
from dpspark.core.domain import Categorical
from dpspark.exact.row_count import ExactCount
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.privacy.budget import Budget, zcdp_epsilon
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.choose import GramMechanism
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


def gram_case(spec: Spec, mechanism: GramMechanism, drawn: GramMechanism | None = None) -> Case:
    """`drawn` is what makes the releases, if it is not the mechanism as claimed."""
    domain = mechanism.domain
    norm = "l1" if spec.mechanism_name == "laplace" else "frobenius" if domain.row_norm else "l2"
    tables = neighbour_tables(domain, spec.records.change, spec.records.rows, norm)  # type: ignore[arg-type]
    grams = gram_of(domain, tables[0]), gram_of(domain, tables[1])
    maker, budget = drawn or mechanism, spec.release_budget
    if isinstance(mechanism, GaussianGram | LaplaceGram):
        std, exact = additive_std(mechanism.noise, domain.width), [upper_of(gram) for gram in grams]

        def see(side: int, noise: NoiseSource) -> np.ndarray:
            return np.array(maker.release(grams[side], noise).upper, dtype=float) / domain.steps_per_row

        return additive_case(spec, budget, mechanism.noise.law, std, exact, see)
    ratio = gram_ratio(mechanism, grams)
    return case_of(spec, budget, lambda side, noise: ratio(maker.release(grams[side], noise)))


def counts_case(spec: Spec, counts: ClippedCounts, drawn: ClippedCounts | None = None) -> Case:
    """Clipped values, counted: a record beyond a bound of every column, and of the other one where it is replaced."""
    domain, maker = counts.domain, drawn or counts
    beyond = [
        tuple(c.categories[0] if isinstance(c, Categorical) else c.middle + sign * 3 * c.half for c in domain.columns)
        for sign in (-1, 1)
    ]
    before = [] if spec.records.change == "added" else [beyond[0]] * spec.records.rows
    grams = [gram_of(domain, rows, count_clipped=True) for rows in (before, [beyond[1]] * spec.records.rows)]
    exact = [np.array(gram.reveal_clipped(), dtype=float) for gram in grams]
    std = np.full(len(exact[0]), counts.noise_std)

    def see(side: int, noise: NoiseSource) -> np.ndarray:
        return np.array(maker.release(grams[side], 1.0, noise).share)

    return additive_case(spec, spec.stage_budget("diagnostics"), counts.law, std, exact, see, "stage diagnostics")


def row_count_case(spec: Spec, counted: RowCount) -> Case:
    """The number of rows: a record's, or none."""
    counts = [ExactCount(0), ExactCount(spec.records.rows)]
    exact = [np.array([float(count.reveal())]) for count in counts]

    def see(side: int, noise: NoiseSource) -> np.ndarray:
        return np.array([float(counted.release(counts[side], noise).rows)])

    std = np.array([counted.noise_std])
    return additive_case(spec, spec.stage_budget("count"), counted.law, std, exact, see, "stage count")
