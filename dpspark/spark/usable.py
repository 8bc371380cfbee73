"""What a release sees of a row, and whether it could use it at all: of each row by itself. Runs on executors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspark.core.domain import Categorical, Domain
from dpspark.exact.bounds import grid_weights, plain_values
from dpspark.spark.groups import GroupList

LARGEST_WORD = 1 << 63


@dataclass(frozen=True)
class Usable:
    """A test of each row by itself: could the release use it at all?"""

    domain: Domain
    groups: GroupList | None = None
    by_value: bool = False  # a null costs its row one value, not the row (quantiles)

    def values(self, rows: Any) -> list[np.ndarray]:
        """Find what the release sees of rows: numbers, codes of categories, the group's code, the weight.

        `rows` has the domain's read_columns, in order.
        """
        domain = self.domain
        found = [plain_values(column, rows.column(i)) for i, column in enumerate(domain.columns)]
        first = len(domain.columns)
        if self.groups is not None:
            found.append(self.groups.codes([rows.column(first + i) for i in range(len(domain.keys))]))
        if domain.weight is not None:
            found.append(plain_values(domain.weight, rows.column(first + len(domain.keys))))
        return found

    def mask(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Mark the usable rows by what the release sees of them."""
        domain, keep = self.domain, np.ones(len(values[0]), dtype=bool)
        if domain.nulls == "drop_row" and not self.by_value:
            for column, seen in zip(domain.columns, values, strict=False):
                keep &= seen >= 0 if isinstance(column, Categorical) else ~np.isnan(seen)
        if self.groups is not None:
            keep &= values[len(domain.columns)] >= 0
        if domain.weight is not None:
            keep &= grid_weights(domain.weight, values[-1]) > 0
        return keep

    def words(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Write what the release sees with as few words as can be: codes are joined. Rows with equal ones are one to it."""
        found = []
        for together in self.layout:
            (first, size), *others = together
            word = values[first] if not size else values[first] + 1
            for at, size in others:
                word = word * size + (values[at] + 1)
            found.append(word)
        return found

    @property
    def layout(self) -> list[list[tuple[int, int]]]:
        """The values in each word: where they are among all, and for codes the number of them that there can be."""
        sizes = [len(c.categories) + 1 if isinstance(c, Categorical) else 0 for c in self.domain.columns]
        sizes += [] if self.groups is None else [len(self.groups.order) + 1]
        found = [[(at, 0)] for at, size in enumerate(sizes) if not size]
        found += [] if self.domain.weight is None else [[(len(sizes), 0)]]
        room = 0
        for at, size in enumerate(sizes):
            if size and size > room:
                found.append([])
                room = LARGEST_WORD
            if size:
                found[-1].append((at, size))
                room //= size
        return found
