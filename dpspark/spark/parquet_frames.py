"""A Spark frame of Parquet whose files our own tasks read, as Spark's reader cannot open them.

It serves what needs SQL or a shuffle (expressions, groups, lines, persons), for files in a store that Spark need not know,
and for files whose types differ. Types are those of Spark's own reader, or hold those of all files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from dpspark.source.parquet import NULL_PARTITION, ParquetPart, ParquetSource, decode
from dpspark.source.spark_types import arrow_type, convert
from dpspark.spark.failures import task_error
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.work_lists import unpack, work_lists


def open_parquet_frame(spark: Any, source: ParquetSource) -> tuple[Any, set[str]]:
    """Open a frame of the columns that the release mentions; name those that come from the names of directories."""
    columns = source.frame_columns()
    names = [*columns.types, *columns.directories]
    kinds = [*columns.types.values(), *("string" for _ in columns.directories)]
    lists = work_lists(source, default_parallelism(spark))
    reader = _reader(lists, [columns.spellings.get(name, (name,)) for name in names], kinds)
    schema = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds)) or "none string"
    frame = spark.range(0, len(lists), 1, max(1, len(lists))).mapInArrow(reader, schema)
    return frame.toDF(*names) if names else frame, set(columns.directories)


def _reader(
    lists: list[bytes], names: list[tuple[str, ...]], kinds: list[str]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        schema = pa.schema([(f"c{i}", arrow_type(kind)) for i, kind in enumerate(kinds)])
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for part, row_groups in unpack(lists[task]):
                    try:
                        yield from _rows(part, row_groups, names, schema)
                    except Exception as error:
                        raise task_error(part.shown, error) from None

    return read


def _rows(part: ParquetPart, row_groups: list[int], names: list[tuple[str, ...]], schema: Any) -> Iterator[Any]:
    """Read a file's batches. `names` are how each column may be spelt in it, or in the names of its directories."""
    given = {key: None if text == NULL_PARTITION else text for key, text in part.directories}
    for batch in decode(part, row_groups, [name for spelt in names for name in spelt if name not in given]):
        columns = []
        for spelt, kind in zip(names, schema.types, strict=True):
            here = next((name for name in spelt if name in batch.schema.names), None)
            if here is None:  # a directory's; or, as Spark has it, a column that a file lacks: null there
                columns.append(pa.array([given.get(spelt[0])] * batch.num_rows, kind))
            else:
                columns.append(convert(batch.column(here), kind))
        yield pa.record_batch(columns, schema=schema)
