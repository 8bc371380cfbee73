"""What is known exactly of a matrix Σ w z zᵀ of bounded rows, whatever the rows: the facts of its one-hot blocks.

Of a row z and a block of one-hot columns c, with z_0 the intercept:

    zeros      z_c·z_d = 0                 a row is in one category at most, so that entries between two of them are 0
    diagonal   z_c² = z_c·z_0              a category's column is 0 or the intercept: S_cc = S_0c
    totals     Σ_c z_c·z_j = z_0·z_j       a row is in exactly one category: a block's entries add up to the intercept's

They hold of each row, so of every sum of rows with any weights, and of no noise that was added to it. Taking the noise off
that they give away is a projection: the matrix within the facts that is nearest to the noisy one, entries weighted by the
inverse of their noise's variance (generalised least squares).

Without the totals it is an average of S_0c and S_cc. With them, for independent noise of variance 1 off the diagonal, 1/p on
it, blocks a of k_a categories, C_a = I − 11ᵀ/k_a and T_ab the table of blocks a and b, an orthogonal decomposition of every
table into its total, its margins and the rest gives

    n̂    = [p S_00 + Σ_a Σ_c (S_0c + p S_cc)/k_a + Σ_{a<b} ΣT_ab/(k_a k_b)] / [p + Σ_a (1 + p)/k_a + Σ_{a<b} 1/(k_a k_b)]
    φ_a   = C_a [S_0· + p S_·· + Σ_{b≠a} T_ab 1/k_b] / [1 + p + Σ_{b≠a} 1/k_b]
    Ŝ_0c  = Ŝ_cc = φ_a + n̂/k_a,     Ŝ_ab = C_a T_ab C_b + φ_a 1ᵀ/k_b + 1 φ_bᵀ/k_a + n̂/(k_a k_b)
    t_i   = [S_0i + Σ_a Σ_c S_ic/k_a] / [1 + Σ_a 1/k_a],     Ŝ_0i = t_i,     Ŝ_ia = C_a S_ia + t_i/k_a

for numbers i; n̂ is S_00 itself where that has no noise. Post-processing: no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Known:
    """The facts that hold of a matrix with an intercept first; the zeros always do."""

    width: int
    blocks: tuple[tuple[int, ...], ...]  # the places of each categorical column's terms
    diagonal: bool
    totals: bool  # never without the diagonal

    def only(self, places: Sequence[int]) -> Known | None:
        """Say what is known of a part of the matrix, whose rows are at these places; None if nothing is."""
        new = {place: i for i, place in enumerate(places)}
        blocks = tuple(tuple(new[place] for place in block if place in new) for block in self.blocks)
        first = bool(len(places)) and places[0] == 0
        whole = all(len(part) in (0, len(block)) for part, block in zip(blocks, self.blocks, strict=True))
        kept = tuple(part for part in blocks if part)
        found = Known(len(places), kept, self.diagonal and first, self.totals and first and whole)
        return found if found.says_something else None

    @property
    def says_something(self) -> bool:
        return bool(self.blocks) and (self.diagonal or any(len(block) > 1 for block in self.blocks))

    @cached_property
    def categories(self) -> np.ndarray:
        """The places of all categories, block after block."""
        return np.array([place for block in self.blocks for place in block], dtype=int)

    @cached_property
    def numbers(self) -> np.ndarray:
        """The places of all other terms, but for the intercept."""
        return np.setdiff1d(np.arange(1, self.width), self.categories)

    @cached_property
    def members(self) -> np.ndarray:
        """A row for each category, a column for each block: 1 where the category is of the block."""
        sizes = [len(block) for block in self.blocks]
        return np.repeat(np.eye(len(sizes)), sizes, axis=0)

    @cached_property
    def parts(self) -> np.ndarray:
        """1/k of the block of each category."""
        return 1 / (self.members @ self.members.sum(axis=0))

    @cached_property
    def apart(self) -> np.ndarray:
        """1 for two categories of different blocks, 0 for those of one."""
        return 1 - self.members @ self.members.T

    @cached_property
    def centring(self) -> np.ndarray:
        """C, which takes off each block's mean."""
        return np.eye(len(self.parts)) - (1 - self.apart) * self.parts

    def centre(self, values: np.ndarray) -> np.ndarray:
        """C times a matrix, or many, with a row for each category: quicker than by C itself."""
        means = (self.members.T @ values) / self.members.sum(axis=0)[:, None]
        return np.asarray(values - self.members @ means)

    def margins(self, ratio: float) -> np.ndarray:
        """1 + p + Σ_{b≠a} 1/k_b at each category: how often a margin is seen. `ratio` is the variance on the diagonal."""
        each = 1 / self.members.sum(axis=0)
        return 1 + 1 / ratio + each.sum() - self.parts

    def total(self, ratio: float) -> float:
        """p + Σ_a (1 + p)/k_a + Σ_{a<b} 1/(k_a k_b): how often the number of rows is seen."""
        each = 1 / self.members.sum(axis=0)
        pairs = (each.sum() ** 2 - (each**2).sum()) / 2
        return float(1 / ratio + (1 + 1 / ratio) * each.sum() + pairs)

    @property
    def rows_seen(self) -> float:
        """1 + Σ_a 1/k_a: how often the sum of a number is seen."""
        return 1 + float((1 / self.members.sum(axis=0)).sum())

    def project(self, matrices: np.ndarray, ratio: float, count_is_exact: bool = False) -> np.ndarray:
        """Put the facts into one symmetric matrix or many; `ratio` is the noise's variance on the diagonal over that off it."""
        found = np.array(matrices, dtype=float)
        at = self.categories
        found[..., at[:, None], at] *= self.apart
        diagonal = np.asarray(matrices)[..., at, at]
        if self.totals:
            self._put_totals(found, diagonal, ratio, count_is_exact)
            return found
        if self.diagonal:
            diagonal = (found[..., 0, at] + diagonal / ratio) / (1 + 1 / ratio)
            found[..., 0, at] = found[..., at, 0] = diagonal
        found[..., at, at] = diagonal
        return found

    def _put_totals(self, found: np.ndarray, diagonal: np.ndarray, ratio: float, count_is_exact: bool) -> None:
        at, others, q, p = self.categories, self.numbers, self.parts, 1 / ratio
        table = found[..., at[:, None], at]
        margins = table @ q
        first = found[..., 0, at]
        count = found[..., 0, 0]
        if not count_is_exact:
            seen = p * count + (first + p * diagonal) @ q + margins @ q / 2
            count = seen / self.total(ratio)
        phi = self.centre((first + p * diagonal + margins)[..., None])[..., 0] / self.margins(ratio)
        mine = phi + count[..., None] * q
        beside = phi[..., :, None] * q
        table = self.centre(np.swapaxes(self.centre(table), -1, -2)) + beside + np.swapaxes(beside, -1, -2)
        found[..., at[:, None], at] = (table + count[..., None, None] * np.outer(q, q)) * self.apart
        found[..., at, at] = found[..., 0, at] = found[..., at, 0] = mine
        found[..., 0, 0] = count
        across = found[..., at[:, None], others]
        sums = (found[..., 0, others] + q @ across) / self.rows_seen
        across = self.centre(across) + q[:, None] * sums[..., None, :]
        found[..., at[:, None], others] = across
        found[..., others[:, None], at] = np.swapaxes(across, -1, -2)
        found[..., 0, others] = found[..., others, 0] = sums
