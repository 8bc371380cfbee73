"""The files of one snapshot of a lake table, as tasks read them: what Delta and Iceberg have in common.

The table's schema is the truth. A file's columns are found by what the format goes by, and must fit the table's types exactly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import Numeric, Weight
from dpspark.errors import SourceError
from dpspark.show.progress import Loop, tell
from dpspark.source.column_types import Column, check_type, missing_column
from dpspark.source.footers import Footer, read_footer
from dpspark.source.frame_columns import Layout, common_type
from dpspark.source.listing import mask_path
from dpspark.source.parquet import (
    ASKED_AT_ONCE,
    OPENED_AT_ONCE,
    ParquetPart,
    ParquetSource,
    check_mentioned,
    group_bytes,
)
from dpspark.source.spark_types import arrow_type, spark_type
from dpspark.source.stamps import layout_of
from dpspark.source.stores import Store
from dpspark.source.table_rows import FileColumn, Snapshot, pack_positions

OTHER_WAY = "Use source.table, so that Spark reads the table."


@dataclass(frozen=True)
class TableColumn:
    """A column of the table's schema."""

    name: str
    kind: str  # Spark's type; or the format's own, if Spark has none
    default: Any = None  # in files that lack it
    problem: str | None = None  # why its values cannot be read here


@dataclass(frozen=True)
class TableFile:
    """A file of the snapshot, by the table's log."""

    path: str  # in a store: the key
    store: Store | None
    values: Mapping[str, Any] = field(default_factory=dict)  # by its partition, of columns that the file lacks
    deleted: np.ndarray | None = None  # positions of rows that are gone

    @property
    def shown(self) -> str:
        return mask_path(self.path if self.store is None else self.store.shown(self.path))


# The names in a file of the table's columns that it has, by the table's names.
StoredNames = Callable[[Footer], Mapping[str, str]]


def open_snapshot(
    what: str,
    snapshot: Snapshot | None,
    schema: Sequence[TableColumn],
    files: Sequence[TableFile],
    stored: StoredNames,
    columns: Sequence[Column],
    mentioned: Mapping[str, set[str]],
) -> ParquetSource:
    """Check the table's schema against the columns, and every footer against the schema. `what` names the table in messages."""
    names = [column.name for column in schema]
    check_mentioned(mentioned, names)
    by_name = {column.name: column for column in schema}
    for column in columns:
        if column.name not in by_name:
            raise missing_column(column, names, "the table")
    computed_with = set().union(*({name.lower() for name in used} for used in mentioned.values()))
    wanted = {column.name.lower() for column in columns} | computed_with
    read = [column for column in schema if column.name.lower() in wanted]
    for each in read:
        _check_readable(what, each)
    for column in columns:
        check_type(column, arrow_type(by_name[column.name].kind))
    parts = _open_files(what, files, lambda file: _open_file(what, file, read, stored))
    layout = Layout(tuple((column.name, column.kind) for column in read), ())
    numbers = (c.name for c in columns if isinstance(c, Numeric | Weight) and c.name.lower() not in computed_with)
    return ParquetSource(tuple(parts), "", {layout: what}, tuple(c.name for c in columns), frozenset(numbers), snapshot)


def _open_files(
    what: str, files: Sequence[TableFile], open_one: Callable[[TableFile], ParquetPart]
) -> Iterable[ParquetPart]:
    seen = {(file.store, file.path) for file in files}
    if len(seen) < len(files):
        raise SourceError(f"{what}: its log names a file twice, whose rows would count twice.\n{OTHER_WAY}")
    opened: list[ParquetPart] = []
    with ThreadPoolExecutor(ASKED_AT_ONCE if any(file.store for file in files) else OPENED_AT_ONCE) as pool:
        for part in pool.map(open_one, files):
            opened.append(part)
            tell(Loop("files", len(opened), len(files)))
    return opened


def _check_readable(what: str, column: TableColumn) -> None:
    problem = column.problem
    if problem is None and arrow_type(column.kind) is None:
        problem = f"its type is {column.kind}, which tasks cannot read"
    if problem is not None:
        raise SourceError(f"{what}: column {column.name!r}: {problem}.\nLeave it out of the conf. {OTHER_WAY}")


def _open_file(what: str, file: TableFile, read: Sequence[TableColumn], stored: StoredNames) -> ParquetPart:
    try:
        footer = read_footer(file.store, file.path, of_table=True)
    except FileNotFoundError:
        raise SourceError(
            f"{what}: {file.shown} is not there, though the snapshot has it: it was vacuumed, or lies elsewhere.\n"
            "Read a newer version or snapshot of the table, or restore the file."
        ) from None
    names = stored(footer)
    metadata = footer.metadata
    columns = tuple(_column_of(what, column, file, footer, names.get(column.name)) for column in read)
    inside = {column.stored for column in columns if column.stored is not None}
    groups = range(metadata.num_row_groups)
    try:
        rows = [metadata.row_group(group).num_rows for group in groups]
        deleted = () if file.deleted is None else pack_positions(file.deleted, rows)
    except ValueError:
        raise SourceError(
            f"{what}: its log deletes rows of {footer.shown} that the file does not have: one of them was changed.\n"
            "Repair the table."
        ) from None
    return ParquetPart(
        os.path.abspath(file.path) if file.store is None else file.path,
        tuple(group_bytes(metadata, group, inside) for group in groups),
        (),
        (),
        footer.stamp,
        layout_of(metadata),
        file.store,
        columns,
        deleted,
        metadata.num_rows,
    )


def _column_of(what: str, column: TableColumn, file: TableFile, footer: Footer, stored: str | None) -> FileColumn:
    """Find a column of the table in one file: stored, given by the partition, a default, or null."""
    if stored is None:
        value = file.values.get(column.name, column.default)
        found = FileColumn(column.name, column.kind, None, value)
        try:
            found.scalar  # noqa: B018  a task could not build it either
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise SourceError(
                f"{what}: column {column.name!r}: its log has a value for {footer.shown} that is no {column.kind}.\n{OTHER_WAY}"
            ) from None
        return found
    at = footer.schema.get_all_field_indices(stored)
    if len(at) != 1:
        raise SourceError(f"{what}: {footer.shown} has {len(at)} columns {stored!r}.\n{OTHER_WAY}")
    kind = spark_type(footer.schema.field(at[0]).type, stored in footer.int96)
    if kind != column.kind and common_type((kind, column.kind)) != column.kind:
        raise SourceError(
            f"{what}: column {column.name!r} is {column.kind} in the table, and {kind} in {footer.shown}; not every value of "
            f"it fits.\n{OTHER_WAY}"
        )
    if stored in footer.old_calendar:
        raise SourceError(
            f"{what}: column {column.name!r}: {footer.shown} has its dates or times in an old Spark's calendar.\n{OTHER_WAY}"
        )
    return FileColumn(column.name, column.kind, stored)


def needs_library(key: str, library: str) -> str:
    """Say which library is missing, and how to get it."""
    return f"source.{key} needs the library {library} on the driver: pip install 'dpspark[lake]'"
