"""Coefficients from the noisy statistics of one regression: plain where the noise allows it, with a ridge where it does not.

Post-processing: no cost. All in scaled coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts
from dpspark.core.tables import KnownFacts
from dpspark.mechanisms.gram.identification import is_enough, kappa_w_of_matrix
from dpspark.mechanisms.gram.simulated import draw_noise, expected_norm
from dpspark.mechanisms.regression.solver import NO_INTERVAL, SHRUNK, UNSTABLE, Solver
from dpspark.mechanisms.regression.statistics import NoisyStatistics, StatisticsNoise

# Of releases before 0.3, which went by kappa and by the sums as they were: there the ridge was added below this.
ENOUGH_KAPPA = 3.0
# Of E‖E‖: less than all of it will do once negative eigenvalues are set to 0.
RIDGE_SHARE = 0.8

WORDS = {
    "none": "no ridge: unstable",
    "weak": "a ridge of {amount:.4g} if the signal is weak",
    "missing": "a ridge of at most {amount:.4g}",
}


@dataclass(frozen=True)
class RidgeRule(Solver):
    """The rule for what is added to the diagonal of Σ x xᵀ before it is inverted.

    none      nothing, ever
    weak      `amount`, after negative eigenvalues were set to 0, if the noise drowns the signal; else nothing
    missing   what the released least eigenvalue, less `caution`, lacks of `amount`

    `known`: what is known exactly of Σ x xᵀ is put in first, and kappa_w decides. Coefficients that were published before 0.3
    came from the sums as they were, and kappa decided.
    """

    kind: Literal["none", "weak", "missing"]
    amount: float = 0.0
    caution: float = 0.0
    known: bool = False

    @classmethod
    def from_manifest(cls, content: Mapping[str, Any]) -> RidgeRule:
        return cls(**content)

    @classmethod
    def from_facts(cls, facts: Facts) -> RidgeRule:
        """Read it from a manifest that a stranger may have written."""
        kind = facts.text("kind", "none", "weak", "missing")
        known = facts.has("known") and facts.flag("known")
        return cls(kind, facts.number("amount"), facts.number("caution"), known)  # type: ignore[arg-type]

    def to_manifest(self) -> dict[str, Any]:
        return asdict(self)

    def in_words(self) -> str:
        return WORDS[self.kind].format(amount=self.amount)

    @property
    def bootstrapped(self) -> bool:
        return self.kind == "missing"

    def solve(self, statistics: NoisyStatistics) -> np.ndarray:
        return solve_ridge(self, statistics).scaled

    def published(self, statistics: NoisyStatistics, domain: Domain) -> np.ndarray:
        return self.solve(statistics.given(domain) if self.known else statistics)

    def now(self) -> RidgeRule:
        """What is known is put in, of releases before 0.3 too."""
        return replace(self, known=True)

    def again(self, truth: NoisyStatistics, cross: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise, count, width = truth.noise, *cross.shape
        squares = truth.squares + draw_noise(truth.squares_noise, truth.squares, True, rng, count)
        ridge = np.zeros(count)
        if self.kind == "missing":
            assert noise.least_eigenvalue_std is not None
            least = float(np.linalg.eigvalsh(truth.squares)[0])
            released = least + noise.least_eigenvalue_std * rng.standard_normal(count)
            ridge = np.maximum(0.0, self.amount - np.maximum(0.0, released - self.caution))
        noisy = cross + noise.cross_std * rng.standard_normal(cross.shape)
        return np.linalg.solve(squares + ridge[:, None, None] * np.eye(width), noisy[:, :, None])[:, :, 0]

    def status(self, statistics: NoisyStatistics) -> str:
        if solve_ridge(self, statistics).ridge > 0:
            return SHRUNK
        return UNSTABLE if self.kind == "none" else NO_INTERVAL


def weak_rule(
    noise: StatisticsNoise, width: int, known: KnownFacts | None = None, share: float = RIDGE_SHARE
) -> RidgeRule:
    """λ is a share of E‖E‖, known before any data: of the noise that is left once what is `known` of Σ x xᵀ is put in."""
    return RidgeRule("weak", share * expected_norm(noise.squares.given(known), width, True), known=True)


@dataclass(frozen=True)
class Coefficients:
    """Coefficients in scaled coordinates, and the ridge that they were made with."""

    scaled: np.ndarray
    ridge: float


def kappa_of(squares: np.ndarray, noise: StatisticsNoise) -> float:
    """The least eigenvalue of Σ x xᵀ over the typical norm of its noise."""
    least = float(np.linalg.eigvalsh(squares)[0])
    return least / noise.squares.size(len(squares), least)


def kappa_w_of(statistics: NoisyStatistics) -> float:
    """The signal in Σ x xᵀ over its noise, whatever the units: what decides whether there are intervals."""
    return kappa_w_of_matrix(statistics.squares, statistics.squares_noise)


def _is_weak(rule: RidgeRule, statistics: NoisyStatistics) -> bool:
    if rule.known:
        return not is_enough(kappa_w_of(statistics))
    return kappa_of(statistics.squares, statistics.noise) < ENOUGH_KAPPA


def solve_ridge(rule: RidgeRule, statistics: NoisyStatistics) -> Coefficients:
    """Make coefficients with the ridge that the rule asks for."""
    vectors, inverse, ridge = _inverted(rule, statistics)
    return Coefficients(vectors @ (inverse * (vectors.T @ statistics.cross)), ridge)


def invert_with_ridge(rule: RidgeRule, statistics: NoisyStatistics) -> tuple[np.ndarray, float]:
    """Invert Σ x xᵀ with the ridge that the rule asks for, and say how much that is."""
    vectors, inverse, ridge = _inverted(rule, statistics)
    return (vectors * inverse) @ vectors.T, ridge


def _inverted(rule: RidgeRule, statistics: NoisyStatistics) -> tuple[np.ndarray, np.ndarray, float]:
    """Find the eigenvectors of Σ x xᵀ, the inverses of its eigenvalues with the ridge, and the ridge."""
    values, vectors = np.linalg.eigh(statistics.squares)
    ridge = 0.0
    if rule.kind == "weak" and _is_weak(rule, statistics):
        values, ridge = np.maximum(values, 0.0), rule.amount
    elif rule.kind == "missing":
        assert statistics.least_eigenvalue is not None
        ridge = max(0.0, rule.amount - max(0.0, statistics.least_eigenvalue - rule.caution))
    lengths = values + ridge
    # A value of exactly zero happens on a coarse grid only; its direction says nothing.
    return vectors, np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths != 0), ridge
