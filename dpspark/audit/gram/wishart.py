"""Attacks on additive Wishart noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpspark.audit.attacks import Case
from dpspark.audit.gram.floating import RELATIONS, Ratio, matrix_case, noise_free, released_matrix
from dpspark.audit.target import Attack, Target, seen
from dpspark.mechanisms.gram.noisy import NoisyGram
from dpspark.mechanisms.gram.wishart import WishartGram
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec


def case(spec: Spec, quieter: float = 1.0) -> Case:
    """Tell matrices of two neighbours apart; `quieter` is how many times too small the scale is."""
    mechanism = choose_gram(spec)
    assert isinstance(mechanism, WishartGram)
    drawn = replace(mechanism, scale=mechanism.scale / quieter)
    return matrix_case(spec, mechanism, lambda zero, one: _ratio(mechanism, zero, one), drawn)


def _ratio(mechanism: WishartGram, zero: np.ndarray, one: np.ndarray) -> Ratio:
    """density ∝ det(W)^((k − d − 1)/2)·e^(−tr W/2σ²) of W = M − S; no such W at all if it is not positive definite."""
    power = (mechanism.degrees - mechanism.domain.width - 1) / 2
    shift = float(np.trace(one) - np.trace(zero)) / (2 * mechanism.scale)

    def ratio(noisy: NoisyGram) -> float:
        matrix = released_matrix(noisy) + mechanism.mean * np.eye(len(zero))
        logs = [_log_det(matrix - part) for part in (zero, one)]
        if math.inf in map(abs, logs):
            return 0.0 if logs[0] == logs[1] else math.inf if logs[0] < logs[1] else -math.inf
        return power * (logs[1] - logs[0]) + shift

    return ratio


def _log_det(matrix: np.ndarray) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(np.log(values).sum()) if values[0] > 0 else -math.inf


def broken(spec: Spec) -> Mapping[str, Attack]:
    return {"scale ÷ 3": seen(lambda: case(spec, 3))}


TARGET = Target("gram", "wishart", case, noise_free, broken, RELATIONS)
