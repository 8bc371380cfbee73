"""What tasks do so that at most so many rows of one person stay, of files that they read themselves. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.reading import Reading
from dpspark.source.spark_types import arrow_type
from dpspark.spark.direct import read_list
from dpspark.spark.failures import task_error
from dpspark.spark.groups import CODED_ROWS, enlarge_batches
from dpspark.spark.meeting import Met, choose_rows, numbers_of, pack_met, place_rows, settle, tasks_of, unpack_met
from dpspark.spark.row_order import RowOrder, canonical
from dpspark.spark.row_source import TaskFunction
from dpspark.spark.usable import Usable

LEAST_ROWS = 1 << 16  # of a batch: smaller ones are put together
SENT_ROWS = 1 << 18  # are sorted by where they meet at once
PACK_ROWS = 4096  # 100 kB: an Arrow batch has up to 10,000 packs, and can have 2 GB
CLASS_BITS = np.int64(40)  # of a class; where it met is in the others
VERDICTS = pa.schema([("part", pa.int32()), ("asked", pa.bool_()), ("payload", pa.binary())])
PACKS = pa.schema([VERDICTS.field("part"), VERDICTS.field("payload")])


@dataclass(frozen=True)
class PersonRows:
    """The rows of files, with their people's ids in the last column, and the cap on them. Travels to the tasks."""

    lists: list[bytes]  # what each task reads
    reading: Reading
    usable: Usable
    most: int
    keep_nulls: bool  # a row without an id is a person of its own; otherwise it is left out
    random: KeyedRandom
    parts: int  # tasks where people meet

    @property
    def width(self) -> int:
        return len(self.usable.domain.read_columns)

    @property
    def whole(self) -> bool:
        """Whether ids are whole numbers; they are text otherwise, as the names of directories are."""
        kind = self.reading.types.get(self.reading.columns[-1].name, "string")
        return pa.types.is_integer(arrow_type(kind))

    def batches(self, task: int) -> Iterator[tuple[int, Any, list[np.ndarray], np.ndarray]]:
        """Read a task's rows: the number of the first of a batch, the batch, what the release sees, and which are usable."""
        first = 0
        enough = LEAST_ROWS if self.usable.groups is None else CODED_ROWS
        for batch in enlarge_batches(read_list(self.lists[task], self.reading) if self.lists else iter(()), enough):
            try:
                values = self.usable.values(batch)
                mask = self.usable.mask(values)
            except Exception as error:
                raise task_error("a batch of rows", error) from None
            yield first, batch, values, mask
            first += batch.num_rows


def send_rows(rows: PersonRows) -> TaskFunction:
    """Make a function that sends the usable rows of some people to where they meet, in packs."""

    def send(batches: Iterator[Any]) -> Iterator[Any]:
        by, enough = RowOrder(rows.random), max(SENT_ROWS, 64 * rows.parts)
        held: list[Met] = []
        for task in (task for batch in batches for task in batch.column(0).to_pylist()):
            for first, batch, values, mask in rows.batches(task):
                held.append(_to_meet(rows, by, place_rows(task, first, batch.num_rows), batch, values, mask))
                if sum(len(met.places) for met in held) >= enough:
                    yield _pack_by_part(held, by, rows.parts)
                    held = []
        if held:
            yield _pack_by_part(held, by, rows.parts)

    return send


def _to_meet(
    rows: PersonRows, by: RowOrder, places: np.ndarray, batch: Any, values: list[np.ndarray], mask: np.ndarray
) -> Met:
    try:
        ids = batch.column(rows.width)
        ids = ids.cast(pa.int64() if rows.whole else pa.large_binary())
        prints = by.fingerprints(rows.usable.words(values))
        mask = mask & _known(ids)
        return Met(places, prints, ids) if mask.all() else Met(places[mask], prints[mask], ids.filter(pa.array(mask)))
    except Exception as error:
        raise task_error("a batch of rows", error) from None


def _known(ids: Any) -> np.ndarray:
    return pc.is_valid(ids).to_numpy(zero_copy_only=False)


def _pack_by_part(held: list[Met], by: RowOrder, parts: int) -> Any:
    """Make one batch of packs, of each part's rows."""
    places, prints = (np.concatenate([getattr(met, name) for met in held]) for name in ("places", "fingerprints"))
    ids = pa.concat_arrays([met.ids for met in held])
    part = by.meeting(ids, parts)
    order = np.argsort(part, kind="stable")
    sizes = np.bincount(part, minlength=parts)
    found, ends = [], []
    for at, end in enumerate(np.cumsum(sizes).tolist()):
        here = [*range(end - int(sizes[at]) + PACK_ROWS, end, PACK_ROWS), end] if sizes[at] else []
        found += [at] * len(here)
        ends += here
    packs = pack_met(Met(places[order], prints[order], ids.take(pa.array(order))), ends)
    return pa.record_batch([pa.array(found, pa.int32()), packs], schema=PACKS)


def _batch(rows: Sequence[tuple[Any, ...]], schema: Any) -> Any:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.record_batch([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def meet(rows: PersonRows) -> TaskFunction:
    """Make a function that finds the rows that go, for the tasks that read them; and those whose words are asked for."""

    def decide(batches: Iterator[Any]) -> Iterator[Any]:
        parts, buffers = _received(batches)
        try:
            met = unpack_met(buffers, rows.whole)
            chosen = choose_rows(met, rows.most, RowOrder(rows.random), len(rows.usable.layout) == 1)
        except Exception as error:
            raise task_error("rows of people", error) from None
        yield _by_task(met.places[chosen.gone])
        if len(chosen.asked):
            # A class has a number of its own among all tasks.
            classes = chosen.classes + (parts[0] << int(CLASS_BITS))
            yield _by_task(met.places[chosen.asked], [classes, chosen.stays.astype(np.int64)])

    return decide


def _received(batches: Iterable[Any]) -> tuple[list[int], list[Any]]:
    """Take all packs: their parts, and what is in them."""
    parts: list[int] = []
    buffers = []
    for batch in batches:
        parts += batch.column("part").to_pylist()
        buffers += [value.as_buffer() for value in batch.column("payload")]
    return parts, buffers


def _by_task(places: np.ndarray, more: Sequence[np.ndarray] = ()) -> Any:
    """Make one batch of verdicts, for the tasks that read these rows: their numbers, and what else is to be told."""
    order = np.argsort(places)
    tasks, columns = tasks_of(places[order]), [numbers_of(places[order]), *(each[order] for each in more)]
    packs = []
    for task in np.unique(tasks).tolist():
        first, end = np.searchsorted(tasks, [task, task + 1]).tolist()
        for start in range(first, end, PACK_ROWS):
            payload = b"".join(column[start : min(start + PACK_ROWS, end)].tobytes() for column in columns)
            packs.append((task, bool(more), payload))
    return _batch(packs, VERDICTS)


def tell_words(rows: PersonRows) -> TaskFunction:
    """Make a function that reads the words of the rows that are asked for, and sends them to where the rows met."""

    def tell(batches: Iterator[Any]) -> Iterator[Any]:
        tasks, buffers = _received(batches)
        if not tasks:
            return
        asked = np.concatenate([np.frombuffer(buffer, "<i8").reshape(3, -1) for buffer in buffers], axis=1)
        numbers, classes, stays = asked[:, np.argsort(asked[0])]
        for first, batch, values, _ in rows.batches(tasks[0]):
            start, end = np.searchsorted(numbers, [first, first + batch.num_rows])
            at = numbers[start:end] - first
            words = [canonical(word[at]) for word in rows.usable.words(values)]
            places = place_rows(tasks[0], first, batch.num_rows)[at]
            columns = [places, classes[start:end], stays[start:end], *words]
            yield _to_parts(classes[start:end] >> CLASS_BITS, np.stack([column.view(np.int64) for column in columns]))

    return tell


def _to_parts(parts: np.ndarray, columns: np.ndarray) -> Any:
    order = np.argsort(parts, kind="stable")
    parts, columns = parts[order], columns[:, order]
    packs = []
    for part in np.unique(parts).tolist():
        first, end = np.searchsorted(parts, [part, part + 1]).tolist()
        for start in range(first, end, PACK_ROWS):
            packs.append((part, columns[:, start : min(start + PACK_ROWS, end)].tobytes()))
    return _batch(packs, PACKS)


def settle_words(rows: PersonRows) -> TaskFunction:
    """Make a function that settles which rows go of those whose words were asked for."""

    def decide(batches: Iterator[Any]) -> Iterator[Any]:
        _, buffers = _received(batches)
        if not buffers:
            return
        height = 3 + len(rows.usable.layout)
        told = np.concatenate([np.frombuffer(buffer, "<i8").reshape(height, -1) for buffer in buffers], axis=1)
        stays = settle(told[1], told[2] > 0, list(told[3:]))
        yield _by_task(told[0][~stays].view(np.uint64))

    return decide


def keep_rows(rows: PersonRows, positions: Sequence[int], function: TaskFunction) -> TaskFunction:
    """Make a function that reads the rows that stay, some of their columns, and hands them on."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        tasks, gone = _gone(batches)
        for first, batch, _, mask in (one for task in tasks for one in rows.batches(task)):
            try:
                if not rows.keep_nulls:
                    mask &= _known(batch.column(rows.width))
                start, end = np.searchsorted(gone, [first, first + batch.num_rows])
                mask[gone[start:end] - first] = False
                names = [f"c{i}" for i in range(len(positions))]
                kept = pa.record_batch([batch.column(i) for i in positions], names=names)
                kept = kept if mask.all() else kept.filter(pa.array(mask))
            except Exception as error:
                raise task_error("a batch of rows", error) from None
            yield kept

    return lambda batches: function(read(batches))


def _gone(batches: Iterator[Any]) -> tuple[list[int], np.ndarray]:
    """Take the numbers of the rows that go, in order, of the one task that this is."""
    tasks: set[int] = set()
    numbers = [np.zeros(0, dtype=np.int64)]
    for batch in batches:
        tasks.update(batch.column("part").to_pylist())
        numbers += [np.frombuffer(value.as_buffer(), "<i8") for value in batch.column("payload") if value.is_valid]
    if len(tasks) > 1:
        raise RuntimeError("rows that go of several tasks")
    return sorted(tasks), np.sort(np.concatenate(numbers))
