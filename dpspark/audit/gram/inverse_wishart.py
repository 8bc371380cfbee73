"""Attacks on inverse-Wishart sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case
from dpspark.audit.gram.floating import RELATIONS, Ratio, matrix_case, noise_free, released_matrix
from dpspark.audit.target import Attack, Target, seen
from dpspark.mechanisms.gram.inverse_wishart import InverseWishartGram
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell matrices of two neighbours apart; `quieter` is how many times too small the ridge is."""
    mechanism = choose_gram(spec)
    assert isinstance(mechanism, InverseWishartGram)
    drawn = replace(mechanism, ridge=mechanism.ridge / quieter)
    return matrix_case(spec, mechanism, lambda zero, one: _ratio(mechanism.ridge, zero, one), drawn)


def _ratio(ridge: float, zero: np.ndarray, one: np.ndarray) -> Ratio:
    """Inverse Wishart: tr(M⁻¹ Ψ). The determinants of Ψ are constants."""
    eye = np.eye(len(zero))
    return lambda noisy: float(((zero - one) * np.linalg.inv(released_matrix(noisy) + ridge * eye)).sum())


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"ridge ÷ 3": seen(lambda: case(spec, 3))}


TARGET = Target("gram", "inverse_wishart", case, noise_free, broken, RELATIONS, {"degrees_of_freedom": 40})
