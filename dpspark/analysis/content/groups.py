"""The content of a release by group, and that of one of its groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpspark.analysis.content.base import Content, refuse_damaged
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.keys import Key, choose_group, keys_in, tables_by_key
from dpspark.analysis.content.regression import RegressionContent
from dpspark.errors import ConfError
from dpspark.source.group_keys import key_label

# Kinds that may be released by group, and what one group's release holds.
GROUPED: dict[str, type[GramContent] | type[RegressionContent]] = {
    "gram": GramContent,
    "regression": RegressionContent,
}


class GroupedContent(Content):
    """Matrices or regressions, one for each group."""

    def one(self, keys: Mapping[str, Any]) -> GramContent | RegressionContent:
        """Choose one group: its content is that of a release of its kind."""
        tables, group = choose_group(self, keys)
        chosen = {name: table.drop_columns(keys_in(table, self.group_by)) for name, table in tables.items()}
        with refuse_damaged(self.path):
            return GROUPED[self.kind](self.path, self.manifest, chosen, group)

    def manifest_of(self, place: int) -> dict[str, Any]:
        """The manifest of one group, by its place among all: that of the release."""
        return self.manifest

    def each(self) -> Iterator[tuple[Key, GramContent | RegressionContent]]:
        """Give every group with its content, in one pass over the tables."""
        columns = list(self.group_by)
        parts = {
            name: dict(tables_by_key(table, columns)) for name, table in self.tables.items() if keys_in(table, columns)
        }
        whole = {name: table for name, table in self.tables.items() if name not in parts}
        for place, key in enumerate(next(iter(parts.values()))):
            with refuse_damaged(self.path):
                tables = {name: found[key] for name, found in parts.items()}
                content = GROUPED[self.kind](self.path, self.manifest_of(place), {**tables, **whole})
            yield key, content

    def no_group_chosen(self) -> ConfError:
        """Say that a group must be chosen, and how."""
        what = "regression" if self.kind == "regression" else "matrix"
        first = next(iter(self.tables.values()))
        example = " ".join(f"--group {key}={key_label(first[key][0].as_py())}" for key in self.group_by)
        return ConfError(
            f"this release has a {what} for each {', '.join(self.group_by)}: choose one with group, or {example}"
        )
