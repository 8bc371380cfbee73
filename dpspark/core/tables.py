"""What is known exactly of a matrix Σ w z zᵀ of bounded rows with products among their columns.

Every entry z_i·z_j is a product of categories and numbers. So of each row, and of every sum of rows with any weights,

    zeros     two categories of one column in a product: 0
    equals    entries that are the same product are equal: sex[c]·educ and 1·(sex[c]·educ), sex[c]² and 1·sex[c]
    totals    where a row is in exactly one category, Σ_c sex[c]·m = m: entries that differ in the category of sex alone

add up to the entry without it. The entries with the numbers μ and the categorical columns B are a table T_B, a cell for each
combination of categories, and Σ over a column b of B gives the table of the others, which is there, too: factors of products
are columns of the domain. Every cell of a table is seen equally often, W_B in units of the inverse of the noise's variance.

The matrix within these facts that is nearest to a noisy one (generalised least squares) has a closed form, because tables are
sums of orthogonal parts φ_A, A ⊆ B, which are zero in sum over each of their columns (an analysis of variance):

    T_B = Σ_{A⊆B} φ_A ⊗ Π_{b∈B∖A} 1/k_b,     φ̂_A = C_A Σ_{B⊇A} W_B/K · Σ_{B∖A} T_B / Σ_{B⊇A} W_B/K,     K = Π_{b∈B∖A} k_b

with C_A the centring along every column of A, and T_B the average of what is seen of it. Without the totals it is that average.
For columns without products this is the projection of `core.known`, by another way. Post-processing: no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product as combinations_of
from math import prod
from typing import Any

import numpy as np

from dpspark.core.known import Known
from dpspark.core.products import Part

WIDEST = 150  # terms: beyond, what products give away takes too long to use

Shape = tuple[tuple[int, ...], tuple[int, ...]]  # the numbers and the categorical columns of a table


@dataclass(frozen=True)
class Table:
    """The entries with the same numbers and the same categorical columns: where its cells are among all cells."""

    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    cells: range

    def margin(self, values: np.ndarray, kept: tuple[int, ...]) -> np.ndarray:
        """Add up over the columns that are not kept; many tables at once."""
        axes = tuple(at - len(self.columns) for at, column in enumerate(self.columns) if column not in kept)
        return values.sum(axis=axes)

    def others(self, kept: tuple[int, ...]) -> int:
        """Count the combinations of categories of the columns that are not kept."""
        return prod(size for column, size in zip(self.columns, self.sizes, strict=True) if column not in kept)

    def spread(self, values: np.ndarray, of: tuple[int, ...]) -> np.ndarray:
        """Repeat a table of some of the columns along the others."""
        at = tuple(slice(None) if column in of else None for column in self.columns)
        return values[(..., *at)]


@dataclass(frozen=True)
class Tables:
    """The facts that hold of a matrix whose terms are such products."""

    parts: tuple[Part, ...]
    one_each: bool  # a row is in exactly one category of each column

    @property
    def width(self) -> int:
        return len(self.parts)

    def only(self, places: Sequence[int]) -> Tables | None:
        """Say what is known of a part of the matrix, whose rows are at these places; None if nothing is."""
        found = Tables(tuple(self.parts[place] for place in places), self.one_each)
        return found if found.says_something else None

    @property
    def says_something(self) -> bool:
        return len(self._layout.positions) < self.width * (self.width + 1) // 2

    @property
    def totals(self) -> bool:
        """Whether totals are used: all categories must be there, and the tables of fewer columns."""
        return self.one_each and self._layout.complete

    @property
    def _layout(self) -> _Layout:
        return _layout_of(self.parts)

    def for_page(self) -> dict[str, Any]:
        """Describe the cells for the program of a report's page: that of each entry, and the tables they are of."""
        layout = self._layout
        tables = [
            [{"columns": t.columns, "sizes": t.sizes, "start": t.cells.start} for t in tables]
            for tables in (layout.tables.values() if self.totals else ())
        ]
        return {"cells": len(layout.positions), "where": layout.where.tolist(), "tables": tables, "totals": self.totals}

    def seen(self, ratio: float) -> np.ndarray:
        """W of each cell; `ratio` is the noise's variance on the diagonal over that off it."""
        layout = self._layout
        return layout.off + layout.own / ratio

    def project(self, matrices: np.ndarray, ratio: float, count_is_exact: bool = False) -> np.ndarray:
        """Put the facts into one symmetric matrix or many; `ratio` is the noise's variance on the diagonal over that off it."""
        layout, whole = self._layout, np.asarray(matrices, dtype=float)
        flat = whole.reshape(*whole.shape[:-2], self.width**2)
        weighted = flat[..., layout.entries] * np.where(layout.on_diagonal, 1 / ratio, 1.0)
        weights = self.seen(ratio)
        cells = np.add.reduceat(weighted, layout.starts, axis=-1) / weights
        if self.totals:
            cells = self._put_totals(cells, weights, count_is_exact)
        cells = np.concatenate([cells, np.zeros((*cells.shape[:-1], 1))], axis=-1)  # of the entries that are 0
        return np.asarray(cells[..., layout.where])

    def covariance(self, w: np.ndarray, ratio: float, count_is_exact: bool = False) -> np.ndarray:
        """Compute Cov(Ê w) of the noise that is left, in units of the variance off the diagonal: Mᵀ P(M/W).

        M has in (cell, i) the sum of w_j over the entries (i, j) that are the cell. An entry's weight is the inverse of its
        variance, so that Cov(E, e_jᵀ E w) has the weighted mean M_cj/W_c in cell c, which P puts the totals into.
        """
        layout, every = self._layout, np.arange(self.width)
        sums = np.zeros((len(layout.positions) + 1, self.width))
        np.add.at(sums, (layout.where, every[:, None]), np.broadcast_to(w, (self.width, self.width)))
        sums, weights = sums[:-1], self.seen(ratio)
        cells = (sums / weights[:, None]).T
        if count_is_exact and self.parts[0] == Part():
            cells[0, layout.where[0, 0]] = 0.0
        if self.totals:
            cells = self._put_totals(cells, weights, count_is_exact)
        return np.asarray(cells @ sums)

    def _put_totals(self, cells: np.ndarray, weights: np.ndarray, count_is_exact: bool) -> np.ndarray:
        found, stack = np.empty_like(cells), cells.shape[:-1]
        for numbers, tables in self._layout.tables.items():
            values = [np.reshape(cells[..., t.cells.start : t.cells.stop], (*stack, *t.sizes)) for t in tables]
            parts: dict[tuple[int, ...], np.ndarray] = {}
            for part in tables:
                above = [(t, v) for t, v in zip(tables, values, strict=True) if set(part.columns) <= set(t.columns)]
                if count_is_exact and not numbers and not part.columns:
                    above = above[:1]  # the number of rows itself
                shares = [float(weights[t.cells.start]) / t.others(part.columns) for t, _ in above]
                seen = [s * t.margin(v, part.columns) for s, (t, v) in zip(shares, above, strict=True)]
                parts[part.columns] = _centred(sum(seen[1:], seen[0]), len(part.columns)) / sum(shares)
            for table in tables:
                mine = [(of, v) for of, v in parts.items() if set(of) <= set(table.columns)]
                whole = sum(table.spread(v, of) / table.others(of) for of, v in mine)
                shaped = np.broadcast_to(whole, (*stack, *table.sizes))
                found[..., table.cells.start : table.cells.stop] = np.reshape(shaped, (*stack, len(table.cells)))
        return found


def _centred(values: np.ndarray, axes: int) -> np.ndarray:
    """Take off the mean along each of the last axes."""
    for axis in range(1, axes + 1):
        values = values - values.mean(axis=-axis, keepdims=True)
    return values


class _Layout:
    """Where the cells are: each a product that entries of the matrix are, each entry one of them or 0."""

    def __init__(self, parts: tuple[Part, ...]):
        self.parts = parts
        products = {
            (i, j): made
            for j in range(len(parts))
            for i in range(j + 1)
            if (made := parts[i].times(parts[j])) is not None
        }
        # Table by table, the smallest first; in each, cell by cell.
        ordered = sorted(set(products.values()), key=lambda p: (p.numbers, len(p.cells), p.cells))
        ordered.sort(key=lambda p: (p.numbers, len(p.cells), tuple(column for column, _ in p.cells)))
        self.positions = {made: at for at, made in enumerate(ordered)}
        self.where = np.full((len(parts), len(parts)), len(ordered))
        for (i, j), made in products.items():
            self.where[i, j] = self.where[j, i] = self.positions[made]
        rows, columns = np.array(list(products)).T
        cells = self.where[rows, columns]
        order = np.argsort(cells, kind="stable")
        self.entries = (rows * len(parts) + columns)[order]
        self.on_diagonal = (rows == columns)[order]
        self.starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
        self.own = np.add.reduceat(self.on_diagonal.astype(float), self.starts)
        self.off = np.add.reduceat((~self.on_diagonal).astype(float), self.starts)

    @cached_property
    def tables(self) -> dict[tuple[int, ...], list[Table]]:
        """The tables by their numbers, those of fewer columns first."""
        found: dict[tuple[int, ...], list[Table]] = {}
        start, cells = 0, list(self.positions)
        while start < len(cells):
            columns = tuple(column for column, _ in cells[start].cells)
            sizes = tuple(len(self.categories[column]) for column in columns)
            end = start + prod(sizes)
            found.setdefault(cells[start].numbers, []).append(Table(columns, sizes, range(start, end)))
            start = end
        return found

    @cached_property
    def categories(self) -> dict[int, set[int]]:
        found: dict[int, set[int]] = {}
        for part in self.parts:
            for column, category in part.cells:
                found.setdefault(column, set()).add(category)
        return found

    @cached_property
    def complete(self) -> bool:
        """Whether every table has all its cells, equally often seen, and all tables of fewer columns are there."""
        shapes: dict[Shape, list[int]] = {}
        for at, part in enumerate(self.positions):
            shapes.setdefault((part.numbers, tuple(column for column, _ in part.cells)), []).append(at)
        for (numbers, columns), cells in shapes.items():
            sizes = [sorted(self.categories[column]) for column in columns]
            wanted = [Part(tuple(zip(columns, chosen, strict=True)), numbers) for chosen in combinations_of(*sizes)]
            even = np.ptp(self.own[cells]) == 0 and np.ptp(self.off[cells]) == 0
            fewer = all((numbers, tuple(c for c in columns if c != column)) in shapes for column in columns)
            if not (even and fewer and [self.positions.get(part) for part in wanted] == cells):
                return False
        return all(len(own) == max(own) + 1 for own in self.categories.values())


KnownFacts = Known | Tables


@lru_cache(maxsize=16)
def _layout_of(parts: tuple[Part, ...]) -> _Layout:
    return _Layout(parts)
