"""One pass over a source on Spark: an accumulator in each task, then a tree of merges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from dpspark.source.parquet import Column, ParquetSource
from dpspark.spark.direct import read_plainly
from dpspark.spark.failures import explain_failure, task_error
from dpspark.spark.row_source import RowSource, TaskFunction
from dpspark.spark.tree import MOST_FAN_IN, Merge, payload_batch, tree_reduce


class Accumulator(Protocol):
    """The work of one task on its rows. The merge of all results must not depend on how rows are dealt out."""

    def add(self, columns: Sequence[Any], rows: int) -> None: ...
    def finish(self) -> bytes: ...


def run_pass(
    spark: Any,
    source: ParquetSource | RowSource,
    columns: Sequence[Column],
    start: Callable[[], Accumulator],
    merge: Merge,
    fan_in: int = MOST_FAN_IN,
) -> list[bytes]:
    """Show each row to one accumulator; return their results, partly merged. The source's first columns are these, in order."""
    rows = read_plainly(source, columns) if isinstance(source, ParquetSource) else source
    partials = rows.map_in_arrow(spark, _accumulate(len(columns), start), "payload binary")
    try:
        return tree_reduce(partials, rows.tasks(spark), merge, fan_in)
    except Exception as error:
        failed = explain_failure(error)
    raise failed  # out here, so that Spark's own error, which may quote data, is not even its context


def _accumulate(count: int, start: Callable[[], Accumulator]) -> TaskFunction:
    def add_up(batches: Iterator[Any]) -> Iterator[Any]:
        total = start()
        for batch in batches:
            try:
                total.add([batch.column(i) for i in range(count)], batch.num_rows)
            except Exception as error:
                raise task_error("a batch of rows", error) from None
        yield payload_batch(total.finish())

    return add_up
