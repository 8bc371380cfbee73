"""Attacks on matrices that are drawn from Wishart laws: by the likelihood of what was released, and the longest row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import case_of
from dpspark.audit.neighbours import neighbour_tables, worst_change
from dpspark.audit.sensitivity_attack import DOMAINS, ROOM
from dpspark.audit.tables import gram_of
from dpspark.core.domain import Domain
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.gram.floating import FloatingGram
from dpspark.mechanisms.gram.noisy import NoisyGram
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.privacy.sensitivity import squared_row_norm
from dpspark.spec.spec import Spec

# One added row: a replaced one is two of them by group privacy, which is not tight.
RELATIONS = ("add_remove",)
Ratio = Callable[[NoisyGram], float]


def matrix_case(
    spec: Spec, mechanism: FloatingGram, ratio_of: Callable[[np.ndarray, np.ndarray], Ratio], drawn: FloatingGram
) -> Case:
    """Tell matrices of two neighbours apart. `ratio_of` makes the ratio of likelihoods; `drawn` makes the releases."""
    domain = mechanism.domain
    norm = "frobenius" if domain.row_norm else "l2"
    tables = neighbour_tables(domain, spec.records.change, spec.records.rows, norm)  # type: ignore[arg-type]
    grams: list[ExactGram] = [gram_of(domain, table) for table in tables]
    ratio = ratio_of(*map(scaled_matrix, grams))
    return case_of(spec, spec.release_budget, lambda side, noise: ratio(drawn.release(grams[side], noise)))


def released_matrix(noisy: NoisyGram) -> np.ndarray:
    """Read the released matrix, in units of 1.0."""
    width = noisy.domain.width
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = np.array(noisy.upper, dtype=float) / noisy.domain.steps_per_row
    return np.triu(matrix, 1) + matrix.T


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    """Find the longest row."""
    found = []
    for name, domain in DOMAINS.items():
        worst = worst_change(domain, "added", "frobenius")  # ‖zzᵀ‖ is ‖z‖²
        found.append((worst.moved / squared_row_norm(domain), squared_row_norm(domain), worst.moved, name))
    ratio, most, moved, note = max(found)
    broken = ratio > ROOM
    return [Finding("sensitivity", target, neighbours, "squared row norm", most, moved, len(found), broken, note=note)]
