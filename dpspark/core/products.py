"""Blocks of products: a categorical column times another column, one unit coordinate of a row in all.

A row z of a domain has, beside its columns, for each product

    sex:educ     for each category c, z_c·t with t the number's own value in [-1, 1]: t in the row's category, 0 elsewhere
    sex:region   for each pair of categories, z_c·z_d: 1 in the row's pair, 0 elsewhere

on the very grid of the columns themselves. Nothing more is read for them. A null of either column is a null of the product.

In original units sex[c]·educ = middle·sex[c] + half·(z_c·t): it leans on its category as educ itself leans on the intercept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpspark.core.domain import Categorical, Numeric


@dataclass(frozen=True)
class Product:
    """A block of the products of two columns, by their names; the first is categorical."""

    of: tuple[str, str]

    @property
    def name(self) -> str:
        return ":".join(self.of)


@dataclass(frozen=True)
class Part:
    """A term of the matrix as what it is a product of: categories of columns, and numbers. The intercept is of none."""

    cells: tuple[tuple[int, int], ...] = ()  # (column, category), in the order of columns
    numbers: tuple[int, ...] = ()  # columns

    def times(self, other: Part) -> Part | None:
        """Multiply two terms of one row; None if they are never both different from 0."""
        cells = dict(self.cells)
        for column, category in other.cells:
            if cells.setdefault(column, category) != category:
                return None
        return Part(tuple(sorted(cells.items())), tuple(sorted((*self.numbers, *other.numbers))))


def factors_of(product: Product, columns: Sequence[Numeric | Categorical]) -> tuple[Categorical, Numeric | Categorical]:
    """Find the two columns of a product."""
    by_name = {column.name: column for column in columns}
    first, second = (by_name[name] for name in product.of)
    return first, second  # type: ignore[return-value]


def term_parts(columns: Sequence[Numeric | Categorical], products: Sequence[Product]) -> Iterator[tuple[str, Part]]:
    """Yield the terms of columns and of their products, each with what it is made of."""
    of: dict[str, list[tuple[str, Part]]] = {}
    for at, column in enumerate(columns):
        if hasattr(column, "categories"):
            of[column.name] = [(term, Part(((at, number),))) for number, term in enumerate(column.terms)]
        else:
            of[column.name] = [(column.name, Part(numbers=(at,)))]
        yield from of[column.name]
    for product in products:
        first, second = (of[name] for name in product.of)
        for name, part in first:
            for other, second_part in second:
                both = part.times(second_part)
                assert both is not None
                yield f"{name}:{other}", both
