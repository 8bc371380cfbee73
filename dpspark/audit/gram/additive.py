"""Attacks on independent noise that is added to a matrix."""

from __future__ import annotations

import numpy as np

from dpspark.audit.attacks import Case
from dpspark.audit.cases import additive_case
from dpspark.audit.likelihood import additive_std
from dpspark.audit.neighbours import Norm, neighbour_tables
from dpspark.audit.tables import gram_of, upper_of
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.spec import Spec

Additive = GaussianGram | LaplaceGram


def matrix_case(spec: Spec, mechanism: Additive, norm: Norm, drawn: Additive | None = None) -> Case:
    """Tell matrices of two neighbours apart. `drawn` is what makes the releases, if it is not the mechanism as claimed."""
    domain, maker = mechanism.domain, drawn or mechanism
    tables = neighbour_tables(domain, spec.records.change, spec.records.rows, norm)
    grams = gram_of(domain, tables[0]), gram_of(domain, tables[1])
    std, exact = additive_std(mechanism.noise, domain.width), [upper_of(gram) for gram in grams]

    def see(side: int, noise: NoiseSource) -> np.ndarray:
        return np.array(maker.release(grams[side], noise).upper, dtype=float) / domain.steps_per_row

    return additive_case(spec, spec.release_budget, mechanism.noise.law, std, exact, see)
