"""What a mechanism gives out, and all that may be written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.tables import KnownFacts, Tables
from dpspark.mechanisms.gram.centred import CentredNoise, centred_noise
from dpspark.mechanisms.gram.coordinates import (
    centre_and_scale,
    congruence_of,
    congruence_std,
    independent_std,
    unscale,
)
from dpspark.mechanisms.gram.laws import LAWS, simulated_wishart
from dpspark.mechanisms.gram.noise_model import NoiseModel


@dataclass(frozen=True)
class AdditiveNoise(NoiseModel):
    """Independent noise of mean zero on each entry of the upper triangle, or a centred Wishart matrix."""

    model: ClassVar[str] = "additive"
    grows_with_data: ClassVar[bool] = False
    diagonal_std: float
    off_diagonal_std: float
    count_is_exact: bool = False
    law: str = "gaussian"
    degrees: float = 0.0  # of a Wishart law
    parts: tuple[AdditiveNoise, ...] = ()  # of a sum of noises with laws of their own

    def spread(self, factor: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        found = self._spread(factor @ np.swapaxes(factor, -1, -2))
        if self.count_is_exact:
            found[..., 0, 0] -= self.diagonal_std**2 * np.square(factor[..., 0, :]).sum(axis=-1)
        return found

    def spread_at(self, scaled: np.ndarray, at: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        found = self._spread(inverse)
        if self.count_is_exact:
            found[:, 0, 0] -= np.where(at[:, 0] == 0, self.diagonal_std**2 * inverse[:, 0, 0], 0.0)
        return found

    def _spread(self, middle: np.ndarray) -> np.ndarray:
        off, own = self.off_diagonal_std**2, self.diagonal_std**2
        diagonal = np.diagonal(middle, axis1=-2, axis2=-1)
        found = off * middle
        at = np.arange(middle.shape[-1])
        found[..., at, at] += off * diagonal.sum(axis=-1)[..., None] + (own - 2 * off) * diagonal
        return found

    def given(self, known: KnownFacts | None) -> NoiseModel:
        from dpspark.mechanisms.gram.known_noise import KnownNoise  # they are made of this
        from dpspark.mechanisms.gram.table_noise import TableNoise

        if known is None:
            return self
        kind = TableNoise if isinstance(known, Tables) else KnownNoise
        return kind(self, known, tuple(range(known.width)))  # type: ignore[arg-type]

    @property
    def ratio(self) -> float:
        """The variance on the diagonal over that off it."""
        return (self.diagonal_std / self.off_diagonal_std) ** 2

    def covary(self, forms: np.ndarray) -> np.ndarray:
        """Compute Cov(E, Σ_ij B_ij E_ij) of symmetric matrices B, in a stack, with the intercept first."""
        found = 2 * self.off_diagonal_std**2 * forms
        at = np.arange(forms.shape[-1])
        found[:, at, at] = self.diagonal_std**2 * forms[:, at, at]
        if self.count_is_exact:
            found[:, 0, 0] = 0.0
        return found

    def size(self, directions: int, least: Any) -> Any:
        return 2 * self.off_diagonal_std * math.sqrt(directions)

    def off_diagonal(self, scaled: np.ndarray | None = None) -> float:
        return self.off_diagonal_std

    def entry_std(self, domain: Domain, original: np.ndarray) -> np.ndarray:
        """Var (T E Tᵀ)_ij with x_i = m_i + h_i z_i, or with any T."""
        if domain.products:
            return independent_std(self.variances(domain.width), congruence_of(domain))
        return self.congruence_std(*centre_and_scale(domain))

    def congruence_std(self, middle: np.ndarray, half: np.ndarray) -> np.ndarray:
        """Compute the same for any such x."""
        return congruence_std(self.variances(len(half)), middle, half)

    def variances(self, width: int) -> np.ndarray:
        """The variance of every entry."""
        found = np.full((width, width), self.off_diagonal_std**2)
        np.fill_diagonal(found, self.diagonal_std**2)
        found[0, 0] = 0.0 if self.count_is_exact else self.diagonal_std**2
        return found

    def draw(self, scaled: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
        return LAWS[self.law].draw(self, len(scaled), rng, count)

    def traces(self, scaled: np.ndarray, at: np.ndarray, y: int, inverse: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        diagonal = np.diagonal(inverse, axis1=1, axis2=2)
        off, own = self.off_diagonal_std**2, self.diagonal_std**2
        found = off * (
            (1 + np.square(gamma).sum(axis=1)) * diagonal.sum(axis=1) + np.einsum("si,sij,sj->s", gamma, inverse, gamma)
        )
        found += (own - 2 * off) * np.einsum("si,si->s", diagonal, gamma**2)
        return found - own * diagonal[:, 0] * gamma[:, 0] ** 2 if self.count_is_exact else found

    def centred(self, scaled: np.ndarray) -> CentredNoise:
        means = scaled[0, 1:] / scaled[0, 0]
        off, diagonal = self.off_diagonal_std**2, self.diagonal_std**2
        count = 0.0 if self.count_is_exact else diagonal
        inner = self.off_diagonal_std * (np.eye(len(means)) + np.outer(means, means))
        return centred_noise(inner, means, count * np.outer(means, means), count, count - 2 * off, diagonal - 2 * off)

    def in_words(self, unit: str) -> str:
        return (
            f"standard deviation {self.off_diagonal_std:.4g} off the diagonal, {self.diagonal_std:.4g} on it, in {unit}"
        )

    def reach(self, beta: float) -> float:
        return LAWS[self.law].reach(beta)

    def norm_bound(self, width: int, beta: float) -> float | None:
        return LAWS[self.law].norm_bound(self, width, beta)


@dataclass(frozen=True)
class SamplingNoise(NoiseModel):
    """The noise of a matrix drawn from a Wishart law around S + ridge·I: it grows with S."""

    model: ClassVar[str] = "sampling"
    grows_with_data: ClassVar[bool] = True
    degrees: float
    ridge: float
    count_is_exact: bool = False

    def spread(self, factor: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        """Cov(E_ij, E_kl) is (Σ_ik Σ_jl + Σ_il Σ_jk) / degrees with Σ = S + ridge·I."""
        around = self._around(scaled)
        turned = around @ factor
        square = np.einsum("...ij,...ij->...", factor, turned)
        return (around * square[..., None, None] + turned @ np.swapaxes(turned, -1, -2)) / self.degrees

    def spread_at(self, scaled: np.ndarray, at: np.ndarray, inverse: np.ndarray) -> np.ndarray:
        around = self._around(scaled)
        block = around[at[:, :, None], at[:, None, :]]
        square = np.einsum("sij,sij->s", inverse, block)
        return (block * square[:, None, None] + block @ inverse @ block) / self.degrees

    def size(self, directions: int, least: Any) -> Any:
        """Measure the noise in the direction of the least eigenvalue, where it matters."""
        return 2 * math.sqrt(directions / self.degrees) * np.maximum(least + self.ridge, self.ridge)

    def off_diagonal(self, scaled: np.ndarray | None = None) -> float:
        if scaled is None:
            return self.ridge / math.sqrt(self.degrees)
        around = self._around(scaled)
        variance = (np.outer(np.diag(around), np.diag(around)) + around**2) / self.degrees
        return float(np.sqrt(variance[~np.eye(len(scaled), dtype=bool)].max()))

    def entry_std(self, domain: Domain, original: np.ndarray) -> np.ndarray:
        """The formula of `along` in original units: a congruence of Σ."""
        back = congruence_of(domain)
        around = original + self.ridge * back @ back.T
        variance = np.maximum(np.diag(around), 0.0)
        return np.sqrt((np.outer(variance, variance) + around**2) / self.degrees)

    def draw(self, scaled: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
        """A block of a Wishart matrix is one of the block. An estimate may not be positive definite: the root is of what is."""
        values, vectors = np.linalg.eigh(self._around(scaled))
        root, eye = vectors * np.sqrt(np.maximum(values, 0.0)), np.eye(len(scaled))
        return root @ (simulated_wishart(len(scaled), self.degrees, rng, count) / self.degrees - eye) @ root.T

    def traces(self, scaled: np.ndarray, at: np.ndarray, y: int, inverse: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        around = self._around(scaled)
        block, cross = around[at[:, :, None], at[:, None, :]], around[at, y]
        turned = cross - np.einsum("sij,sj->si", block, gamma)  # Xᵀ Σ w
        size = around[y, y] - 2 * np.einsum("si,si->s", cross, gamma) + np.einsum("si,sij,sj->s", gamma, block, gamma)
        through = np.einsum("si,sij,sj->s", turned, inverse, turned)
        return (size * np.einsum("sij,sij->s", inverse, block) + through) / self.degrees

    def centred(self, scaled: np.ndarray) -> CentredNoise:
        means, around = scaled[0, 1:] / scaled[0, 0], self._around(scaled)
        centre = np.column_stack([-means, np.eye(len(means))])
        inner = centre @ around @ centre.T / np.sqrt(self.degrees)
        cross = centre @ around[:, 0]
        to_count = 2 * np.outer(cross, cross) / self.degrees
        return centred_noise(inner, means, to_count, 2 * around[0, 0] ** 2 / self.degrees)

    def in_words(self, unit: str) -> str:
        return f"one part in {self.degrees**0.5:.4g} of the matrix + {self.ridge:.4g} {unit} on its diagonal"

    def _around(self, scaled: np.ndarray) -> np.ndarray:
        return scaled + self.ridge * np.eye(len(scaled))


NOISE_MODELS: dict[str, type[Any]] = {kind.model: kind for kind in (AdditiveNoise, SamplingNoise)}


def noise_from_manifest(content: dict[str, Any]) -> NoiseModel:
    """Read a noise model. An unknown one is a KeyError."""
    model = NOISE_MODELS[content["model"]]
    facts = {key: value for key, value in content.items() if key != "model" and value is not None}
    if facts.get("parts"):
        facts["parts"] = tuple(noise_from_manifest(part) for part in facts["parts"])
    found: NoiseModel = model(**facts)
    return found


def sum_of_noises(noises: Sequence[AdditiveNoise]) -> AdditiveNoise:
    """Say what noise a sum of matrices has whose noises are independent: entries are not correlated, and variances add up.

    Normal noises add up to normal noise. The sum of others has no name: it is simulated as the sum that it is.
    """
    if len({noise.count_is_exact for noise in noises}) > 1:
        raise ValueError("some have a number of rows without noise, and others do not")
    each = tuple(part for noise in noises for part in (noise.parts or (noise,)))
    own, off = (
        math.sqrt(math.fsum(getattr(n, key) ** 2 for n in each)) for key in ("diagonal_std", "off_diagonal_std")
    )
    if all(noise.law == "gaussian" for noise in each):
        return AdditiveNoise(own, off, noises[0].count_is_exact)
    return AdditiveNoise(own, off, noises[0].count_is_exact, "sum", parts=each)


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
