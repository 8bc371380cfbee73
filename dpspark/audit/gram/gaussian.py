"""Attacks on Gaussian noise on a matrix: added to each entry, and what a record moves in the l2 norm."""

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
from dpspark.core.records import Change
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.privacy.sensitivity import second_moment
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec

BALL = "row norm capped at 1.3"


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell matrices of two neighbours apart; `quieter` is how many times too small the noise is."""
    mechanism = choose_gram(spec)
    assert isinstance(mechanism, GaussianGram)
    norm = "frobenius" if mechanism.domain.row_norm else "l2"
    return matrix_case(spec, mechanism, norm, replace(mechanism, sigma=mechanism.sigma / quieter))  # type: ignore[arg-type]


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [matrix_finding(target, neighbours, None, domains=domains)]


def root_of_columns(domain: Domain, change: Change, rows: int) -> float:
    """Bain et al.: √d for the sensitivity of a matrix whose rows have norm √d."""
    return rows * math.sqrt(domain.width)


def root_of_rows(domain: Domain, change: Change, rows: int) -> float:
    """√m for m rows of one record."""
    return math.sqrt(rows) * second_moment(domain, change).value


def without_row_norm(domain: Domain, rows: Raw) -> np.ndarray:
    """Rows whose norm is not bounded."""
    return bounded_rows(replace(domain, row_norm=None), rows)


def broken(spec: Spec) -> Mapping[str, Attack]:
    name, capped = "gram gaussian", {BALL: DOMAINS[BALL]}
    return {
        "noise ÷ 2": seen(lambda: case(spec, 2)),
        "noise ÷ √1.5": measured(lambda: case(spec, math.sqrt(1.5))),
        "sensitivity √d (Bain et al.)": found_without_noise(
            lambda: matrix_finding(name, "add_remove", None, root_of_columns)
        ),
        "√m for m rows a record": found_without_noise(lambda: matrix_finding(name, "replace_one", None, root_of_rows)),
        "row norm not applied": found_without_noise(
            lambda: matrix_finding(name, "add_remove", None, bound=without_row_norm, domains=capped)
        ),
    }


TARGET = Target("gram", "gaussian", case, noise_free, broken)
