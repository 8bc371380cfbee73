"""Inverse-Wishart sampling: a matrix drawn from an inverse Wishart law around the data's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspark.mechanisms.base import option
from dpspark.mechanisms.gram.base import REPAIR
from dpspark.mechanisms.gram.floating import DEGREES
from dpspark.mechanisms.gram.noisy import SamplingNoise
from dpspark.mechanisms.gram.projection import ADAPTIVE, ProjectedGram
from dpspark.mechanisms.gram.sampling import inverse_wishart
from dpspark.mechanisms.options import CALIBRATION
from dpspark.privacy.noise import NoiseSource


@dataclass(frozen=True)
class InverseWishartOptions:
    """The options of inverse-Wishart sampling."""

    calibration: str | None = option(CALIBRATION)
    degrees_of_freedom: int | None = option(DEGREES)
    adaptive: float | None = option(ADAPTIVE)
    repair: str | None = option(REPAIR)


@dataclass(frozen=True)
class InverseWishartGram(ProjectedGram):
    """An inverse-Wishart draw around S + ridge · I, published less its ridge. ProjectedGram has its Privacy block."""

    name: ClassVar[str] = "inverse_wishart"
    words: ClassVar[str] = "The matrix was drawn from an inverse Wishart law around the data's own."
    Options: ClassVar[type] = InverseWishartOptions
    degrees_option: ClassVar[str] = "degrees_of_freedom"

    @property
    def noise(self) -> SamplingNoise:
        return SamplingNoise(self.degrees - self.domain.width - 3, self.ridge)

    def draw(self, around: np.ndarray, noise: NoiseSource) -> np.ndarray:
        return inverse_wishart(around, self.degrees, noise) * (self.degrees - self.domain.width - 1)
