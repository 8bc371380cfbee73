"""The noise that is left of a matrix after all was used that is known of its categorical columns.

The projection of `core.known` takes the noise E to Ê. With it the total n̂, each block's margins φ_a, the rest of each table
and the numbers' rows are independent of each other, which gives every variance below in closed form:

    Var(n̂) = τ²/total,   Cov(φ_a) = τ²/margins_a · C_a,   the rest of a table τ² C_a ⊗ C_b,   a number's row τ² Q

Q is the projector to (v_0, v_c) with Σ_c v_c = v_0 in each block. Post-processing: no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpspark.core.domain import Domain
from dpspark.core.known import Known
from dpspark.core.tables import KnownFacts
from dpspark.mechanisms.gram.coordinates import centre_and_scale, congruence_std
from dpspark.mechanisms.gram.laws import normal_reach
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.mechanisms.gram.spread_noise import SpreadNoise


@dataclass(frozen=True)
class KnownNoise(SpreadNoise):
    """Additive noise less what is known not to be signal, of the terms at some places of the matrix."""

    model: ClassVar[str] = "known"  # in no manifest: what is released is the noisy matrix
    grows_with_data: ClassVar[bool] = False
    base: AdditiveNoise
    known: Known
    places: tuple[int, ...]

    @property
    def count_is_exact(self) -> bool:  # type: ignore[override]
        return self.base.count_is_exact and self.places[0] == 0

    @property
    def terms(self) -> int:
        return len(self.places)

    def project(self, matrix: np.ndarray) -> np.ndarray:
        return self.known.project(matrix, self.base.ratio, self.base.count_is_exact)

    def given(self, known: KnownFacts | None) -> NoiseModel:
        """All that is known is used already."""
        return self

    def only(self, places: Sequence[int]) -> NoiseModel:
        return replace(self, places=tuple(self.places[place] for place in places))

    def spread(self, factor: np.ndarray, scaled: np.ndarray) -> np.ndarray:
        at = np.array(self.places)
        whole = np.zeros((*factor.shape[:-2], self.known.width, factor.shape[-1]))
        whole[..., at, :] = factor
        found = self._totals(whole) if self.known.totals else self._separate(whole)
        return np.asarray(found[..., at[:, None], at])

    def size(self, directions: int, least: Any) -> Any:
        return self.base.size(directions, least)

    def off_diagonal(self, scaled: np.ndarray | None = None) -> float:
        variances = self._selected()
        return float(np.sqrt(variances[~np.eye(len(variances), dtype=bool)].max()))

    def entry_std(self, domain: Domain, original: np.ndarray) -> np.ndarray:
        return congruence_std(self._selected(), *centre_and_scale(domain))

    def draw(self, scaled: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
        """Simulate the whole matrix by its own law, and put the facts in: what is left of Laplace noise is no Laplace noise."""
        drawn = self.base.draw(np.zeros((self.known.width, self.known.width)), rng, count)
        if self.base.count_is_exact:
            drawn[:, 0, 0] = 0.0
        at = np.array(self.places)
        return np.asarray(self.project(drawn)[:, at[:, None], at])

    def in_words(self, unit: str) -> str:
        return f"{self.base.in_words(unit)}, less what is known of the categories"

    def reach(self, beta: float) -> float:
        return max(self.base.reach(beta), normal_reach(beta))

    def norm_bound(self, width: int, beta: float) -> float | None:
        """That of the whole noise: a normal vector with less variance in every direction is in a ball more often (Anderson)."""
        return self.base.norm_bound(width, beta)

    def for_page(self) -> dict[str, Any]:
        blocks = [list(block) for block in self.known.blocks]
        known = {"blocks": blocks, "diagonal": self.known.diagonal, "totals": self.known.totals}
        return {**self.base.for_page(), "known": known}

    def covary(self, forms: np.ndarray) -> np.ndarray:
        """The projection of the same of E."""
        at = np.array(self.places)
        whole = np.zeros((len(forms), self.known.width, self.known.width))
        whole[:, at[:, None], at] = forms
        return np.asarray(self.project(self.base.covary(whole))[:, at[:, None], at])

    def _selected(self) -> np.ndarray:
        at = np.array(self.places)
        return self._variances[np.ix_(at, at)]

    @cached_property
    def _parts(self) -> tuple[float, float, np.ndarray]:
        """τ², Var(n̂) and, at each category, the variance of its block's margins."""
        off, ratio = self.base.off_diagonal_std**2, self.base.ratio
        count = 0.0 if self.base.count_is_exact else off / self.known.total(ratio)
        return off, count, off / self.known.margins(ratio)

    @cached_property
    def _variances(self) -> np.ndarray:
        """The variance of every entry."""
        known, base = self.known, self.base
        off, own, at, others = base.off_diagonal_std**2, base.diagonal_std**2, known.categories, known.numbers
        found = np.full((known.width, known.width), off)
        np.fill_diagonal(found, own)
        found[0, 0] = 0.0 if base.count_is_exact else own
        found[np.ix_(at, at)] *= known.apart
        if not known.totals:
            both = off * own / (off + own) if known.diagonal else own
            found[at, at] = both
            if known.diagonal:
                found[0, at] = found[at, 0] = both
            return found
        _, count, margin = self._parts
        q, left = known.parts, 1 - known.parts
        beside = np.outer(margin * left, q**2)
        table = off * np.outer(left, left) + beside + beside.T + count * np.outer(q**2, q**2)
        found[np.ix_(at, at)] = table * known.apart
        found[at, at] = found[0, at] = found[at, 0] = margin * left + count * q**2
        found[0, 0] = count
        found[np.ix_(others, at)] = off * (left + q**2 / known.rows_seen)
        found[np.ix_(at, others)] = found[np.ix_(others, at)].T
        found[0, others] = found[others, 0] = off / known.rows_seen
        return found

    @cached_property
    def _free(self) -> tuple[np.ndarray, np.ndarray]:
        """The variances of entries that are on their own, without the totals: off the diagonal, and on it."""
        known, base = self.known, self.base
        off = np.full((known.width, known.width), base.off_diagonal_std**2)
        own = np.full(known.width, base.diagonal_std**2)
        at = known.categories
        off[np.ix_(at, at)] *= known.apart
        np.fill_diagonal(off, 0.0)
        own[0] = 0.0 if base.count_is_exact else own[0]
        if known.diagonal:
            off[0, at] = off[at, 0] = own[at] = 0.0
        return off, own

    def _separate(self, factor: np.ndarray) -> np.ndarray:
        """E[Ê K Ê], K = F Fᵀ, without the totals: entry by entry, and for S_0c = S_cc once."""
        middle = factor @ np.swapaxes(factor, -1, -2)
        diagonal = np.diagonal(middle, axis1=-2, axis2=-1)
        off, own = self._free
        found = off * middle
        every = np.arange(self.known.width)
        found[..., every, every] += diagonal @ off + own * diagonal
        if self.known.diagonal:
            at = self.known.categories
            both = self._variances[0, at]
            first, mine = middle[..., 0, at], diagonal[..., at]
            found[..., 0, 0] += mine @ both
            found[..., 0, at] += both * (first + mine)
            found[..., at, 0] += both * (first + mine)
            found[..., at, at] += both * (diagonal[..., :1] + 2 * first + mine)
        return found

    def _totals(self, factor: np.ndarray) -> np.ndarray:
        """E[Ê K Ê], K = F Fᵀ, with the totals.

        Of w = F's columns: s = w_0 + Σ_c w_c/k, x = C w and g = s + x.
        """
        known, off = self.known, self._parts[0]
        at, others, q, seen = known.categories, known.numbers, known.parts, known.rows_seen
        numbers = factor[..., others, :]
        s = (factor[..., 0, :] + q @ factor[..., at, :])[..., None, :]
        x = known.centre(factor[..., at, :])
        found = np.zeros((*factor.shape[:-1], known.width))
        places = np.concatenate([[0], at])
        size = np.square(numbers).sum(axis=(-2, -1))[..., None, None]
        found[..., places[:, None], places] = self._in_blocks(s, x) + off * size * self._row
        turned = np.concatenate([s / seen, x + q[:, None] * s / seen], axis=-2)  # Q w
        cross = off * numbers @ np.swapaxes(turned, -1, -2)
        found[..., others[:, None], places] = cross
        found[..., places[:, None], others] = np.swapaxes(cross, -1, -2)
        share = (np.square(x).sum(axis=(-2, -1)) + np.square(s).sum(axis=(-2, -1)) / seen)[..., None, None]  # tr(Q K)
        middle = self.base._spread(numbers @ np.swapaxes(numbers, -1, -2))
        found[..., others[:, None], others] = middle + off * share * np.eye(len(others))
        return found

    def _in_blocks(self, s: np.ndarray, x: np.ndarray) -> np.ndarray:
        """The same among the intercept and the categories alone.

        n̂ moves Ê w by (s, g/k); φ_a by u_a (φ_a·w_a) and, in its own block, by φ_a g, with u_a = (1, 1/k) outside of that
        block; the rest of the tables moves it by itself.
        """
        known, (off, count, margin) = self.known, self._parts
        q, g = known.parts, s + x
        squares = np.square(x).sum(axis=-1) @ known.members  # of each block
        moved = np.concatenate([s, q[:, None] * g], axis=-2)
        line = np.concatenate([[1.0], q])[:, None]
        beside = line * np.vstack([np.ones(len(known.blocks)), 1 - known.members])  # u_a in column a
        of_block = margin @ known.members / known.members.sum(axis=0)
        # The number of rows, and the margins where they stand in other blocks.
        found = count * moved @ np.swapaxes(moved, -1, -2) + (beside * (of_block * squares)[..., None, :]) @ beside.T
        # The margins where they stand in other blocks and in their own.
        across = (beside @ known.members.T) * (margin * np.einsum("...ci,...ci->...c", x, g))[..., None, :]
        found[..., 1:] += across
        found[..., 1:, :] += np.swapaxes(across, -1, -2)
        # The margins in their own block, and the rest of the tables.
        elsewhere = (squares.sum(axis=-1, keepdims=True) - squares) @ known.members.T
        own = margin[:, None] * (g @ np.swapaxes(g, -1, -2)) + off * elsewhere[..., None, :]
        found[..., 1:, 1:] += known.centring * own + off * known.apart * (x @ np.swapaxes(x, -1, -2))
        return np.asarray(found)

    @cached_property
    def _row(self) -> np.ndarray:
        """Q, of the intercept and the categories."""
        line = np.concatenate([[1.0], self.known.parts])
        found = np.outer(line, line) / self.known.rows_seen
        found[1:, 1:] += self.known.centring
        return found
