"""A Spark frame of Parquet in a store that Spark itself need not know: its tasks read the files, and hand on columns.

For what needs SQL or a shuffle (expressions, groups, lines, persons). Types are those of Spark's own reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from dpspark.data.passes import default_parallelism, unpacked, unreadable, work_lists
from dpspark.data.source import NULL_PARTITION, ParquetPart, ParquetSource, decode
from dpspark.data.store_types import arrow_type, converted
from dpspark.errors import SourceError


def open_store_frame(spark: Any, source: ParquetSource) -> tuple[Any, set[str]]:
    """The columns that the release mentions, and which of them come from the names of directories."""
    directories = {key for part in source.parts for key, _ in part.directories}
    types: dict[str, str] = {}
    for name, kind in source.types.items():
        if name in directories:
            continue
        if kind is None:
            raise SourceError(
                f"column {name!r}: its type is not the same in all files. Make it one, or use source.sql."
            )
        if arrow_type(kind) is None:
            raise SourceError(
                f"column {name!r}: its type is {kind}, which this kind of release cannot take from a store.\n"
                "Leave it out; or let Spark read the files, by an address that it knows (s3a://, with its jars)."
            )
        types[name] = kind
    names = [*types, *sorted(directories)]
    kinds = [*types.values(), *("string" for _ in directories)]
    lists = work_lists(source, default_parallelism(spark))
    reader = _reader(lists, names, kinds)
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds)) or "none string"
    frame = spark.range(0, len(lists), 1, max(1, len(lists))).mapInArrow(reader, columns)
    return frame.toDF(*names) if names else frame, directories


def _reader(lists: list[bytes], names: list[str], kinds: list[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        schema = pa.schema([(f"c{i}", arrow_type(kind)) for i, kind in enumerate(kinds)])
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for part, row_groups in unpacked(lists[task]):
                    try:
                        yield from _rows(part, row_groups, names, schema)
                    except Exception as error:
                        raise unreadable(part.shown, error) from None

    return read


def _rows(part: ParquetPart, row_groups: list[int], names: list[str], schema: Any) -> Iterator[Any]:
    given = {key: None if text == NULL_PARTITION else text for key, text in part.directories}
    in_file = [name for name in names if name not in given]
    for batch in decode(part, row_groups, in_file):
        columns = []
        for name, kind in zip(names, schema.types, strict=True):
            at = batch.schema.get_field_index(name)
            if name in given or at < 0:  # as Spark: a column that a file lacks is null there
                columns.append(pa.array([given.get(name)] * batch.num_rows, kind))
            else:
                columns.append(converted(batch.column(at), kind))
        yield pa.record_batch(columns, schema=schema)
