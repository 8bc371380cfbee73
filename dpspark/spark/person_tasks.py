"""What tasks do so that at most so many rows of one person stay, of files that they read themselves. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.reading import Reading
from dpspark.source.spark_types import arrow_type
from dpspark.spark.direct import list_reader
from dpspark.spark.failures import task_error
from dpspark.spark.groups import CODED_ROWS, enlarge_batches
from dpspark.spark.meeting import Sent, choose_rows, numbers_of, pack_rows, place_rows, settle, tasks_of, unpack_met
from dpspark.spark.row_order import RowOrder, canonical
from dpspark.spark.row_source import TaskFunction
from dpspark.spark.usable import Usable

LEAST_ROWS = 1 << 16  # of a batch: smaller ones are put together
SENT_ROWS = 1 << 18  # are sorted by where they meet at once
PACK_ROWS = 4096  # 100 kB: an Arrow batch has up to 10,000 packs, and can have 2 GB
CLASS_BITS = np.int64(40)  # of a class; where it met is in the others
MOST_OFFSET = 1 << 31  # between the numbers of rows that are sent together
GONE, ASKED, LEFT_OUT, NOTHING = range(4)  # what a task is told of its rows
PACKS = pa.schema([("part", pa.int32()), ("task", pa.int32()), ("payload", pa.binary())])
VERDICTS = pa.schema([("part", pa.int32()), ("kind", pa.int32()), ("payload", pa.binary())])


class Place(NamedTuple):
    """Where a batch is: the task that reads it, and the number of its first row there."""

    task: int
    first: int


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
        return self.usable.width

    @property
    def whole(self) -> bool:
        """Whether ids are whole numbers; they are text otherwise, as the names of directories are."""
        kind = self.reading.types.get(self.reading.columns[-1].name, "string")
        return pa.types.is_integer(arrow_type(kind))

    def batches(self, task: int) -> Iterator[tuple[int, Any, list[np.ndarray], np.ndarray]]:
        """Read a task's rows: the number of the first of a batch, the batch, what the release sees, and which are usable."""
        first = 0
        enough = LEAST_ROWS if self.usable.groups is None else CODED_ROWS
        for batch in enlarge_batches(list_reader(self.lists, self.reading)(task), enough):
            try:
                values = self.usable.values(batch)
                mask = self.usable.mask(values)
            except Exception as error:
                raise task_error("a batch of rows", error) from None
            yield first, batch, values, mask
            first += batch.num_rows


def send_rows(rows: PersonRows) -> TaskFunction:
    """Make a function that sends the usable rows of some people to where they meet, in packs; and which are left out."""

    def send(batches: Iterator[Any]) -> Iterator[Any]:
        by, enough = RowOrder(rows.random), max(SENT_ROWS, 64 * rows.parts)
        for task in (task for batch in batches for task in batch.column(0).to_pylist()):
            held: list[Sent] = []
            for first, batch, values, mask in rows.batches(task):
                try:
                    sent, stays = _to_meet(rows, by, Place(task, first), batch, values, mask)
                except Exception as error:
                    raise task_error("a batch of rows", error) from None
                if not stays.all():
                    yield _batch([(task % rows.parts, task, pack_bits(first, stays))], PACKS)
                if held and first - held[0].first >= MOST_OFFSET:
                    yield _pack_by_part(held, by, rows.parts)
                    held = []
                held.append(sent)
                if sum(len(one.offsets) for one in held) >= enough:
                    yield _pack_by_part(held, by, rows.parts)
                    held = []
            if held:
                yield _pack_by_part(held, by, rows.parts)

    return send


def _to_meet(
    rows: PersonRows, by: RowOrder, at: Place, batch: Any, values: list[np.ndarray], mask: np.ndarray
) -> tuple[Sent, np.ndarray]:
    """Make what is sent of a batch, and mark the rows that are not left out from the first."""
    ids = batch.column(rows.width)
    ids = ids.cast(pa.int64() if rows.whole else pa.large_binary())
    known = pc.is_valid(ids).to_numpy(zero_copy_only=False)
    offsets = np.arange(batch.num_rows, dtype=np.uint32)
    sent = Sent(at.task, at.first, offsets, by.fingerprints(rows.usable.words(values)), ids)
    stays = mask if rows.keep_nulls else mask & known
    mask = mask & known
    return sent if mask.all() else sent.take(np.flatnonzero(mask)), stays


def _pack_by_part(held: list[Sent], by: RowOrder, parts: int) -> Any:
    """Make one batch of packs, of each part's rows."""
    sent = Sent.join(held)
    part = by.meeting(sent.ids, parts)
    sizes = np.bincount(part, minlength=parts)
    found: list[int] = []
    ends: list[int] = []
    for at, end in enumerate(np.cumsum(sizes).tolist()):
        here = [*range(end - int(sizes[at]) + PACK_ROWS, end, PACK_ROWS), end] if sizes[at] else []
        found += [at] * len(here)
        ends += here
    packs = pack_rows(sent.take(np.argsort(part, kind="stable")), ends)
    return pa.record_batch([pa.array(found, pa.int32()), pa.nulls(len(found), pa.int32()), packs], schema=PACKS)


def _batch(rows: Sequence[tuple[Any, ...]], schema: Any) -> Any:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.record_batch([pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def meet(rows: PersonRows) -> TaskFunction:
    """Make a function that finds the rows that go, for the tasks that read them; and those whose words are asked for.

    What is for such a task already, it hands on.
    """

    def decide(batches: Iterator[Any]) -> Iterator[Any]:
        here, buffers = 0, []
        for batch in batches:
            for part, task, payload in zip(*batch.columns, strict=True):
                if task.is_valid:
                    yield _batch([(task.as_py(), LEFT_OUT, payload.as_buffer().to_pybytes())], VERDICTS)
                else:
                    buffers.append(payload.as_buffer())
                    here = part.as_py()
        try:
            met = unpack_met(buffers, rows.whole)
            chosen = choose_rows(met, rows.most, RowOrder(rows.random), len(rows.usable.layout) == 1)
        except Exception as error:
            raise task_error("rows of people", error) from None
        yield _by_task(GONE, met.places[chosen.gone])
        if len(chosen.asked):
            # A class has a number of its own among all tasks.
            classes = chosen.classes + (here << int(CLASS_BITS))
            yield _by_task(ASKED, met.places[chosen.asked], classes, chosen.stays.astype(np.int64))

    return decide


def _by_task(kind: int, places: np.ndarray, *more: np.ndarray) -> Any:
    """Make one batch of verdicts, for the tasks that read these rows: their numbers, and what else is to be told."""
    order = np.argsort(places)
    tasks, columns = tasks_of(places[order]), [numbers_of(places[order]), *(each[order] for each in more)]
    packs = []
    for task in np.unique(tasks).tolist():
        first, end = np.searchsorted(tasks, [task, task + 1]).tolist()
        for start in range(first, end, PACK_ROWS):
            payload = b"".join(column[start : min(start + PACK_ROWS, end)].tobytes() for column in columns)
            packs.append((task, kind, payload))
    return _batch(packs, VERDICTS)


def tell_words(rows: PersonRows) -> TaskFunction:
    """Make a function that reads the words of the rows that are asked for, and sends them to where the rows met."""

    def tell(batches: Iterator[Any]) -> Iterator[Any]:
        received = [
            (task.as_py(), value.as_buffer())
            for batch in batches
            for task, _, value in zip(*batch.columns, strict=True)
        ]
        if not received:
            return
        task, buffers = received[0][0], [buffer for _, buffer in received]
        asked = np.concatenate([np.frombuffer(buffer, "<i8").reshape(3, -1) for buffer in buffers], axis=1)
        numbers, classes, stays = asked[:, np.argsort(asked[0])]
        for first, batch, values, _ in rows.batches(task):
            start, end = np.searchsorted(numbers, [first, first + batch.num_rows])
            at = numbers[start:end] - first
            words = [canonical(word[at]) for word in rows.usable.words(values)]
            places = place_rows(task, first, batch.num_rows)[at]
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
            packs.append((part, None, columns[:, start : min(start + PACK_ROWS, end)].tobytes()))
    return _batch(packs, PACKS)


def settle_words(rows: PersonRows) -> TaskFunction:
    """Make a function that settles which rows go of those whose words were asked for."""

    def decide(batches: Iterator[Any]) -> Iterator[Any]:
        buffers = [value.as_buffer() for batch in batches for value in batch.column("payload")]
        if not buffers:
            return
        height = 3 + len(rows.usable.layout)
        told = np.concatenate([np.frombuffer(buffer, "<i8").reshape(height, -1) for buffer in buffers], axis=1)
        stays = settle(told[1], told[2] > 0, list(told[3:]))
        yield _by_task(GONE, told[0][~stays].view(np.uint64))

    return decide


def keep_rows(rows: PersonRows, positions: Sequence[int], function: TaskFunction) -> TaskFunction:
    """Make a function that reads the rows that stay, some of their columns, and hands them on."""
    read_list = list_reader(rows.lists, rows.reading.take(positions))

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        task, out = _left_out(batches)
        first = 0
        for batch in read_list(task):
            mask = out.mask(first, batch.num_rows)
            first += batch.num_rows
            yield batch if mask.all() else batch.filter(pa.array(mask))

    return lambda batches: function(read(batches))


@dataclass(frozen=True)
class LeftOut:
    """The rows that a task leaves out: the numbers of those that go, in order, and marks of those that are not usable."""

    gone: np.ndarray
    bits: Mapping[int, tuple[int, np.ndarray]]  # from this number on, of so many rows, which stay

    def mask(self, first: int, rows: int) -> np.ndarray:
        """Mark the rows that stay among those from a number on."""
        mask = np.ones(rows, dtype=bool)
        for start, (count, packed) in self.bits.items():
            low, high = max(first, start), min(first + rows, start + count)
            if low < high:
                mask[low - first : high - first] = np.unpackbits(packed, count=count)[low - start : high - start]
        low, high = np.searchsorted(self.gone, [first, first + rows])
        mask[self.gone[low:high] - first] = False
        return mask


def pack_bits(first: int, stays: np.ndarray) -> bytes:
    return np.array([first, len(stays)]).tobytes() + np.packbits(stays).tobytes()


def _left_out(batches: Iterator[Any]) -> tuple[int, LeftOut]:
    """Take what the one task that this is was told."""
    tasks: set[int] = set()
    numbers, bits = [np.zeros(0, dtype=np.int64)], {}
    for batch in batches:
        for task, kind, payload in zip(*batch.columns, strict=True):
            tasks.add(task.as_py())
            if kind.as_py() == GONE:
                numbers.append(np.frombuffer(payload.as_buffer(), "<i8"))
            elif kind.as_py() == LEFT_OUT:
                first, count = np.frombuffer(payload.as_buffer(), "<i8", 2).tolist()
                bits[first] = count, np.frombuffer(payload.as_buffer(), np.uint8, offset=16)
    if len(tasks) != 1:
        raise RuntimeError("rows of several tasks, or of none")
    return tasks.pop(), LeftOut(np.sort(np.concatenate(numbers)), dict(sorted(bits.items())))
