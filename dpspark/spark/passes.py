"""One pass over a source on Spark: an accumulator in each task, then a tree of merges."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from dpspark.source.parquet import Column, ParquetPart, ParquetSource, read_part
from dpspark.spark.failures import UNREADABLE as UNREADABLE
from dpspark.spark.failures import explain_failure as explain_failure
from dpspark.spark.failures import task_error as task_error
from dpspark.spark.frames import FrameSource
from dpspark.spark.tree import MOST_FAN_IN, MOST_PARTIALS, Merge, payload_batch, tree_reduce

UNKNOWN_CORES = 32  # of a cluster whose executors are still to come: small tasks, rather than few


class Accumulator(Protocol):
    """The work of one task on its rows. The merge of all results must not depend on how rows are dealt out."""

    def add(self, columns: Sequence[Any], rows: int) -> None: ...
    def finish(self) -> bytes: ...


def run_pass(
    spark: Any,
    source: ParquetSource | FrameSource,
    columns: Sequence[Column],
    start: Callable[[], Accumulator],
    merge: Merge,
    fan_in: int = MOST_FAN_IN,
) -> list[bytes]:
    """Show each row to one accumulator; return their results, partly merged. A frame has just these columns, in order."""
    cores = default_parallelism(spark)
    if isinstance(source, ParquetSource):
        lists = work_lists(source, cores)
        count = len(lists)
        if not lists:  # files without a row group: nothing to read, and a valid release
            return []
        # One task a partition; the work lists travel inside the function.
        partials = spark.range(0, count, 1, count).mapInArrow(_direct_reader(lists, columns, start), "payload binary")
    else:
        count = max(MOST_PARTIALS, 4 * cores)
        # Not a shuffle: a task reads several partitions, one after the other, where there are more.
        few = source.frame.coalesce(count)
        partials = few.mapInArrow(_frame_reader(len(columns), start), "payload binary")
    try:
        return tree_reduce(partials, count, merge, fan_in)
    except Exception as error:
        failed = explain_failure(error)
    raise failed  # out here, so that Spark's own error, which may quote data, is not even its context


def default_parallelism(spark: Any) -> int:
    """Count the cores: those that are there, or that the settings ask for. A cluster's come one by one, later."""
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has no SparkContext
        return _remote_parallelism(spark)
    settings = context.getConf()
    if settings.contains("spark.default.parallelism") or context.master.startswith("local"):
        return max(1, int(context.defaultParallelism))
    each = int(settings.get("spark.executor.cores", "1"))
    asked = max(int(settings.get("spark.cores.max", "0")), int(settings.get("spark.executor.instances", "0")) * each)
    return max(int(context.defaultParallelism), asked or UNKNOWN_CORES)


_cores: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def _remote_parallelism(spark: Any) -> int:
    """Ask the server for its cores, once: a range has as many parts, and its last row is in the last one."""
    if spark not in _cores:
        _cores[spark] = int(spark.range(1).selectExpr("spark_partition_id() + 1 as cores").collect()[0]["cores"])
    return _cores[spark]


def work_lists(source: ParquetSource, cores: int) -> list[bytes]:
    """List what each task reads, packed: every task is sent all lists, and unpacks its own."""
    tasks = ([(source.parts[part].only(groups), groups) for part, groups in task] for task in source.tasks(cores))
    return [zlib.compress(pickle.dumps(task), 1) for task in tasks]


def unpack(work_list: bytes) -> list[tuple[ParquetPart, list[int]]]:
    return pickle.loads(zlib.decompress(work_list))  # noqa: S301  the driver wrote it


def _direct_reader(
    lists: list[bytes],
    columns: Sequence[Column],
    start: Callable[[], Accumulator],
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        total = start()
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for part, row_groups in unpack(lists[task]):
                    try:
                        for arrays, rows in read_part(part, row_groups, columns):
                            total.add(arrays, rows)
                    except Exception as error:
                        # The library's message may quote values: pass on its kind and the file alone.
                        raise task_error(part.shown, error) from None
        yield payload_batch(total.finish())

    return read


def _frame_reader(count: int, start: Callable[[], Accumulator]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def read(batches: Iterator[Any]) -> Iterator[Any]:
        total = start()
        for batch in batches:
            try:
                total.add([batch.column(i) for i in range(count)], batch.num_rows)
            except Exception as error:
                raise task_error("a batch of rows", error) from None
        yield payload_batch(total.finish())

    return read
