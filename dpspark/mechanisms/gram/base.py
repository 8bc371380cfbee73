"""What all mechanisms of noisy matrices share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Kind, Limits, Mechanism, option, unlike
from dpspark.mechanisms.gram.noise_model import NoiseModel, noise_to_manifest
from dpspark.mechanisms.gram.noisy import NoisyGram
from dpspark.privacy.noise import NoiseSource

REPAIR = Limits(
    "How the release is repaired on reading, unless the analyst says otherwise. What is stored is never repaired.",
    choices=("none", "ridge", "eigen", "nearest_psd", "safe"),
)


@dataclass(frozen=True)
class GramOptions:
    """The options that every mechanism of matrices has."""

    repair: str | None = option(REPAIR)


@dataclass(frozen=True)
class GramMechanism(Mechanism):
    """A way to turn an exact matrix into a noisy one."""

    kind: ClassVar[Kind] = "gram"
    Options: ClassVar[type] = GramOptions
    pure_alternative: ClassVar[str] = "laplace"
    rows_alternative: ClassVar[str] = "gaussian or laplace"
    tells_rows: ClassVar[bool] = True
    safe_repair: ClassVar[bool] = False  # `repair: safe` is for it
    domain: Domain

    @classmethod
    def check_options(cls, options: Any) -> None:
        if options.repair == "safe" and not cls.safe_repair:
            raise ValueError(f"mechanism.repair='safe' is for wishart; for {cls.name} use ridge, eigen or nearest_psd.")

    @property
    @abstractmethod
    def noise(self) -> NoiseModel:
        """The noise, in units of the scaled matrix."""

    @abstractmethod
    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw the noise, once, and add it."""

    def noise_in_words(self) -> str:
        return self.noise.in_words("rows" if self.domain.weight is None else "weights")

    def differences(self, stated: Facts) -> tuple[str, ...]:
        """Its noise, too, is as stated: analyses go by it."""
        noise = ("noise",) if unlike(noise_to_manifest(self.noise), stated.part("noise")) else ()
        return (*super().differences(stated), *noise)

    def paper_bounds(self, matrix: np.ndarray, nu: float) -> list[str]:
        """Say what the papers' theorems bound of a regression's coefficients, with probability 1 − nu; nothing by default.

        `matrix` is the scaled one of the intercept, the regressors and the response. The theorems are about the papers'
        estimators, which keep the ridge or the mean of the noise that is taken off here, and about ‖·‖ of all coefficients.
        """
        return []

    @classmethod
    def safe_ridge(cls, facts: Mapping[str, Any], width: int, delta: float) -> float | None:
        """Say what `repair: safe` adds to the diagonal of a release with these facts; None where there is no such repair."""
        return None

    def for_domain(self, domain: Domain) -> Self:
        return replace(self, domain=domain)

    def _check_domain(self, gram: ExactGram) -> None:
        if gram.domain != self.domain:
            raise ValueError("the matrix was made for another domain")


def check_count(exact: bool, public: bool) -> None:
    """Refuse a manifest that publishes a number of rows that a record can change."""
    if exact and not public:
        raise Garbled("the number of rows is published without noise, and a record can change it")
