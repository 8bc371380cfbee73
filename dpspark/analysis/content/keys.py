"""The rows of each group in the tables of a release by group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dpspark.analysis.content.base import Content
from dpspark.core.domain import category_label
from dpspark.errors import ConfError, OutputError
from dpspark.source.group_keys import key_label, same_key

Key = tuple[str, ...]  # of a group, as text


def choose_group(content: Content, keys: Mapping[str, Any]) -> tuple[dict[str, pa.Table], dict[str, str]]:
    """Find the rows of one group in every table, and its keys as they are shown."""
    group_by = content.group_by
    if set(keys) != set(group_by):
        given = f", not {', '.join(keys)}" if keys and group_by else ""
        raise ConfError(f"group: expected {', '.join(group_by) or 'no keys: this release has no groups'}{given}.")
    found = {}
    for name, table in content.tables.items():
        for column in keys_in(table, group_by):
            table = table.filter(same_key(table, column, keys[column]))
        if not table.num_rows:
            raise ConfError(f"group: {', '.join(f'{k}={v!r}' for k, v in keys.items())} is not among the groups.")
        found[name] = table
    keyed = [table for table in found.values() if keys_in(table, group_by)]
    return found, {name: key_label(keyed[0][name][0].as_py()) for name in group_by}


def keys_in(table: pa.Table, group_by: Sequence[str]) -> list[str]:
    """Find the columns of the groups in a table; a table of all groups together has none."""
    return [name for name in group_by if name in table.schema.names]


def tables_by_key(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Key, pa.Table]]:
    """Give each group's key and its rows, without the key."""
    rest = table.drop_columns(list(columns))
    for key, at in rows_by_key(table, columns).items():
        yield key, rest.take(pa.array(at))


def rows_by_key(table: pa.Table, columns: Sequence[str]) -> dict[Key, list[int]]:
    """Find the places of each group's rows, in the order of the table."""
    found: dict[Key, list[int]] = {}
    for i, key in enumerate(keys_of_rows(table, columns)):
        found.setdefault(key, []).append(i)
    return found


def keys_of_rows(table: pa.Table, columns: Sequence[str]) -> list[Key]:
    """Read the key of each row's group."""
    if not columns:
        return [()] * table.num_rows
    if any(table[name].null_count for name in columns):
        raise OutputError("this release is damaged: a group has no name.")
    return list(zip(*(map(category_label, table[name].to_pylist()) for name in columns), strict=True))
