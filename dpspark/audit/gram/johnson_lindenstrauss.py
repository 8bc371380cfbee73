"""Attacks on Johnson-Lindenstrauss projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case
from dpspark.audit.gram.floating import RELATIONS, Ratio, matrix_case, noise_free, released_matrix
from dpspark.audit.target import Attack, Target, seen
from dpspark.mechanisms.gram.johnson_lindenstrauss import JohnsonLindenstraussGram
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell matrices of two neighbours apart; `quieter` is how many times too small the ridge is."""
    mechanism = choose_gram(spec)
    assert isinstance(mechanism, JohnsonLindenstraussGram)
    drawn = replace(mechanism, ridge=mechanism.ridge / quieter)
    return matrix_case(spec, mechanism, lambda zero, one: _ratio(mechanism.ridge, zero, one), drawn)


def _ratio(ridge: float, zero: np.ndarray, one: np.ndarray) -> Ratio:
    """Wishart(Σ, r): tr(M Σ⁻¹). The determinants of Σ are constants."""
    eye = np.eye(len(zero))
    weights = np.linalg.inv(zero + ridge * eye) - np.linalg.inv(one + ridge * eye)
    return lambda noisy: float((weights * (released_matrix(noisy) + ridge * eye)).sum())


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"ridge ÷ 3": seen(lambda: case(spec, 3), times=4)}


TARGET = Target("gram", "johnson_lindenstrauss", case, noise_free, broken, RELATIONS, {"rows": 40})
