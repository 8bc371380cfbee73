"""The footer of one Parquet file: its columns, and where its rows are. A file that is not Parquet is refused here."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from dpspark.errors import SourceError
from dpspark.source.lakes import WRITTEN_BY_ICEBERG
from dpspark.source.listing import mask_path
from dpspark.source.not_parquet import read_beginning, unreadable_error
from dpspark.source.spark_types import has_half_floats, spark_type
from dpspark.source.stamps import Stamp, open_stamped
from dpspark.source.stores import Store

ARROW_HINT = b"ARROW:schema"
FIELD_ID = b"PARQUET:field_id"
SPARK_VERSION = b"org.apache.spark.version"
LEGACY_DATES = b"org.apache.spark.legacyDateTime"
LEGACY_INT96 = b"org.apache.spark.legacyINT96"


@dataclass(frozen=True, eq=False)
class FileSchema:
    """The columns of files that have them in common: looked at once for all of these files."""

    stored: Any  # Parquet's own schema
    hint: bytes | None  # what Arrow's writer says beside it
    arrow: Any
    int96: frozenset[str]  # columns of times as Spark wrote them once

    @lru_cache(maxsize=64)  # noqa: B019  few schemas are kept
    def spark_types(self, wanted: frozenset[str]) -> tuple[tuple[str, str], ...]:
        """List the wanted columns (in any case), each with its type in Spark; or in Arrow, if Spark has none."""
        return tuple(
            (field.name, spark_type(field.type, field.name in self.int96))
            for field in self.arrow
            if field.name.lower() in wanted
        )

    @cached_property
    def has_half_floats(self) -> bool:
        return has_half_floats(self.arrow)


_lately: deque[FileSchema] = deque(maxlen=8)  # thousands of files have few schemas between them


def _schema_of(metadata: Any, facts: Mapping[bytes, bytes]) -> FileSchema:
    stored, hint = metadata.schema, facts.get(ARROW_HINT)
    for known in tuple(_lately):
        if known.hint == hint and known.stored.equals(stored):
            return known
    columns = (stored.column(at) for at in range(len(stored)))
    int96 = frozenset(column.path for column in columns if column.physical_type == "INT96")
    found = FileSchema(stored, hint, stored.to_arrow_schema(), int96)
    _lately.appendleft(found)
    return found


@dataclass(frozen=True)
class Footer:
    """The content of a Parquet file's footer, without its statistics."""

    shown: str  # the file, for messages
    columns: FileSchema
    metadata: Any
    stamp: Stamp
    facts: Mapping[bytes, bytes]  # what its writer says beside the columns

    @property
    def schema(self) -> Any:
        """The columns in Arrow's types."""
        return self.columns.arrow

    @property
    def int96(self) -> frozenset[str]:
        return self.columns.int96

    @property
    def field_ids(self) -> dict[int, str]:
        """The names of the columns by their field ids, where the writer gave some."""
        found = ((int((field.metadata or {}).get(FIELD_ID, -1)), field.name) for field in self.schema)
        return {number: name for number, name in found if number >= 0}

    @property
    def old_calendar(self) -> frozenset[str]:
        """The dates and times that a Spark wrote in the calendar from before 1582: only Spark reads them as it meant them."""
        facts = self.facts
        written = re.match(r"(\d+)\.(\d+)", facts[SPARK_VERSION].decode("latin-1")) if SPARK_VERSION in facts else None
        if written is None:
            return frozenset()
        version = int(written[1]), int(written[2])
        dates = version < (3, 0) or LEGACY_DATES in facts
        int96 = version < (3, 1) or LEGACY_INT96 in facts
        return frozenset(
            field.name
            for field in self.schema
            if (pa.types.is_temporal(field.type) or field.name in self.int96)
            and (int96 if field.name in self.int96 else dates)
        )


def _read_metadata(source: Any, on_disk: bool) -> Any:
    """Read a footer with the least ado: thousands of files are opened."""
    parquet, disk = _reader()
    return parquet.make_fragment(source, disk if on_disk else None).metadata


@lru_cache(maxsize=1)
def _reader() -> tuple[Any, Any]:
    from pyarrow.dataset import ParquetFileFormat  # the driver's alone: it imports pandas
    from pyarrow.fs import LocalFileSystem

    return ParquetFileFormat(), LocalFileSystem()


def read_footer(store: Store | None, path: str, of_table: bool = False) -> Footer:
    """Read the footer of one file. SourceError if it is not Parquet, cannot be read, or was written by Iceberg.

    `of_table`: the log of a lake table names it. FileNotFoundError if it is not there.
    """
    shown = mask_path(path if store is None else store.shown(path))
    try:
        source, stamp = open_stamped(store, path)
        metadata = _read_metadata(source, on_disk=store is None)
        facts = metadata.metadata or {}  # a copy each time
        columns = _schema_of(metadata, facts)
    except (pa.ArrowException, OSError) as error:
        if of_table and isinstance(error, FileNotFoundError):
            raise
        if isinstance(error, OSError) and error.errno is not None:
            why = error.strerror or type(error).__name__
            raise SourceError(f"{shown}: it cannot be opened ({why}). Check its permissions.") from None
        raise unreadable_error(shown, path, read_beginning(store, path), error) from None
    if not of_table and WRITTEN_BY_ICEBERG in facts:
        raise SourceError(
            f"{shown} was written by Iceberg, and only the table's own metadata says which of its rows count.\n"
            "Use source.iceberg (catalog.db.table, or the path of its metadata.json), or source.table, so that Spark reads it."
        )
    return Footer(shown, columns, metadata, stamp, facts)
