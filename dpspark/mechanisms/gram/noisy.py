"""What a mechanism gives out, and all that may be written."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from dpspark.core.domain import Domain, Numeric

Law = Literal["gaussian", "laplace", "wishart"]


@dataclass(frozen=True)
class AdditiveNoise:
    """Independent noise of mean zero on each entry of the upper triangle, in units of the scaled matrix."""

    diagonal_std: float
    off_diagonal_std: float
    count_is_exact: bool = False
    law: Law = "gaussian"
    degrees: float = 0.0  # of a Wishart law

    def along(self, w: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        """Cov(E w), E the noise matrix."""
        off, diagonal = self.off_diagonal_std**2, self.diagonal_std**2
        covariance = off * (w @ w * np.eye(len(w)) + np.outer(w, w)) + (diagonal - 2 * off) * np.diag(w**2)
        if self.count_is_exact:
            covariance[0, 0] -= diagonal * w[0] ** 2
        return covariance

    def size(self, directions: int, least: float) -> float:
        """The typical norm of the noise among some directions."""
        return 2 * self.off_diagonal_std * math.sqrt(directions)

    def entry_std(self, domain: Domain, original: np.ndarray) -> np.ndarray:
        """The standard deviation of each entry's noise in original units: Var (T E Tᵀ)_ij with x_i = m_i + h_i z_i."""
        return self.congruence_std(*centre_and_scale(domain))

    def congruence_std(self, middle: np.ndarray, half: np.ndarray) -> np.ndarray:
        """For any such x."""
        count = 0.0 if self.count_is_exact else self.diagonal_std**2
        off, diagonal = self.off_diagonal_std**2, self.diagonal_std**2
        h2, m2 = half**2, middle**2
        variance = off * (np.outer(h2, h2) + np.outer(h2, m2) + np.outer(m2, h2)) + count * np.outer(m2, m2)
        np.fill_diagonal(variance, diagonal * h2**2 + 4 * off * h2 * m2 + count * m2**2)
        return np.sqrt(variance)


@dataclass(frozen=True)
class SamplingNoise:
    """The noise of a matrix drawn from a Wishart law around S + ridge·I, in units of the scaled matrix: it grows with S."""

    degrees: float
    ridge: float
    count_is_exact: bool = False

    def along(self, w: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        """Cov(E w): Cov(E_ij, E_kl) is (Σ_ik Σ_jl + Σ_il Σ_jk) / degrees with Σ = S + ridge·I."""
        around = scaled + self.ridge * np.eye(len(w))
        return (around * (w @ around @ w) + np.outer(around @ w, around @ w)) / self.degrees

    def size(self, directions: int, least: float) -> float:
        """In the direction of the least eigenvalue, where it matters."""
        return 2 * math.sqrt(directions / self.degrees) * max(least + self.ridge, self.ridge)

    def entry_std(self, domain: Domain, original: np.ndarray) -> np.ndarray:
        """The same formula in original units: a congruence of Σ."""
        middle, half = centre_and_scale(domain)
        back = back_transform(middle, half)
        around = original + self.ridge * back @ back.T
        variance = np.maximum(np.diag(around), 0.0)
        return np.sqrt((np.outer(variance, variance) + around**2) / self.degrees)


NoiseModel = AdditiveNoise | SamplingNoise
NOISE_MODELS: dict[str, type[NoiseModel]] = {"additive": AdditiveNoise, "sampling": SamplingNoise}


def noise_to_manifest(noise: NoiseModel) -> dict[str, Any]:
    (name,) = (name for name, kind in NOISE_MODELS.items() if isinstance(noise, kind))
    return {"model": name, **asdict(noise)}


def noise_from_manifest(content: dict[str, Any]) -> NoiseModel:
    return NOISE_MODELS[content["model"]](**{key: value for key, value in content.items() if key != "model"})


@dataclass(frozen=True)
class NoisyGram:
    """A noisy second-moment matrix: an unbiased estimate in grid units, and what its noise is like."""

    domain: Domain
    upper: tuple[int, ...]
    noise: NoiseModel
    facts: Mapping[str, Any] = field(default_factory=dict)  # what was released on the way, for the manifest

    def second_moment(self) -> tuple[np.ndarray, np.ndarray]:
        """The matrix in original units and the standard deviation of each entry's noise. Post-processing: no cost.

        The congruence T S Tᵀ is done in whole numbers scaled by powers of two, and rounded to a double once at the end.
        """
        matrix = unscale(self.domain, self.upper)
        return matrix, self.noise.entry_std(self.domain, matrix)


def centre_and_scale(domain: Domain) -> tuple[np.ndarray, np.ndarray]:
    """m and h with x = m + h·z for each term. The intercept is m = 1, h = 0; a category's column is itself."""
    middle, half = [1.0], [0.0]
    for column in domain.columns:
        if isinstance(column, Numeric):
            middle.append(column.middle)
            half.append(column.half)
        else:
            middle += [0.0] * len(column.terms)
            half += [1.0] * len(column.terms)
    return np.array(middle), np.array(half)


def back_transform(middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    """T with (1, x) = T z."""
    back = np.diag(np.concatenate([[1.0], half[1:]]))
    back[1:, 0] = middle[1:]
    return back


def unscale(domain: Domain, upper: tuple[int, ...]) -> np.ndarray:
    """T S Tᵀ, exactly, then rounded once."""
    width = domain.width
    middle, half = centre_and_scale(domain)
    # Doubles are whole multiples of a power of two: one common exponent makes everything an integer.
    exponent = max(f.as_integer_ratio()[1].bit_length() - 1 for f in np.concatenate([middle, half]).tolist())
    m = [_scaled(f, exponent) for f in middle.tolist()]
    h = [_scaled(f, exponent) for f in half.tolist()]
    s = np.zeros((width, width), dtype=object)
    s[np.triu_indices(width)] = list(upper)
    shift = 2 * exponent + 2 * domain.bits
    # A whole weight step is upper / steps rows.
    times, over = (1, 1) if domain.weight is None else domain.weight.most.as_integer_ratio()
    over *= 1 if domain.weight is None else domain.weight.steps
    out = np.zeros((width, width))
    for i in range(width):
        for j in range(i, width):
            if i == 0:
                total = m[0] * (m[j] * s[0, 0] + (h[j] * s[0, j] if j else 0))
            else:
                total = m[i] * (m[j] * s[0, 0] + h[j] * s[0, j]) + h[i] * (m[j] * s[0, i] + h[j] * s[i, j])
            out[i, j] = out[j, i] = (total * times) / (over << shift)
    return out


def _scaled(value: float, exponent: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator * ((1 << exponent) // denominator)
