"""The noise of a released matrix, as far as an analysis asks for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.tables import KnownFacts
from dpspark.mechanisms.gram.centred import CentredNoise
from dpspark.mechanisms.gram.laws import normal_reach


class NoiseModel(ABC):
    """The noise of a released matrix, in units of the scaled matrix: all that an analysis asks of it."""

    model: ClassVar[str]  # its name in a manifest
    grows_with_data: ClassVar[bool]  # there is more of it where the matrix is larger
    count_is_exact: bool

    @abstractmethod
    def spread(self, factor: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        """Compute E[E F Fᵀ E], E the noise matrix: of one factor F, or of many in a stack."""

    def along(self, w: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        """Compute Cov(E w)."""
        return self.spread(w[..., None], scaled)

    @abstractmethod
    def spread_at(self, scaled: np.ndarray, at: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        """Compute E[N H N] of many regressions at once, N the noise among the terms at `at`, H their `inverse` matrices."""

    def given(self, known: KnownFacts | None) -> NoiseModel:
        """Say what noise is left once all is used that is known of the matrix; by default all of it."""
        return self

    def project(self, matrix: np.ndarray) -> np.ndarray:
        """Put into a noisy matrix what is known of it; by default nothing."""
        return matrix

    def only(self, places: Sequence[int]) -> NoiseModel:
        """Say what the noise is of a part of the matrix, whose rows are at these places."""
        return self

    @abstractmethod
    def size(self, directions: int, least: Any) -> Any:
        """Say the typical norm of the noise among some directions, whose least eigenvalue is `least`: of one matrix or many."""

    @abstractmethod
    def off_diagonal(self, scaled: np.ndarray | None = None) -> float:
        """Say the largest standard deviation off the diagonal. Of noise that grows: around a matrix, by default of zeros."""

    @abstractmethod
    def entry_std(self, domain: Domain, original: np.ndarray) -> np.ndarray:
        """Compute the standard deviation of each entry's noise in original units."""

    @abstractmethod
    def draw(self, scaled: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
        """Simulate `count` noise matrices for a block of the scaled matrix, the number of rows with noise, too."""

    @abstractmethod
    def traces(self, scaled: np.ndarray, at: np.ndarray, y: int, inverse: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        """Compute tr(HΩ), Ω = Cov(Xᵀ E w) with w = y − Xγ, of many regressions at once: `along`, restricted to regressors.

        `at` are the places of each regression's terms in the matrix, `inverse` their H, `gamma` their coefficients.
        """

    @abstractmethod
    def centred(self, scaled: np.ndarray) -> CentredNoise:
        """Say what the noise does to covariances."""

    @abstractmethod
    def in_words(self, unit: str) -> str:
        """Say how large it is, in rows or in weights."""

    def reach(self, beta: float) -> float:
        """Say within how many standard deviations one entry's noise stays with probability 1 − beta."""
        return normal_reach(beta)

    def norm_bound(self, width: int, beta: float) -> float | None:
        """Bound its spectral norm with probability 1 − beta, in closed form; None where none is known."""
        return None

    def for_page(self) -> dict[str, Any]:
        """Describe it for the program of a report's page."""
        return {**noise_to_manifest(self), "known": None}


def noise_to_manifest(noise: NoiseModel) -> dict[str, Any]:
    facts = asdict(noise)  # type: ignore[call-overload]
    parts = facts.pop("parts", ())
    told = [noise_to_manifest(part) for part in getattr(noise, "parts", ())] if parts else []
    return {"model": noise.model, **facts, **({"parts": told} if told else {})}
