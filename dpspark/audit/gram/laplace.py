"""Attacks on Laplace noise on a matrix: added to each entry, and what a record moves in the l1 norm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.gram.additive import matrix_case
from dpspark.audit.sensitivity_attack import DOMAINS, matrix_finding
from dpspark.audit.tables import Raw, bounded_rows
from dpspark.audit.target import Attack, Target, found_without_noise, measured, seen
from dpspark.core.domain import Domain
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec

NUMBERS = "3 numbers"


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell matrices of two neighbours apart; `quieter` is how many times too small the noise is."""
    mechanism = choose_gram(spec)
    assert isinstance(mechanism, LaplaceGram)
    return matrix_case(spec, mechanism, "l1", replace(mechanism, scale=mechanism.scale / quieter))


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [matrix_finding(target, neighbours, "l1", domains=domains)]


def without_clipping(domain: Domain, rows: Raw) -> np.ndarray:
    """Rows that are scaled, not clipped; what is no number is 0."""
    z = bounded_rows(domain, rows)
    for at, column in enumerate(domain.numeric):
        raw = np.array([np.nan if row[at] is None else row[at] for row in rows], dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):
            z[:, at + 1] = np.nan_to_num(np.clip((raw - column.middle) / column.half, -1e6, 1e6))
    return z


def broken(spec: Spec) -> Mapping[str, Attack]:
    plain = {NUMBERS: DOMAINS[NUMBERS]}
    return {
        "values not clipped": found_without_noise(
            lambda: matrix_finding("gram laplace", "replace_one", "l1", bound=without_clipping, domains=plain)
        ),
        "noise ÷ 4": seen(lambda: case(spec, 4), 2),
        "noise ÷ √1.5": measured(lambda: case(spec, math.sqrt(1.5))),
    }


TARGET = Target("gram", "laplace", case, noise_free, broken)
