"""Johnson-Lindenstrauss projection of the rows, drawn as a Wishart matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpspark.mechanisms.base import Limits, option
from dpspark.mechanisms.gram.base import REPAIR
from dpspark.mechanisms.gram.noisy import SamplingNoise
from dpspark.mechanisms.gram.projection import ADAPTIVE, ProjectedGram
from dpspark.mechanisms.gram.sampling import wishart
from dpspark.mechanisms.options import CALIBRATION
from dpspark.privacy.noise import NoiseSource


@dataclass(frozen=True)
class JohnsonLindenstraussOptions:
    """The options of a projection."""

    calibration: str | None = option(CALIBRATION)
    rows: int | None = option(Limits("How many random rows the data are projected to.", whole=True, least=1))
    adaptive: float | None = option(ADAPTIVE)
    repair: str | None = option(REPAIR)


@dataclass(frozen=True)
class JohnsonLindenstraussGram(ProjectedGram):
    """A Wishart(S + ridge · I, degrees) / degrees draw, published less its ridge. ProjectedGram has its Privacy block.

    The rows of R·A' of a Johnson-Lindenstrauss projection are independent N(0, S + ridge · I), so that projecting and
    multiplying is a Wishart draw, made on the driver from S alone.
    """

    name: ClassVar[str] = "johnson_lindenstrauss"
    words: ClassVar[str] = "The data were projected to a few random rows, drawn as a Wishart matrix."
    Options: ClassVar[type] = JohnsonLindenstraussOptions
    degrees_option: ClassVar[str] = "rows"

    @property
    def noise(self) -> SamplingNoise:
        return SamplingNoise(self.degrees, self.ridge)

    def draw(self, around: np.ndarray, noise: NoiseSource) -> np.ndarray:
        return wishart(around, self.degrees, noise) / self.degrees

    def paper_bounds(self, matrix: np.ndarray, nu: float) -> list[str]:
        if self.adaptive is not None:
            return []
        if not nu < 0.5:
            return ["Sheffet, Theorem 3.2: for beta below 1/2"]
        bound = theorem_bound(matrix, self.degrees, self.ridge, nu)
        squares, cross = matrix[:-1, :-1], matrix[:-1, -1]
        ridged = np.linalg.solve(squares + self.ridge * np.eye(len(cross)), cross)
        away = float(np.linalg.norm(ridged - np.linalg.solve(squares, cross)))
        return [
            f"Sheffet, Theorem 3.2 (the ridge kept; its O(·) taken as 1): scaled coefficients within {bound:.3g} of ridge "
            f"regression's, which is {away:.3g} from least squares"
        ]


def theorem_bound(matrix: np.ndarray, rows: float, ridge: float, nu: float) -> float:
    """Theorem 3.2: η/√(w² + σ_min(AᵀA))·√f(β^R), r = d·ln(d)·ln(1/nu)/η² with the constant of its O(·) taken as 1.

    The root is missing in print: after Sarlós (2006), Theorem 12, the residual norm counts, not its square.
    """
    d = len(matrix)
    around = matrix + ridge * np.eye(d)
    ridged = np.linalg.solve(around[:-1, :-1], matrix[:-1, -1])
    lengths = np.append(ridged, -1.0)
    f = float(lengths @ around @ lengths)
    eta = math.sqrt(d * math.log(d) * math.log(1 / nu) / rows)
    return eta / math.sqrt(ridge + max(0.0, float(np.linalg.eigvalsh(matrix)[0]))) * math.sqrt(f)
