"""Levels of groups, such as states, counties and tracts: a public table with a row for each finest group.

The key of a group is its own together with those of the levels above: where counties of two states have one number, the state
tells them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import category_label
from dpspark.source.group_keys import Key, describe_kind

KINDS = {"text": pa.string(), "integer": pa.int64(), "boolean": pa.bool_()}


@dataclass(frozen=True)
class Hierarchy:
    """The names of the levels, the coarsest first, and the keys of each finest group on all of them."""

    names: tuple[str, ...]
    keys: tuple[tuple[Key, ...], ...]

    @classmethod
    def of_table(cls, table: pa.Table) -> Hierarchy:
        """Read the table of a published release."""
        return cls(
            tuple(table.column_names), tuple(zip(*(column.to_pylist() for column in table.columns), strict=True))
        )

    @property
    def finest(self) -> str:
        return self.names[-1]

    @property
    def coarser(self) -> tuple[str, ...]:
        """The levels above the finest, which is released itself."""
        return self.names[:-1]

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The keys as text."""
        return [tuple(map(category_label, key)) for key in self.keys]

    def up_to(self, level: str) -> tuple[str, ...]:
        """The levels whose keys tell the groups of a level apart: those above it, and itself."""
        return self.names[: self.names.index(level) + 1]

    def groups(self, level: str) -> list[tuple[Key, ...]]:
        """List the groups of a level, in the order in which the table has them first."""
        return self._levels[level][0]

    def places(self, level: str) -> np.ndarray:
        """Find for each finest group the place of its group in the list of a level."""
        return self._levels[level][1]

    def finer(self, level: str) -> str:
        """Name the level below."""
        return self.names[self.names.index(level) + 1]

    def children(self, level: str) -> list[list[int]]:
        """List for each group of a level the places of its parts in the list of the level below."""
        above, below = self.places(level), self.places(self.finer(level))
        _, first = np.unique(below, return_index=True)
        found: list[list[int]] = [[] for _ in self.groups(level)]
        for child, parent in enumerate(above[first].tolist()):
            found[parent].append(child)
        return found

    def sizes(self, level: str) -> np.ndarray:
        """Count the finest groups in each group of a level."""
        return np.bincount(self.places(level), minlength=len(self.groups(level)))

    @cached_property
    def _levels(self) -> dict[str, tuple[list[tuple[Key, ...]], np.ndarray]]:
        found = {}
        for count, level in enumerate(self.names, 1):
            seen: dict[tuple[Key, ...], int] = {}
            places = [seen.setdefault(key[:count], len(seen)) for key in self.keys]
            found[level] = list(seen), np.array(places, dtype=np.int64)
        return found

    def types(self) -> dict[str, Any]:
        """Find the types of the columns above the finest, whose own is the source's. Mixed keys are a ValueError."""
        found = {}
        for i, name in enumerate(self.coarser):
            kinds = {describe_kind(key[i]) for key in self.keys}
            if len(kinds) > 1:
                raise ValueError(f"{name} has keys of several kinds; expected all text, whole numbers or true/false.")
            found[name] = KINDS[kinds.pop()]
        return found

    def table(self, finest: Sequence[Key], types: Mapping[str, Any]) -> pa.Table:
        """Lay out the table, with the finest keys as the release has them. `types` has those of all columns."""
        columns = [[_whole(key[i]) for key in self.keys] for i in range(len(self.coarser))]
        schema = pa.schema([(name, types[name]) for name in self.names])
        return pa.table([*columns, list(finest)], schema=schema)

    def check(self, within: Sequence[str] = ()) -> None:
        """Refuse with a ValueError what is no hierarchy. Keys of levels `within` are unique in their parents alone."""
        for at in range(len(self.names) - 1, 0, -1):
            name, above = self.names[at], self.names[at - 1]
            if name not in within:
                self._check_level(at, name, above)
        self.types()

    def _check_level(self, at: int, name: str, above: str) -> None:
        """Check that a key of a level has one parent."""
        seen: dict[str, tuple[str, ...]] = {}
        for key in self.texts:
            before = seen.setdefault(key[at], key[:at])
            if before != key[:at]:
                there = " and ".join("/".join(each) for each in (before, key[:at]))
                raise ValueError(f"{name} {key[at]} is in two groups of {above}: {there}. {self._advice(at)}")

    def _advice(self, at: int) -> str:
        """Say what to do with a key that has two parents."""
        name, together = self.names[at], ", ".join(self.names[: at + 1])
        if at == len(self.names) - 1:
            return f"Give each {name} one row: it is read from the data by its key alone."
        return (
            f"Correct it; or, if a {name} is known only together with the levels above, write [{together}] for {name}."
        )


def _whole(key: Key) -> Key:
    """A whole number that a file has as 3.0."""
    return int(key) if isinstance(key, float) else key
