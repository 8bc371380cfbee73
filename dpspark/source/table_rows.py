"""The rows of a lake table's file, as the table has them: its names and types, without the rows that were deleted.

Runs on executors. The driver says, by the table's log, what each file has (`FileColumn`) and which of its rows are gone.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from dpspark.source.spark_types import arrow_type, convert, spark_type


@dataclass(frozen=True)
class Snapshot:
    """The state of a lake table that is read. It tells nothing of the rows."""

    format: Literal["delta", "iceberg"]
    id: int | None  # Delta's version, or Iceberg's id; None: an Iceberg table that was never written to
    table: str | None  # the table's own id; None: Spark does not tell

    def public(self) -> dict[str, Any]:
        """List what a manifest says of it."""
        return {"format": self.format, "id": self.id, "table": self.table}


@dataclass(frozen=True)
class FileColumn:
    """A column of a table in one of its files: stored there under a name, or the same `value` in all its rows."""

    name: str  # in the table
    kind: str  # Spark's type of it, in the table
    stored: str | None  # in the file; None: the file has no such column
    value: Any = None  # then: a partition's value or a default; None is null

    def array(self, batch: Any) -> Any:
        """Take the column from a batch of the file's rows, in the table's type."""
        if self.stored is None:
            return pa.repeat(self.scalar, batch.num_rows)
        values = batch.column(batch.schema.get_field_index(self.stored))
        return values if spark_type(values.type) == self.kind else convert(values, arrow_type(self.kind))

    @property
    def scalar(self) -> Any:
        # An array's reader, unlike a scalar's, takes whole numbers for dates and times as well.
        return pa.array([self.value], arrow_type(self.kind))[0]


def pack_positions(positions: np.ndarray, rows: Sequence[int]) -> tuple[bytes, ...]:
    """Pack the positions of deleted rows in a file by row group: sorted, as differences. `rows` are each group's."""
    positions = np.unique(positions.astype("<i8", copy=False))
    ends = np.cumsum(np.asarray(rows, "<i8"))
    if len(positions) and (positions[0] < 0 or positions[-1] >= (ends[-1] if len(ends) else 0)):
        raise ValueError("a deleted row is not in the file")
    cuts = np.searchsorted(positions, ends)
    starts = ends - np.asarray(rows, "<i8")
    packed = []
    for start, first, last in zip(starts, [0, *cuts], cuts, strict=False):
        here = positions[first:last] - start
        packed.append(zlib.compress(np.diff(here, prepend=0).astype("<i8").tobytes(), 1) if len(here) else b"")
    return tuple(packed)


def unpack_positions(packed: bytes) -> np.ndarray:
    """Unpack the positions of the deleted rows of one row group, counted from its first row."""
    return np.cumsum(np.frombuffer(zlib.decompress(packed), "<i8")) if packed else np.empty(0, "<i8")


def table_rows(batches: Iterable[Any], columns: Sequence[FileColumn], deleted: bytes) -> Iterator[Any]:
    """Make the table's batches of one row group's, which come in order and begin with its first row."""
    gone = unpack_positions(deleted)
    start = 0
    names = [column.name for column in columns]
    for batch in batches:
        here = gone[slice(*np.searchsorted(gone, (start, start + batch.num_rows)))] - start
        start += batch.num_rows
        if len(here):
            keep = np.ones(batch.num_rows, bool)
            keep[here] = False
            batch = batch.filter(pa.array(keep))
        if not columns:
            yield batch
        elif batch.num_rows:
            yield pa.record_batch([column.array(batch) for column in columns], names=names)
