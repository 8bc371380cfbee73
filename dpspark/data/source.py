"""Parquet files read directly: found and checked on the driver, read by row groups on the executors.

Listing looks at file names and footers only. What is refused is refused from the schema, before a row is read.
"""

from __future__ import annotations

import glob
import heapq
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.data.domain import Categorical, GroupKey, Numeric, PersonKey, Weight
from dpspark.errors import SourceError

BATCH_ROWS = 1 << 16
LARGEST_TASK = 1 << 30  # bytes to decode: about a second of work, so that a lost task is no great loss
OPENING = (
    4 << 20
)  # bytes that could be decoded while a file is opened, on an object store: many small files are many tasks
WHOLE_ROW_GROUP = 128 << 20  # a row group up to this size is decoded in one go, which is faster
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"

Column = Numeric | Categorical | Weight | GroupKey | PersonKey


@dataclass(frozen=True)
class ParquetPart:
    """One file, with the values that its directories' names give to columns (key=value)."""

    path: str
    row_group_bytes: tuple[int, ...]
    directory_values: tuple[tuple[str, float | int], ...]  # ready numbers or category codes


@dataclass(frozen=True)
class ParquetSource:
    parts: tuple[ParquetPart, ...]

    def tasks(self, cores: int) -> list[list[tuple[int, list[int]]]]:
        """Row groups dealt out evenly by size: for each task, (part, row groups) pairs."""
        groups = [(size, part, g) for part, p in enumerate(self.parts) for g, size in enumerate(p.row_group_bytes)]
        total = sum(size for size, _, _ in groups) + OPENING * len(self.parts)
        wanted = max(cores, -(-total // LARGEST_TASK))
        count = min(len(groups), -(-wanted // cores) * cores)
        loads = [(0, task) for task in range(count)]  # a heap: the lightest first
        dealt: list[dict[int, list[int]]] = [{} for _ in range(count)]
        for size, part, group in sorted(groups, key=lambda g: (-g[0], g[1], g[2])):
            load, task = loads[0]
            opening = 0 if part in dealt[task] else OPENING
            heapq.heapreplace(loads, (load + size + opening, task))
            dealt[task].setdefault(part, []).append(group)
        return [[(part, sorted(chosen)) for part, chosen in sorted(task.items())] for task in dealt]


def local_path(path: str) -> str | None:
    """A path that pyarrow opens by itself, or None if only Spark knows the file system."""
    parsed = urlparse(path)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    return None if "://" in path else path


def open_parquet(
    path: str, columns: Sequence[Column], mentioned: Mapping[str, set[str]] | None = None
) -> ParquetSource:
    """Find the files and check every footer against the columns.

    `mentioned` has the names that each expression of the conf uses: some file must have them.
    """
    try:
        _, found = find_files(path)
    except OSError as error:
        raise SourceError(f"source.parquet={path!r}: {error.strerror}. Check its permissions.") from None
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(lambda item: _open_part(item[0], item[1], columns), found))
    check_mentioned(mentioned or {}, {name for _, names in opened for name in names})
    return ParquetSource(tuple(part for part, _ in opened))


def check_mentioned(mentioned: Mapping[str, set[str]], names: Iterable[str]) -> None:
    """Refuse an expression that uses a column which is not there. Spark does not regard case."""
    known = {name.lower() for name in names}
    for what, used in mentioned.items():
        missing = sorted(name for name in used if name.lower() not in known)
        if missing:
            raise SourceError(f"{what}: no column {missing[0]!r} in the source.")


def find_files(path: str) -> tuple[str, list[tuple[str, dict[str, str]]]]:
    """The root, and the data files under a path or glob, each with its directories' key=value pairs."""
    root = path if os.path.exists(path) else _fixed_part(path)
    matches = [path] if os.path.exists(path) else [m for m in glob.glob(path, recursive=True) if os.path.exists(m)]
    if not matches:
        raise SourceError(
            f"source.parquet={path!r}: no such file or directory. Check the path, and where the job runs."
        )
    files: dict[str, str] = {}
    for match in matches:
        for file in _walk(match) if os.path.isdir(match) else [match]:
            real = os.path.realpath(file)
            if file == path or not (_hidden(os.path.relpath(file, root)) or os.path.isdir(real)):
                # A file reached twice (by links, or a glob that matches it and its directory) would count its rows twice.
                files.setdefault(real, file)
    if not files:
        raise SourceError(f"source.parquet={path!r}: no Parquet files in it. Give a directory that holds some.")
    return root, [(file, _directory_values(os.path.relpath(file, root))) for file in sorted(files.values())]


def _walk(directory: str) -> Iterator[str]:
    if os.path.isdir(os.path.join(directory, "_delta_log")):
        raise SourceError(
            f"source.parquet={directory!r} is a Delta table. Use source.table, so that Spark reads its log."
        )
    seen: set[str] = set()
    for here, folders, names in os.walk(directory, followlinks=True):
        folders[:] = [folder for folder in folders if os.path.realpath(os.path.join(here, folder)) not in seen]
        seen |= {os.path.realpath(os.path.join(here, folder)) for folder in folders}
        yield from (os.path.join(here, name) for name in names)


def _hidden(relative: str) -> bool:
    """Like Spark: names that start with _ or . are not data (_SUCCESS, _temporary, checksums)."""
    return any(part.startswith((".", "_")) and "=" not in part for part in relative.split(os.sep) if part != "..")


def _fixed_part(pattern: str) -> str:
    """The directory above the first wildcard."""
    before = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return os.path.dirname(before) or "."


def _directory_values(relative: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in os.path.dirname(relative).split(os.sep) if "=" in part)
    return {unquote(key): unquote(value) for key, value in pairs}


def _open_part(path: str, directories: dict[str, str], columns: Sequence[Column]) -> tuple[ParquetPart, set[str]]:
    """The file, and the names of all its columns."""
    shown = shown_path(path)
    try:
        with pq.ParquetFile(path) as file:
            schema, metadata = file.schema_arrow, file.metadata
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"{shown}: not readable as Parquet ({type(error).__name__}).") from None
    values = tuple(
        (column.name, _directory_value(column, directories[column.name]))
        for column in columns
        if column.name in directories and not isinstance(column, GroupKey | PersonKey)
    )
    wanted = [column for column in columns if column.name not in directories]
    for column in wanted:
        check_type(column, _field_type(schema, column, shown))
    names = {column.name for column in wanted}
    sizes = tuple(_group_bytes(metadata, group, names) for group in range(metadata.num_row_groups))
    # Executors have a working directory of their own.
    return ParquetPart(os.path.abspath(path), sizes, values), {*schema.names, *directories}


def _field_type(schema: Any, column: Column, shown: str) -> Any:
    at = schema.get_all_field_indices(column.name)
    if not at:
        known = ", ".join(schema.names[:12]) + (", ..." if len(schema.names) > 12 else "")
        raise SourceError(f"{shown_key(column)}: no such column in {shown}.\nIt has: {known}")
    if len(at) > 1:
        raise SourceError(f"{shown_key(column)}: {shown} has {len(at)} columns of that name. Rename one.")
    return schema.field(at[0]).type


def check_type(column: Column, kind: Any) -> None:
    """Refuse a column whose type does not fit its bounds or categories."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    if isinstance(column, GroupKey):
        text = types.is_string(value) or types.is_large_string(value) or value == pa.string_view()
        refuse_type(column, str(kind), text or types.is_integer(value) or types.is_boolean(value))
    elif isinstance(column, PersonKey):
        text = types.is_string(value) or types.is_large_string(value) or value == pa.string_view()
        whole = types.is_integer(value) or (types.is_decimal(value) and value.scale == 0)
        refuse_type(column, str(kind), text or whole or types.is_binary(value) or types.is_fixed_size_binary(value))
    elif not isinstance(column, Categorical):
        numeric = types.is_integer(value) or types.is_floating(value) or types.is_decimal(value)
        refuse_type(column, str(kind), numeric or types.is_boolean(value))
    else:
        text = types.is_string(value) or types.is_large_string(value) or value == pa.string_view()
        fits = {str: text, int: types.is_integer(value), bool: types.is_boolean(value)}
        refuse_type(column, str(kind), fits[type(column.categories[0])])


def shown_key(column: Column) -> str:
    """A column by its key in the conf, for messages."""
    if isinstance(column, GroupKey):
        return f"release.group_by: {column.name}"
    if isinstance(column, PersonKey):
        return f"privacy.unit.column={column.name!r}"
    return f"weight.column={column.name!r}" if isinstance(column, Weight) else f"columns.{column.name}"


def refuse_type(column: Column, kind: str, fits: bool) -> None:
    if fits:
        return
    if isinstance(column, GroupKey):
        raise SourceError(f"{shown_key(column)}: its type is {kind}; expected text, integers or booleans.")
    if isinstance(column, PersonKey):
        raise SourceError(
            f"{shown_key(column)}: its type is {kind}; expected text, integers or binary: ids that are equal or not."
        )
    if isinstance(column, Weight):
        raise SourceError(f"{shown_key(column)}: its type is {kind}; expected integers, floats, decimals or booleans.")
    if isinstance(column, Numeric):
        raise SourceError(
            f"columns.{column.name} has bounds but its type is {kind}; expected integers, floats, decimals or booleans."
            "\nGive it categories, or cast it in source.sql."
        )
    wanted = {str: "text", int: "integer", bool: "true/false"}[type(column.categories[0])]
    raise SourceError(
        f"columns.{column.name} has {wanted} categories but its type is {kind}.\n"
        "Write the categories as the column has them (quoted for text), or cast it in source.sql."
    )


def _directory_value(column: Column, text: str) -> float | int:
    """A directory name's value, as a number or a category code."""
    if text == NULL_PARTITION:
        return -1 if isinstance(column, Categorical) else float("nan")
    if not isinstance(column, Categorical):
        if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text):
            refuse_type(column, "text (from the names of directories)", False)
        return float(text)
    kind = type(column.categories[0])
    readers = {
        str: lambda: text,
        int: lambda: int(text) if re.fullmatch(r"[-+]?\d+", text) else None,
        bool: lambda: {"true": True, "false": False}.get(text.lower()),
    }
    value = readers[kind]()
    return column.categories.index(value) if value is not None and value in column.categories else -1


def _group_bytes(metadata: Any, group: int, names: set[str]) -> int:
    """Bytes to decode for the wanted columns."""
    row_group = metadata.row_group(group)
    if len(names) == row_group.num_columns:  # all of them: no need to look at each
        return row_group.total_byte_size
    chunks = (row_group.column(i) for i in range(row_group.num_columns))
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in names)


def shown_path(path: str) -> str:
    """A path for messages: the values in key=value directories are data."""
    return re.sub(r"=[^/]*/", "=…/", path)


def read_part(part: ParquetPart, row_groups: list[int], columns: Sequence[Column]) -> Iterator[tuple[list[Any], int]]:
    """The columns' arrays of each batch, and its number of rows. Runs on an executor."""
    given = dict(part.directory_values)
    names = list(dict.fromkeys(column.name for column in columns if column.name not in given))
    for batch in decode(part, row_groups, names):
        yield (
            [
                np.full(batch.num_rows, given[column.name])
                if column.name in given
                else batch.column(batch.schema.get_field_index(column.name))
                for column in columns
            ],
            batch.num_rows,
        )


def decode(part: ParquetPart, row_groups: list[int], names: list[str]) -> Iterator[Any]:
    """Record batches of some columns; a large row group in pieces, so that memory stays bounded."""
    with pq.ParquetFile(part.path, memory_map=True) as file:
        for group in row_groups:
            if part.row_group_bytes[group] <= WHOLE_ROW_GROUP:
                yield from file.read_row_group(group, columns=names, use_threads=False).to_batches()
            else:
                yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=names, use_threads=False)
