"""What all mechanisms of noisy matrices share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from dpspark.core.domain import Domain
from dpspark.core.facts import Garbled
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Kind, Limits, Mechanism, option
from dpspark.mechanisms.gram.noisy import NoiseModel, NoisyGram
from dpspark.privacy.noise import NoiseSource

REPAIR = Limits(
    "How the release is repaired on reading, unless the analyst says otherwise. What is stored is never repaired.",
    choices=("none", "ridge", "eigen", "nearest_psd", "safe"),
)


@dataclass(frozen=True)
class GramOptions:
    """The options of every mechanism of matrices."""

    repair: str | None = option(REPAIR)


@dataclass(frozen=True)
class GramMechanism(Mechanism):
    """What turns an exact matrix into a noisy one."""

    kind: ClassVar[Kind] = "gram"
    Options: ClassVar[type] = GramOptions
    pure_alternative: ClassVar[str] = "laplace"
    tells_rows: ClassVar[bool] = True
    safe_repair: ClassVar[bool] = False  # `repair: safe` is for it
    domain: Domain

    @classmethod
    def check_options(cls, options: GramOptions) -> None:
        if options.repair == "safe" and not cls.safe_repair:
            raise ValueError(f"mechanism.repair='safe' is for wishart; for {cls.name} use ridge, eigen or nearest_psd.")

    @property
    @abstractmethod
    def noise(self) -> NoiseModel:
        """The noise, in units of the scaled matrix."""

    @abstractmethod
    def release(self, gram: ExactGram, noise: NoiseSource) -> NoisyGram:
        """Draw the noise, once, and add it."""

    def for_domain(self, domain: Domain) -> Self:
        return replace(self, domain=domain)

    def _check_domain(self, gram: ExactGram) -> None:
        if gram.domain != self.domain:
            raise ValueError("the matrix was made for another domain")


def check_count(exact: bool, public: bool) -> None:
    """Refuse a manifest that publishes a number of rows that a record can change."""
    if exact and not public:
        raise Garbled("the number of rows is published without noise, and a record can change it")
