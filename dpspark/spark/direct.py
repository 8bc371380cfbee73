"""Files that tasks read themselves with pyarrow, row group by row group: Spark schedules, retries and shuffles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from dpspark.source.group_keys import NO_GROUPS, ReleasedGroups
from dpspark.source.parquet import Column, ParquetSource
from dpspark.source.reading import Reading, read_rows
from dpspark.source.table_rows import Snapshot
from dpspark.spark.failures import task_error
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.row_source import TaskFunction
from dpspark.spark.work_lists import unpack, work_lists


@dataclass(frozen=True)
class DirectSource:
    """The rows of a release in files, and what a task makes of them."""

    files: ParquetSource
    reading: Reading
    groups: ReleasedGroups = NO_GROUPS

    def take(self, positions: Sequence[int]) -> DirectSource:
        return replace(self, reading=self.reading.take(positions))

    @property
    def snapshot(self) -> Snapshot | None:
        """The state of a lake table that every pass reads."""
        return self.files.snapshot

    def check_unchanged(self) -> None:
        self.files.check_unchanged()

    def map_in_arrow(self, spark: Any, function: TaskFunction, schema: str) -> Any:
        lists = work_lists(self.files, default_parallelism(spark))
        # One task a partition; the work lists travel inside the function. Without a row group there is one empty task.
        frame = spark.range(0, len(lists), 1, max(1, len(lists)))
        return frame.mapInArrow(_read_then(lists, self.reading, function), schema)

    def tasks(self, spark: Any) -> int:
        return max(1, len(self.files.tasks(default_parallelism(spark))))

    def kept(self, passes: int) -> AbstractContextManager[None]:
        return nullcontext()  # to read files again is faster than Spark's cache


def read_plainly(files: ParquetSource, columns: Sequence[Column]) -> DirectSource:
    """Read columns as the files have them."""
    return DirectSource(files, Reading(tuple(columns)))


def _read_then(lists: list[bytes], reading: Reading, function: TaskFunction) -> TaskFunction:
    read_list = list_reader(lists, reading)

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                yield from read_list(task)

    return lambda batches: function(read(batches))


def list_reader(lists: list[bytes], reading: Reading) -> Callable[[int], Iterator[Any]]:
    """Make a function that yields the rows of one task's files: the same ones in the same order every time."""

    def read_list(task: int) -> Iterator[Any]:
        for part, row_groups in unpack(lists[task]) if lists else ():
            try:
                yield from read_rows(reading, part, row_groups)
            except Exception as error:
                # The library's message may quote values: pass on its kind and the file alone.
                raise task_error(part.shown, error) from None

    return read_list
