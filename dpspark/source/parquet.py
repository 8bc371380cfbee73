"""Parquet files read directly: found and checked on the driver, read by row groups on the executors.

Listing looks at file names and footers only. What is refused is refused from the schema, before a row is read.
"""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.core.domain import Categorical, ClusterKey, GroupKey, Numeric, PersonKey, Weight
from dpspark.core.suggest import did_you_mean
from dpspark.errors import SourceError
from dpspark.show.progress import Loop, tell
from dpspark.source.column_types import Column, check_types, describe_column, missing_column, refuse_type
from dpspark.source.footers import FileSchema, read_footer
from dpspark.source.frame_columns import FrameColumns, Layout, merge_layouts
from dpspark.source.group_keys import NULL_PARTITION as NULL_PARTITION
from dpspark.source.listing import NothingThere, find_files, find_objects, mask_path
from dpspark.source.stamps import CHANGED, GONE, SourceChanged, Stamp, layout_of, open_stamped
from dpspark.source.stores import Store, can_open, local_path, parse_address
from dpspark.source.table_rows import FileColumn, Snapshot, table_rows

BATCH_ROWS = 1 << 16
LARGEST_TASK = 1 << 30  # bytes to decode: about a second of work, so that a lost task is no great loss
OPENING = (
    4 << 20
)  # bytes that could be decoded while a file is opened, on an object store: many small files are many tasks
WHOLE_ROW_GROUP = 128 << 20  # a row group up to this size is decoded in one go, which is faster
SMALL = 64 << 10  # bytes of a row group that are decoded in no time
OPENED_AT_ONCE = 2  # Python takes turns: more threads would take longer
OPENED_TOGETHER = 32
OTHER_LETTERS = re.compile(
    r"=[^/]*%[89A-Fa-f][0-9A-Fa-f]"
)  # in a directory's name: UTF-8 to us, one letter a byte to Spark
ASKED_AT_ONCE = 32  # a store answers slowly, and many at a time

Skip = Callable[[Any], bool]


@dataclass(frozen=True)
class ParquetPart:
    """One file as it was listed, with the values that its directories' names give to columns (key=value)."""

    path: str  # in a store: the key
    row_group_bytes: tuple[int, ...]
    directory_values: tuple[tuple[str, float | int], ...]  # ready numbers or category codes
    directories: tuple[tuple[str, str], ...]  # the same as text, and those of other columns
    stamp: Stamp
    layout: str
    store: Store | None = None
    columns: tuple[FileColumn, ...] | None = None  # of a lake table's file: those that are read, as the table has them
    deleted: tuple[bytes, ...] = ()  # of a lake table's file: for each row group its rows that are gone, packed
    rows: int = 0  # as the footer has it, to choose how many tasks share the work

    @property
    def shown(self) -> str:
        return mask_path(self.path if self.store is None else self.store.shown(self.path))

    def only(self, row_groups: Sequence[int]) -> ParquetPart:
        """Leave out what a task that reads these row groups does not need."""
        if not any(self.deleted):
            return self
        kept = (packed if group in row_groups else b"" for group, packed in enumerate(self.deleted))
        return replace(self, deleted=tuple(kept))

    def open(self, here: bool = False) -> Any:
        """Give what pyarrow opens. SourceChanged if it is another file by now. `here`: this driver listed it."""
        try:
            source, found = open_stamped(self.store, self.path)
        except FileNotFoundError:
            raise SourceChanged(self.shown) from None
        if not found.is_of(self.stamp, here):
            raise SourceChanged(self.shown)
        return source

    def check(self, here: bool = False) -> None:
        source = self.open(here)
        if self.store is not None:
            source.close()


@dataclass(frozen=True)
class ParquetSource:
    """All files of a source, as they were listed."""

    parts: tuple[ParquetPart, ...]
    root: str = ""  # where the directories begin
    layouts: Mapping[Layout, str] = field(default_factory=dict)  # of columns in a frame, each with a file that has it
    names: tuple[str, ...] = ()  # of the columns, as the conf writes them
    numbers: frozenset[str] = frozenset()  # of those that are used as numbers alone
    snapshot: Snapshot | None = None  # of a lake table

    @property
    def in_store(self) -> bool:
        return bool(self.parts) and self.parts[0].store is not None

    def frame_columns(self) -> FrameColumns:
        """Find the columns of a frame of these files, for releases through Spark; SourceError if they differ too much."""
        return merge_layouts(self.layouts, self.names, self.numbers, self.in_store or self.snapshot is not None)

    def check_unchanged(self) -> None:
        """Refuse to go on if a file is not the one that was listed: all passes must see the same rows."""
        with ThreadPoolExecutor(ASKED_AT_ONCE if self.in_store else OPENED_AT_ONCE) as pool:
            for problem in pool.map(_problem_with, self.parts):
                if problem is not None:
                    raise SourceError(problem)

    def tasks(self, cores: int) -> list[list[tuple[int, list[int]]]]:
        """Deal out the row groups evenly by size: for each task, (part, row groups) pairs."""
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


def _problem_with(part: ParquetPart) -> str | None:
    try:
        part.check(here=True)
    except SourceChanged as error:
        return f"{error} {CHANGED if part.columns is None else GONE}"
    except OSError as error:
        return f"{part.shown}: whether it changed cannot be told ({type(error).__name__}). Nothing was released."
    return None


def open_source(path: str, columns: Sequence[Column], mentioned: Mapping[str, set[str]]) -> ParquetSource | None:
    """Open Parquet that tasks can read by themselves, wherever it is; None if only Spark knows the file system."""
    local = local_path(path)
    if local is not None:
        return open_parquet(local, columns, mentioned)
    found = parse_address(path)
    return None if found is None or not can_open(found[0]) else open_parquet(found[1], columns, mentioned, found[0])


def open_parquet(
    path: str,
    columns: Sequence[Column],
    mentioned: Mapping[str, set[str]] | None = None,
    store: Store | None = None,
) -> ParquetSource:
    """Find the files and check every footer against the columns, and the types of all files with each other.

    `mentioned` has the names that each expression of the conf uses: some file must have them.
    """
    try:
        root, found = find_files(path) if store is None else find_objects(store, path)
    except OSError as error:
        shown = path if store is None else store.shown(path)
        reason = error.strerror or f"it cannot be listed ({type(error).__name__})"
        raise NothingThere(f"source.parquet={shown!r}: {reason}. Check its permissions.") from None
    expressions = mentioned or {}
    wanted = frozenset(
        {column.name.lower() for column in columns}.union(*({n.lower() for n in e} for e in expressions.values()))
    )
    opened = _open_parts(store, found, columns, wanted)
    # Files that have the same columns are looked at together.
    kept = {(schema, tuple(key for key, _ in part.directories)): part.shown for part, schema, _ in reversed(opened)}
    for column in columns:
        kinds: dict[Any, str] = {}
        for (schema, directories), shown in reversed(kept.items()):
            if column.name not in directories:
                kinds.setdefault(_field_type(schema.arrow, column, shown), shown)
        check_types(column, kinds)
    check_mentioned(expressions, {name for schema, directories in kept for name in (*schema.arrow.names, *directories)})
    layouts: dict[Layout, str] = {}
    for part, _, layout in opened:
        layouts.setdefault(layout, part.shown)
    computed_with = set().union(*({name.lower() for name in used} for used in expressions.values()))
    numbers = (c.name for c in columns if isinstance(c, Numeric | Weight) and c.name.lower() not in computed_with)
    names = tuple(column.name for column in columns)
    return ParquetSource(tuple(part for part, _, _ in opened), root, layouts, names, frozenset(numbers))


def _open_parts(
    store: Store | None, found: list[tuple[str, dict[str, str]]], columns: Sequence[Column], wanted: frozenset[str]
) -> list[tuple[ParquetPart, FileSchema, Layout]]:
    """Read all footers, several at once, in lots: there may be many thousands."""
    names = frozenset(column.name for column in columns)
    lots = [found[start : start + OPENED_TOGETHER] for start in range(0, len(found), OPENED_TOGETHER)]

    def open_lot(lot: list[tuple[str, dict[str, str]]]) -> list[tuple[ParquetPart, FileSchema, Layout]]:
        return [_open_part(store, path, directories, columns, names, wanted) for path, directories in lot]

    opened: list[tuple[ParquetPart, FileSchema, Layout]] = []
    with ThreadPoolExecutor(OPENED_AT_ONCE if store is None else ASKED_AT_ONCE) as pool:
        for lot in pool.map(open_lot, lots):
            opened += lot
            tell(Loop("files", len(opened), len(found)))
    return opened


def check_mentioned(mentioned: Mapping[str, set[str]], names: Iterable[str]) -> None:
    """Refuse an expression that uses a column which is not there. Spark does not regard case."""
    names = list(names)
    known = {name.lower() for name in names}
    for what, used in mentioned.items():
        missing = sorted(name for name in used if name.lower() not in known)
        if missing:
            raise SourceError(f"{what}: no column {missing[0]!r} in the source.{did_you_mean(missing[0], names)}")


def _open_part(
    store: Store | None,
    path: str,
    directories: dict[str, str],
    columns: Sequence[Column],
    names: frozenset[str],
    wanted: frozenset[str],
) -> tuple[ParquetPart, FileSchema, Layout]:
    """Read a file's footer: the part, its columns, and the layout of those in `wanted`. `names` are those of `columns`."""
    footer = read_footer(store, path)
    metadata, schema = footer.metadata, footer.columns
    values = tuple(
        (column.name, _directory_value(column, directories[column.name]))
        for column in (columns if directories else ())
        if column.name in directories and not isinstance(column, GroupKey | PersonKey | ClusterKey)
    )
    in_file = names.difference(directories) if directories else names
    sizes = tuple(group_bytes(metadata, group, in_file) for group in range(metadata.num_row_groups))
    # Executors have a working directory of their own.
    place = os.path.abspath(path) if store is None else path
    directory = tuple(directories.items())
    part = ParquetPart(
        place, sizes, values, directory, footer.stamp, layout_of(metadata), store, rows=metadata.num_rows
    )
    old = tuple(sorted(footer.old_calendar | footer.int96))
    strange = schema.has_half_floats or (bool(directories) and OTHER_LETTERS.search(place) is not None)
    return part, schema, Layout(schema.spark_types(wanted), tuple(directories), old, strange)


def _field_type(schema: Any, column: Column, shown: str) -> Any:
    at = schema.get_all_field_indices(column.name)
    if not at:
        raise missing_column(column, schema.names, shown)
    if len(at) > 1:
        raise SourceError(f"{describe_column(column)}: {shown} has {len(at)} columns of that name. Rename one.")
    return schema.field(at[0]).type


def _directory_value(column: Column, text: str) -> float | int:
    """Read a value from a directory's name, as a number or a category code."""
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


def group_bytes(metadata: Any, group: int, names: Collection[str]) -> int:
    """Count the bytes to decode for the wanted columns."""
    row_group = metadata.row_group(group)
    if len(names) == row_group.num_columns or row_group.total_byte_size < SMALL:  # no need to look at each
        return row_group.total_byte_size
    chunks = (row_group.column(i) for i in range(row_group.num_columns))
    return sum(chunk.total_uncompressed_size for chunk in chunks if chunk.path_in_schema in names)


def decode(part: ParquetPart, row_groups: list[int], names: list[str], skip: Skip | None = None) -> Iterator[Any]:
    """Read record batches of some columns; large row groups in pieces, so that memory stays bounded.

    Of a lake table's file, the table's rows: see table_rows. Names that there are not are left out. `skip` tells from a row
    group's statistics that none of its rows is wanted; those of lake tables go by other names, and are all read.
    SourceChanged if the file is not the one that was listed, when it is opened or after its last row group.
    """
    columns = None if part.columns is None else [column for column in part.columns if column.name in names]
    stored = names if columns is None else [column.stored for column in columns if column.stored is not None]
    with _open_file(part) as file:
        for group in row_groups:
            if skip is not None and columns is None and skip(file.metadata.row_group(group)):
                continue
            if part.row_group_bytes[group] <= WHOLE_ROW_GROUP:
                batches = file.read_row_group(group, columns=stored, use_threads=False).to_batches()
            else:
                batches = file.iter_batches(BATCH_ROWS, row_groups=[group], columns=stored, use_threads=False)
            batches = map(_without_views, batches)
            if columns is None:
                yield from batches
            else:
                yield from table_rows(batches, columns, part.deleted[group] if part.deleted else b"")


def _without_views(batch: Any) -> Any:
    """Write views of text and bytes as plain ones: pyarrow cannot take rows from views."""
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    if not any(kind in plain for kind in batch.schema.types):
        return batch
    arrays = [array.cast(plain.get(array.type, array.type)) for array in batch.columns]
    return pa.record_batch(arrays, names=batch.schema.names)


@contextmanager
def _open_file(part: ParquetPart) -> Iterator[Any]:
    source, local = part.open(), part.store is None
    # In nanoseconds, old and late times would be others.
    unit = None if part.columns is None else "us"
    try:
        with pq.ParquetFile(source, memory_map=local, pre_buffer=not local, coerce_int96_timestamp_unit=unit) as file:
            if layout_of(file.metadata) != part.layout:
                raise SourceChanged(part.shown)
            yield file
    finally:
        part.check()  # whatever went wrong in between: a change explains it
