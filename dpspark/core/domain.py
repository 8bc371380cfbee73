"""The public description of a bounded row: which columns, their bounds or categories, and its grid.

Everything here is known before a row is read. A row z of the domain is (1, numeric columns in [-1, 1], one-hot blocks, blocks
of products), stored as whole numbers q = z·2^bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

from dpspark.core.known import Known
from dpspark.core.products import Part, Product, term_parts
from dpspark.core.tables import WIDEST, KnownFacts, Tables

INTERCEPT = "(intercept)"
FINEST_BITS = 20  # 8192-row blocks: still exact in float64, and a block stays in the processor's cache
SMALLEST_BLOCK = 1024
LARGEST_BLOCK = 8192
WEIGHT_STEPS = 1 << 13  # what weights may take of the 2^53: values keep 15 bits, blocks 512 rows
SMALLEST_WEIGHTED_BLOCK = 512
SCORE_STEPS = 1 << 20  # the grid of scores: of a residual at its bound, and of a cluster's score at its bound

Category = str | int | bool
Side = Literal["lower", "upper"]
SIDES: tuple[Side, ...] = get_args(Side)


@dataclass(frozen=True)
class Numeric:
    """A column clipped to its bounds, centred at their midpoint and scaled to [-1, 1]."""

    name: str
    lower: float
    upper: float
    private: bool = False  # the bounds were (or are yet to be) found by a paid extra
    public_side: Side | None = None  # of private bounds: the one that is given, if not both are found

    @property
    def private_sides(self) -> tuple[Side, ...]:
        """The sides that are found in the data."""
        return tuple(side for side in SIDES if side != self.public_side) if self.private else ()

    @property
    def middle(self) -> float:
        return self.lower / 2 + self.upper / 2

    @property
    def half(self) -> float:
        return self.upper / 2 - self.lower / 2

    @property
    def terms(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class Categorical:
    """A column of public categories: one 0/1 column each (but for a `base`, which is all zeros), at most one of them 1."""

    name: str
    categories: tuple[Category, ...]
    first_is_base: bool = False

    @property
    def terms(self) -> tuple[str, ...]:
        shown = self.categories[1:] if self.first_is_base else self.categories
        return tuple(f"{self.name}[{category_label(category)}]" for category in shown)


@dataclass(frozen=True)
class Weight:
    """A weight, which says how often a row counts: its column's value, clipped to [0, upper], on a grid of its own.

    No weight, no row.

    `squared`: the square of that, for the variance of estimates from weighted rows.
    """

    name: str
    upper: float
    squared: bool = False

    @property
    def most(self) -> float:
        return self.upper**2 if self.squared else self.upper

    @property
    def plain_steps(self) -> int:
        """Grid steps from 0 to upper. Whole weights are on the grid as long as there are few enough of them."""
        if not (self.upper.is_integer() and self.upper <= WEIGHT_STEPS):
            return WEIGHT_STEPS
        return int(self.upper) << (WEIGHT_STEPS // int(self.upper)).bit_length() - 1

    @property
    def steps(self) -> int:
        """Grid steps from 0 to the most."""
        return self.plain_steps**2 if self.squared else self.plain_steps


@dataclass(frozen=True)
class GroupKey:
    """A column whose values say which public group a row belongs to: text, whole numbers, or true and false."""

    name: str


@dataclass(frozen=True)
class PersonKey:
    """A column whose values say which person a row is about."""

    name: str


@dataclass(frozen=True)
class ClusterKey:
    """A column whose values say which cluster a row belongs to: text, whole numbers, dates, or true and false."""

    name: str


def category_label(category: Category | float) -> str:
    """Write a category or a group's key as text; a whole number is written as one, whatever its type."""
    if isinstance(category, float) and category.is_integer():
        return str(int(category))
    return str(category).lower() if isinstance(category, bool) else str(category)


@dataclass(frozen=True)
class RowNorm:
    """A bound on the l2 norm of the scaled row without its intercept: `cap` shrinks longer rows, `project` moves all.

    In a regression the response is not part of that row, unless `include_response`: then the intercept, the regressors and
    the response are multiplied by one factor, such that intercept and regressors have norm √(1 + radius²) at most. That is
    weighted least squares, and coefficients keep their meaning.
    """

    mode: Literal["cap", "project"]
    radius: float
    include_response: bool = False

    @property
    def longest(self) -> float:
        """The largest norm of the row with its intercept."""
        return math.sqrt(1 + self.radius**2)


@dataclass(frozen=True)
class Clip:
    """The bound on one row's gradient. `ball`: its l2 norm is at most `size`; `box`: each of its coordinates is."""

    shape: Literal["ball", "box"]
    size: float


@dataclass(frozen=True)
class Domain:
    """The public description of a bounded row."""

    columns: tuple[Numeric | Categorical, ...]
    nulls: Literal["drop_row", "midpoint"] = "drop_row"
    row_norm: RowNorm | None = None
    bits: int = FINEST_BITS
    response: str | None = None  # of a regression: the last column, a numeric one
    weight: Weight | None = None
    keys: tuple[GroupKey, ...] = ()
    products: tuple[Product, ...] = ()  # of these columns: nothing more is read for them

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The names of the matrix's rows, the intercept first."""
        return (INTERCEPT, *(term for term, _ in term_parts(self.columns, self.products)))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What each term is a product of, as far as it is one."""
        return (Part(), *(part for _, part in term_parts(self.columns, self.products)))

    def terms_of(self, product: Product) -> tuple[str, ...]:
        """The names of a product's rows of the matrix."""
        own = [column for column in self.columns if column.name in product.of]
        return tuple(term for term, _ in term_parts(own, (product,)))[sum(len(column.terms) for column in own) :]

    @property
    def width(self) -> int:
        return len(self.terms)

    @property
    def numeric(self) -> tuple[Numeric, ...]:
        return tuple(column for column in self.columns if isinstance(column, Numeric))

    @property
    def blocks(self) -> tuple[Categorical, ...]:
        return tuple(column for column in self.columns if isinstance(column, Categorical))

    @property
    def read_columns(self) -> tuple[Numeric | Categorical | Weight | GroupKey, ...]:
        """The columns to read, the weight last."""
        return (*self.columns, *self.keys, *(() if self.weight is None else (self.weight,)))

    @property
    def one(self) -> int:
        """The grid's whole number for 1.0."""
        return 1 << self.bits

    @property
    def largest(self) -> float:
        """The largest absolute value of one coordinate, in units of 1.0."""
        if self.row_norm is not None and self.row_norm.mode == "project":
            norm = self.row_norm
            return max(1.0, norm.longest if norm.include_response else norm.radius)
        return 1.0

    @property
    def regressors(self) -> Domain:
        """The same rows without the response."""
        return self if self.response is None else replace(self, columns=self.columns[:-1], response=None)

    @property
    def first_entry_counts(self) -> bool:
        """Whether the matrix's first entry is the number of rows (or their weight): not where the intercept is shrunk too."""
        return self.row_norm is None or not self.row_norm.include_response

    @cached_property
    def known(self) -> KnownFacts | None:
        """What is known exactly of the matrix of such rows; None if nothing is.

        A row norm that leaves the intercept as it is makes a category's column something else than 0 or the intercept; a null
        at the midpoint, or a base without a column, makes a row that is in no category. Of a very wide matrix with products,
        only that is used which holds of any block, and of a product with a number nothing.
        """
        whole = self.row_norm is None or self.row_norm.include_response
        one_each = self.nulls == "drop_row" and not any(block.first_is_base for block in self.blocks)
        if self.products and whole and self.width <= WIDEST:
            return Tables(self.parts, one_each)
        places = {term: i for i, term in enumerate(self.terms)}
        pairs = [self.terms_of(product) for product in self.products if self._is_of_categories(product)]
        named = (*(block.terms for block in self.blocks), *pairs)
        blocks = tuple(tuple(places[term] for term in terms) for terms in named if terms)
        found = Known(self.width, blocks, whole, whole and one_each)
        return found if found.says_something else None

    @property
    def named_blocks(self) -> dict[str, tuple[str, ...]]:
        """The terms of each block, of categories or of products, by its name."""
        own = {block.name: block.terms for block in self.blocks}
        return {**own, **{product.name: self.terms_of(product) for product in self.products}}

    def factor_terms(self, term: str) -> tuple[str, ...]:
        """The two terms that a term of a product is the product of; none if it is of a column."""
        part = self.parts[self.terms.index(term)]
        singles = (*(Part((cell,)) for cell in part.cells), *(Part(numbers=(number,)) for number in part.numbers))
        return tuple(self.terms[self.parts.index(single)] for single in singles) if len(singles) > 1 else ()

    def _is_of_categories(self, product: Product) -> bool:
        return all(name in {block.name for block in self.blocks} for name in product.of)

    @property
    def clip_counts(self) -> int:
        """The number of integers that a `ClipCounter` counts: two a numeric column, and the rows if nothing else tells them."""
        return 2 * len(self.numeric) + (not self.first_entry_counts)

    @property
    def block_rows(self) -> int:
        """Rows whose products add up below 2^53, so that float64 BLAS is exact in any order."""
        return min(LARGEST_BLOCK, math.floor(2.0**53 / self._weight_steps / (self.one * self.largest) ** 2))

    @property
    def _weight_steps(self) -> int:
        return 1 if self.weight is None else self.weight.steps

    @property
    def steps_per_row(self) -> float:
        """Steps of an entry's integer grid in a row of weight 1."""
        return 4.0**self.bits if self.weight is None else 4.0**self.bits * (self.weight.steps / self.weight.most)

    def with_squared_weights(self) -> Domain:
        """Count the same rows, each by the square of its weight."""
        assert self.weight is not None
        squared = replace(self, weight=replace(self.weight, squared=True))
        return squared.with_bits(FINEST_BITS)

    def with_bits(self, bits: int) -> Domain:
        """Use a grid of so many bits, or the finest that is possible."""
        return replace(self, bits=min(bits, self.most_bits))

    @property
    def most_bits(self) -> int:
        """The finest grid that leaves blocks of a useful size."""
        smallest = SMALLEST_BLOCK if self.weight is None else SMALLEST_WEIGHTED_BLOCK
        room = 53 - math.log2(smallest) - math.log2(self._weight_steps) - 2 * math.log2(self.largest)
        return min(FINEST_BITS, math.floor(room / 2))


def domain_to_manifest(domain: Domain) -> list[dict[str, Any]]:
    """Write the columns as a manifest has them."""
    return [
        {"name": c.name, "lower": c.lower, "upper": c.upper, **_found_sides(c)}
        if isinstance(c, Numeric)
        else {"name": c.name, "categories": list(c.categories), **({"base": "first"} if c.first_is_base else {})}
        for c in domain.columns
    ]


def products_to_manifest(domain: Domain) -> dict[str, list[list[str]]]:
    """Write the blocks of products, each as the names of its columns; nothing where there are none."""
    return {"products": [list(product.of) for product in domain.products]} if domain.products else {}


def _found_sides(column: Numeric) -> dict[str, Any]:
    """Say that bounds are private, and which side if only one is."""
    if not column.private:
        return {}
    one = {} if column.public_side is None else {"private_sides": list(column.private_sides)}
    return {"bounds": "private", **one}


def public_side_of(private_sides: Sequence[str] | None) -> Side | None:
    """Find the side that is not among the private ones of a manifest's column: none if it does not name them."""
    return next((side for side in SIDES if private_sides is not None and side not in private_sides), None)


def domain_from_manifest(manifest: dict[str, Any]) -> Domain:
    """Read the columns, their products, the null policy and the grid from a manifest."""
    columns = [
        Numeric(
            c["name"],
            float(c["lower"]),
            float(c["upper"]),
            c.get("bounds") == "private",
            public_side_of(c.get("private_sides")),
        )
        if "lower" in c
        else Categorical(c["name"], tuple(c["categories"]), c.get("base") == "first")
        for c in manifest["columns"]
    ]
    norm = manifest["row_norm"]
    return Domain(
        tuple(columns),
        nulls="drop_row" if manifest.get("nulls") == "drop_row" else "midpoint",  # of which less is known
        row_norm=None if norm is None else RowNorm(**norm),
        bits=int(manifest["grid_bits"]),
        response=manifest["release"].get("response"),
        products=tuple(Product((first, second)) for first, second in manifest.get("products") or ()),
    )
