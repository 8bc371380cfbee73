"""Coefficients from the noisy statistics of one regression: plain where the noise allows it, with a ridge where it does not.

Post-processing: no cost. All in scaled coordinates.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from dpspark.mechanisms.gram.simulated import expected_norm
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise

# From here on intervals cover and a ridge only adds bias; below, a ridge predicts better.
ENOUGH_KAPPA = 3.0
# Of E‖E‖: less than all of it will do once negative eigenvalues are set to 0.
RIDGE_SHARE = 0.8


@dataclass(frozen=True)
class RidgeRule:
    """How much is added to the diagonal of Σ x xᵀ before it is inverted.

    none      nothing, ever
    weak      `amount`, after negative eigenvalues were set to 0, if kappa is below 3; else nothing
    missing   what the released least eigenvalue, less `caution`, lacks of `amount`
    """

    kind: Literal["none", "weak", "missing"]
    amount: float = 0.0
    caution: float = 0.0

    @classmethod
    def from_manifest(cls, content: dict[str, Any]) -> RidgeRule:
        return cls(**content)

    def to_manifest(self) -> dict[str, Any]:
        return asdict(self)


def weak_rule(noise: StatisticsNoise, width: int) -> RidgeRule:
    """λ = 0.8·E‖E‖, known before any data."""
    return RidgeRule("weak", RIDGE_SHARE * expected_norm(noise.squares, width, True))


@dataclass(frozen=True)
class Coefficients:
    scaled: np.ndarray
    ridge: float


def kappa_of(squares: np.ndarray, noise: StatisticsNoise) -> float:
    """The least eigenvalue of Σ x xᵀ over the typical norm of its noise."""
    least = float(np.linalg.eigvalsh(squares)[0])
    return least / noise.squares.size(len(squares), least)


def solve_ridge(rule: RidgeRule, statistics: NoisyStatistics) -> Coefficients:
    values, vectors = np.linalg.eigh(statistics.squares)
    ridge = 0.0
    if rule.kind == "weak" and kappa_of(statistics.squares, statistics.noise) < ENOUGH_KAPPA:
        values, ridge = np.maximum(values, 0.0), rule.amount
    elif rule.kind == "missing":
        assert statistics.least_eigenvalue is not None
        ridge = max(0.0, rule.amount - max(0.0, statistics.least_eigenvalue - rule.caution))
    lengths = values + ridge
    # A value of exactly zero happens on a coarse grid only; its direction says nothing.
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths != 0)
    return Coefficients(vectors @ (inverse * (vectors.T @ statistics.cross)), ridge)
