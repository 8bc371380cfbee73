"""The footer of one Parquet file: its columns, and where its rows are. A file that is not Parquet is refused here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.errors import SourceError
from dpspark.source.lakes import WRITTEN_BY_ICEBERG
from dpspark.source.listing import mask_path
from dpspark.source.not_parquet import read_beginning, unreadable_error
from dpspark.source.spark_types import spark_type
from dpspark.source.stamps import Stamp, open_stamped
from dpspark.source.stores import Store

WRITTEN_BY_SPARK = b"org.apache.spark.version"
LEGACY = {b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"}


@dataclass(frozen=True)
class Footer:
    """The content of a Parquet file's footer, without its statistics."""

    shown: str  # the file, for messages
    schema: Any  # Arrow's
    metadata: Any
    int96: frozenset[str]  # columns of times as Spark wrote them once
    stamp: Stamp

    def spark_types(self, wanted: Collection[str]) -> tuple[tuple[str, str], ...]:
        """List the wanted columns (in any case), each with its type in Spark; or in Arrow, if Spark has none."""
        return tuple(
            (field.name, spark_type(field.type, field.name in self.int96))
            for field in self.schema
            if field.name.lower() in wanted
        )

    def old_times(self) -> tuple[str, ...]:
        """Name the columns of dates and times that were written in an older format, or by Spark in the Julian calendar."""
        facts = self.metadata.metadata or {}
        version = facts.get(WRITTEN_BY_SPARK)
        julian = version is not None and (version < b"3." or LEGACY.intersection(facts))
        types = pa.types
        timed = (field.name for field in self.schema if types.is_date(field.type) or types.is_timestamp(field.type))
        return tuple(name for name in timed if julian or name in self.int96)


def read_footer(store: Store | None, path: str) -> Footer:
    """Read the footer of one file. SourceError if it is not Parquet, cannot be read, or was written by Iceberg."""
    shown = mask_path(path if store is None else store.shown(path))
    try:
        source, stamp = open_stamped(store, path)
        with pq.ParquetFile(source) as file:
            schema, metadata, stored = file.schema_arrow, file.metadata, file.schema
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            why = error.strerror or type(error).__name__
            raise SourceError(f"{shown}: it cannot be opened ({why}). Check its permissions.") from None
        raise unreadable_error(shown, path, read_beginning(store, path), error) from None
    if WRITTEN_BY_ICEBERG in (metadata.metadata or {}):
        raise SourceError(
            f"{shown} was written by Iceberg, and only the table's own metadata says which of its rows count.\n"
            "Use source.table, so that Spark reads it."
        )
    columns = (stored.column(at) for at in range(len(stored)))
    int96 = frozenset(column.path for column in columns if column.physical_type == "INT96")
    return Footer(shown, schema, metadata, int96, stamp)
