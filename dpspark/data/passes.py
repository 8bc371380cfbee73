"""One pass over a source on Spark: an accumulator in each task, then a tree of merges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from dpspark.data.frames import FrameSource, condition
from dpspark.data.source import Column, ParquetSource, read_part, shown_path
from dpspark.data.tree import FAN_IN, Merge, payload_batch, tree_reduce
from dpspark.errors import DpsparkError, SourceError

UNREADABLE = "dpspark-unreadable"
STILL_RESERVED = "Its budget stays reserved: the same release, run again when that is mended, costs nothing more."


class Accumulator(Protocol):
    """What a task does with its rows. The merge of all results must not depend on how rows are dealt out."""

    def add(self, columns: Sequence[Any], rows: int) -> None: ...
    def finish(self) -> bytes: ...


def one_pass(
    spark: Any,
    source: ParquetSource | FrameSource,
    columns: Sequence[Column],
    start: Callable[[], Accumulator],
    merge: Merge,
    fan_in: int = FAN_IN,
) -> list[bytes]:
    """The results of accumulators that saw each row once, partly merged. A frame has just these columns, in order."""
    cores = default_parallelism(spark)
    count: int | None = None
    if isinstance(source, ParquetSource):
        tasks = source.tasks(cores)
        count = len(tasks)
        if not tasks:  # files without a row group: nothing to read, and a valid release
            return []
        # One task a partition; the work lists travel inside the function.
        reader = _direct_reader(source, tasks, columns, start)
        partials = spark.range(0, count, 1, count).mapInArrow(reader, "payload binary")
    else:
        partials = source.frame.mapInArrow(_frame_reader(len(columns), start), "payload binary")
    try:
        return tree_reduce(partials, count, min(cores, fan_in), merge, fan_in)
    except Exception as error:
        failed = reading_failed(error)
    raise failed  # out here, so that Spark's own error, which may quote data, is not even its context


def default_parallelism(spark: Any) -> int:
    try:
        return max(1, int(spark.sparkContext.defaultParallelism))
    except Exception:  # Spark Connect has no SparkContext
        return _remote_parallelism(spark)


_cores: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def _remote_parallelism(spark: Any) -> int:
    """The server's number, asked once: a range has as many parts, and its last row is in the last one."""
    if spark not in _cores:
        _cores[spark] = int(spark.range(1).selectExpr("spark_partition_id() + 1 as cores").collect()[0]["cores"])
    return _cores[spark]


def _direct_reader(
    source: ParquetSource,
    tasks: list[list[tuple[int, list[int]]]],
    columns: Sequence[Column],
    start: Callable[[], Accumulator],
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        total = start()
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for number, row_groups in tasks[task]:
                    part = source.parts[number]
                    try:
                        for arrays, rows in read_part(part, row_groups, columns):
                            total.add(arrays, rows)
                    except Exception as error:
                        # The library's message may quote values: pass on its kind and the file alone.
                        kind, path = type(error).__name__, shown_path(part.path)
                        raise RuntimeError(f"{UNREADABLE}<{path}|{kind}>") from None
        yield payload_batch(total.finish())

    return read


def _frame_reader(count: int, start: Callable[[], Accumulator]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        total = start()
        for batch in batches:
            try:
                total.add([batch.column(i) for i in range(count)], batch.num_rows)
            except Exception as error:
                raise RuntimeError(f"{UNREADABLE}<a batch of rows|{type(error).__name__}>") from None
        yield payload_batch(total.finish())

    return read


def reading_failed(error: Exception) -> DpsparkError:
    """What a user can be told: kinds and names, never the text of the error."""
    missing = re.search(r"No module named '(dpspark|numpy|pyarrow)", str(error))
    if missing:
        return DpsparkError(
            f"The executors cannot import {missing[1]}. Give spark-submit the package: --py-files dpspark.zip, and numpy and "
            f"pyarrow in their Python.\n{STILL_RESERVED}"
        )
    versions = re.search(r"Python in worker has different version: (\d+\.\d+) .{0,40}?(\d+\.\d+)", str(error))
    if versions:
        return DpsparkError(
            f"The executors have Python {versions[1]}, and this is {versions[2]}. Give both the same.\n{STILL_RESERVED}"
        )
    found = re.search(rf"{UNREADABLE}<([^|>]*)\|(\w+)>", str(error))
    what, kind = (found[1], found[2]) if found else ("The source", condition(error))
    return SourceError(f"{what} could not be read to the end ({kind}). Nothing was released.\n{STILL_RESERVED}")
