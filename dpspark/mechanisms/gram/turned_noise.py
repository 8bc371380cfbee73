"""Noise seen in other coordinates: of A E Aᵀ, where E is the noise of the scaled matrix. Post-processing: no cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.tables import KnownFacts
from dpspark.mechanisms.gram.coordinates import turn_of
from dpspark.mechanisms.gram.known_noise import KnownNoise
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.noisy import AdditiveNoise, SamplingNoise
from dpspark.mechanisms.gram.spread_noise import SpreadNoise


@dataclass(frozen=True, eq=False)
class TurnedNoise(SpreadNoise):
    """Additive noise of a matrix in coordinates u = A z, or in some of them: rows of A."""

    model: ClassVar[str] = "turned"  # in no manifest: what is released is the scaled matrix
    grows_with_data: ClassVar[bool] = False
    base: AdditiveNoise | KnownNoise
    turn: np.ndarray

    @property
    def count_is_exact(self) -> bool:  # type: ignore[override]
        return self.base.count_is_exact and bool(self.turn[0, 0] == 1.0)

    @property
    def terms(self) -> int:
        return len(self.turn)

    def spread(self, factor: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        return np.asarray(self.turn @ self.base.spread(self.turn.T @ factor, scaled) @ self.turn.T)

    def covary(self, forms: np.ndarray) -> np.ndarray:
        return np.asarray(self.turn @ self.base.covary(self.turn.T @ forms @ self.turn) @ self.turn.T)

    def given(self, known: KnownFacts | None) -> NoiseModel:
        base = self.base.given(known)
        assert isinstance(base, AdditiveNoise | KnownNoise)
        return replace(self, base=base)

    def project(self, matrix: np.ndarray) -> np.ndarray:
        back = np.linalg.inv(self.turn)
        return np.asarray(self.turn @ self.base.project(back @ matrix @ back.T) @ self.turn.T)

    def only(self, places: Sequence[int]) -> NoiseModel:
        return replace(self, turn=self.turn[list(places)])

    def size(self, directions: int, least: Any) -> Any:
        return self.base.size(directions, least)

    def off_diagonal(self, scaled: np.ndarray | None = None) -> float:
        return self.base.off_diagonal(scaled)

    def entry_std(self, domain: Domain, original: np.ndarray) -> np.ndarray:
        return self.base.entry_std(domain, original)

    def draw(self, scaled: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
        width = self.turn.shape[1]
        drawn = self.base.draw(np.zeros((width, width)), rng, count)
        if self.base.count_is_exact:
            drawn[:, 0, 0] = 0.0
        return np.asarray(self.turn @ drawn @ self.turn.T)

    def in_words(self, unit: str) -> str:
        return self.base.in_words(unit)

    def reach(self, beta: float) -> float:
        return self.base.reach(beta)

    def for_page(self) -> dict[str, Any]:
        return {**self.base.for_page(), "turn": self.turn.tolist()}


@dataclass(frozen=True, eq=False)
class TurnedSampling(SamplingNoise):
    """Noise of a matrix drawn around S + ridge·I, in coordinates u = A z, or in some of them: around A S Aᵀ + ridge·A Aᵀ."""

    turn: np.ndarray = field(kw_only=True)

    def only(self, places: Sequence[int]) -> NoiseModel:
        return replace(self, turn=self.turn[list(places)])

    def for_page(self) -> dict[str, Any]:
        own = SamplingNoise(self.degrees, self.ridge, self.count_is_exact)
        return {**own.for_page(), "turn": self.turn.tolist()}

    def _around(self, scaled: np.ndarray) -> np.ndarray:
        return np.asarray(scaled + self.ridge * (self.turn @ self.turn.T))


def turned(noise: NoiseModel, domain: Domain) -> NoiseModel:
    """See a matrix's noise in the coordinates that analyses use."""
    turn = turn_of(domain)
    if turn is None:
        return noise
    if isinstance(noise, SamplingNoise):
        return TurnedSampling(noise.degrees, noise.ridge, noise.count_is_exact, turn=turn)
    assert isinstance(noise, AdditiveNoise | KnownNoise)
    return TurnedNoise(noise, turn)
