"""At most so many rows of one person, of files that tasks read themselves: the rows stay where they are.

Tasks read the files and send, of each usable row, its person's id, a fingerprint and its place to where the person's rows meet.
From there come back the numbers of the rows that go, which are few; every pass then reads the files and leaves them out, and
with them the rows that were not usable.

Stability: as for frames (dpspark.spark.persons), and the same rows are kept for the same secret: which of a person's rows are
kept depends on these rows and on the secret alone. A row's number says where it is, and decides nothing: dpspark.spark.meeting.

Memory: a task that reads holds a batch, and the numbers that go of its own rows. Tasks where people meet have about ROWS_MET
rows at 24 bytes each, and the ids, however many rows there are; more if one person has more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.group_keys import ReleasedGroups
from dpspark.source.parquet import ParquetSource
from dpspark.spark.direct import DirectSource
from dpspark.spark.failures import explain_failure
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.person_tasks import ASKED, NOTHING, PersonRows, keep_rows, meet, send_rows, settle_words, tell_words
from dpspark.spark.row_source import TaskFunction
from dpspark.spark.tree import send_to_parts
from dpspark.spark.usable import Usable
from dpspark.spark.work_lists import work_lists

ROWS_MET = 1 << 20  # about so many rows meet in one task
PACKS = "part int, task int, payload binary"
VERDICTS = "part int, kind int, payload binary"


@dataclass(frozen=True)
class CappedSource:
    """The rows of files that stay: at most so many of each person."""

    files: ParquetSource
    rows: PersonRows
    told: Any  # a frame: which of its rows the task `part` leaves out
    groups: ReleasedGroups
    positions: tuple[int, ...]

    def take(self, positions: Sequence[int]) -> CappedSource:
        return replace(self, positions=tuple(self.positions[i] for i in positions))

    def check_unchanged(self) -> None:
        self.files.check_unchanged()

    def map_in_arrow(self, spark: Any, function: TaskFunction, schema: str) -> Any:
        # Each task has a row of its own, so that it runs, whether or not any of its rows go.
        every = spark.range(0, self.tasks(spark), 1, 1).selectExpr(
            "cast(id as int) as part", f"{NOTHING} as kind", "cast(null as binary) as payload"
        )
        told = send_to_parts(self.told.unionAll(every), self.tasks(spark))
        return told.mapInArrow(keep_rows(self.rows, self.positions, function), schema)

    def tasks(self, spark: Any) -> int:
        return max(1, len(self.rows.lists))

    def kept(self, passes: int) -> AbstractContextManager[None]:
        return nullcontext()  # what is computed for all passes, `capped_files` keeps


@contextmanager
def capped_files(
    spark: Any, source: DirectSource, usable: Usable, most: int, keep_nulls: bool, random: KeyedRandom
) -> Iterator[CappedSource]:
    """Find the rows that stay, in one pass, for all passes of this block. The source has the person's id last.

    `keep_nulls`: a row without an id is a person of its own; otherwise it is left out.
    """
    cores = default_parallelism(spark)
    lists = work_lists(source.files, cores)
    parts = max(cores, -(-sum(part.rows for part in source.files.parts) // ROWS_MET))
    rows = PersonRows(lists, source.reading, usable, most, keep_nulls, random, parts)
    tasks = max(1, len(lists))
    sent = spark.range(0, len(lists), 1, tasks).mapInArrow(send_rows(rows), PACKS)
    verdicts = send_to_parts(sent, parts).mapInArrow(meet(rows), VERDICTS)
    with ExitStack() as stack:
        verdicts = stack.enter_context(_persisted(verdicts))
        told = verdicts.where(f"kind != {ASKED}")
        if _any_asked(verdicts):
            asked = send_to_parts(verdicts.where(f"kind = {ASKED}"), tasks)
            words = send_to_parts(asked.mapInArrow(tell_words(rows), PACKS), parts)
            told = told.unionAll(stack.enter_context(_persisted(words.mapInArrow(settle_words(rows), VERDICTS))))
        yield CappedSource(source.files, rows, told, source.groups, tuple(range(rows.width)))


@contextmanager
def _persisted(frame: Any) -> Iterator[Any]:
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()


def _any_asked(verdicts: Any) -> bool:
    """Tell whether words are asked for. It is here that the first pass runs."""
    try:
        return bool(verdicts.where(f"kind = {ASKED}").select("kind").collect())
    except Exception as error:
        failed = explain_failure(error)
    raise failed
