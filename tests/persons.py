"""Persons in files, by the tasks' own functions, one after the other and without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpspark.core.domain import Domain, PersonKey
from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.parquet import ParquetSource
from dpspark.source.reading import Reading
from dpspark.spark.person_tasks import (
    ASKED,
    NOTHING,
    PACKS,
    VERDICTS,
    PersonRows,
    keep_rows,
    meet,
    send_rows,
    settle_words,
    tell_words,
)
from dpspark.spark.usable import Usable
from dpspark.spark.work_lists import work_lists


def kept_rows(files: ParquetSource, domain: Domain, person: str, most: int, secret: bytes, parts: int = 3) -> list[Any]:
    """The batches that stay, as a release reads them on so many tasks."""
    found = files.frame_columns()
    reading = Reading((*domain.read_columns, PersonKey(person)), found.types, found.spellings)
    lists = work_lists(files, 2)
    rows = PersonRows(lists, reading, Usable(domain), most, False, KeyedRandom(secret), parts)
    starts = [pa.record_batch([pa.array([task])], names=["id"]) for task in range(len(lists))]
    sent = _table((batch for start in starts for batch in send_rows(rows)(iter([start]))), PACKS)
    verdicts = _table(_by_part(sent, parts, meet(rows)), VERDICTS)
    asked = verdicts.filter(pc.equal(verdicts["kind"], ASKED))
    words = _table(_by_part(asked, len(lists), tell_words(rows)), PACKS)
    settled = _table(_by_part(words, parts, settle_words(rows)), VERDICTS)
    every = pa.table([list(range(len(lists))), [NOTHING] * len(lists), [None] * len(lists)], schema=VERDICTS)
    told = pa.concat_tables([verdicts.filter(pc.not_equal(verdicts["kind"], ASKED)), settled, every])
    return list(_by_part(told, len(lists), keep_rows(rows, range(rows.width), lambda batches: batches)))


def _table(batches: Iterable[Any], schema: Any) -> Any:
    return pa.Table.from_batches(list(batches), schema)


def _by_part(table: Any, parts: int, function: Any) -> Iterator[Any]:
    for part in range(parts):
        mine = table.filter(pc.equal(table["part"], part)).combine_chunks()
        yield from function(iter(mine.to_batches()))
