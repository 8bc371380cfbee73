"""Where the rows of one person meet: who has too many, and which of these rows go. Runs on executors.

A row is sent as its person's id, its fingerprint, and where it is: the task that reads it, and its number there. Ids are
compared as they are, never by a hash alone. Where a row is decides nothing: if only some of a person's rows with one
fingerprint stay, their words are asked for, and those that come first by them stay. But for a collision they are the same
rows to the release; with it, the choice is one by values still, whatever the secret.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dpspark.spark.row_order import RowOrder, ranks_among

NUMBER_BITS = np.uint64(40)  # of a row's place; the task is in the others
HEAD = 5 * 8  # bytes at the beginning of a pack
NO_ROWS = np.zeros(0, dtype=np.int64)
NO_WORDS = np.zeros(0, dtype=np.uint64)


def place_rows(task: int, first: int, rows: int) -> np.ndarray:
    """Say where rows are that a task reads one after the other, from this number on."""
    return np.arange(first, first + rows, dtype=np.uint64) | np.uint64(task) << NUMBER_BITS


def tasks_of(places: np.ndarray) -> np.ndarray:
    return (places >> NUMBER_BITS).astype(np.int32)


def numbers_of(places: np.ndarray) -> np.ndarray:
    return (places & (np.uint64(1) << NUMBER_BITS) - np.uint64(1)).astype(np.int64)


@dataclass(frozen=True)
class Sent:
    """Rows on their way to where they meet, all from one task: their numbers there, from the first one's on."""

    task: int
    first: int
    offsets: np.ndarray  # 32 bits each, as is what else has room in them: Spark's shuffle takes its time by bytes
    fingerprints: np.ndarray
    ids: Any  # of the people: whole numbers (of 64 bits) or bytes, Arrow's

    @classmethod
    def join(cls, several: Sequence[Sent]) -> Sent:
        """Put rows of one task together, which come one after the other."""
        task, first = several[0].task, several[0].first
        offsets = np.concatenate([one.offsets + np.uint32(one.first - first) for one in several])
        prints, ids = np.concatenate([one.fingerprints for one in several]), [one.ids for one in several]
        return cls(task, first, offsets, prints, pa.concat_arrays(ids))

    def take(self, order: np.ndarray) -> Sent:
        return replace(
            self,
            offsets=self.offsets[order],
            fingerprints=self.fingerprints[order],
            ids=self.ids.take(pa.array(order)),
        )


@dataclass(frozen=True)
class Met:
    """Rows that meet in one task."""

    places: np.ndarray
    fingerprints: np.ndarray
    ids: Any


class Chosen(NamedTuple):
    """The choice among the rows that meet: which go; and classes of rows with one fingerprint of which some stay.

    Of a class so many stay as are marked here; which ones, `settle` says by their words.
    """

    gone: np.ndarray = NO_ROWS
    asked: np.ndarray = NO_ROWS
    classes: np.ndarray = NO_ROWS
    stays: np.ndarray = NO_ROWS


def pack_rows(sent: Sent, ends: Sequence[int]) -> Any:
    """Write rows as Arrow's payloads, each up to one of these ends. Text goes as lengths and bytes."""
    if pa.types.is_integer(sent.ids.type):
        ids, least = _narrow(sent.ids.to_numpy(zero_copy_only=False))
        texts, at = memoryview(b""), np.zeros(len(ids) + 1, dtype=np.int64)
    else:
        at = np.frombuffer(sent.ids.buffers()[1], np.int64)[sent.ids.offset : sent.ids.offset + len(sent.ids) + 1]
        (ids, least), texts = _narrow(np.diff(at)), memoryview(sent.ids.buffers()[2] or b"")
    pieces, sizes = [], []
    for start, end in itertools.pairwise([0, *ends]):
        head = np.array([end - start, sent.task, sent.first, least, ids.itemsize], dtype=np.int64)
        columns = [column[start:end].data for column in (sent.fingerprints, sent.offsets, ids)]
        pack = [head.data, *columns, texts[at[start] : at[end]]]
        pieces += pack
        sizes.append(sum(piece.nbytes for piece in pack))
    return make_binary(np.array(sizes), b"".join(pieces), pa.binary())


def _narrow(numbers: np.ndarray) -> tuple[np.ndarray, int]:
    """Write whole numbers with 32 bits each where they are near to each other: above the least of them."""
    least, largest = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    return ((numbers - least).astype(np.uint32), least) if largest - least < 1 << 32 else (numbers, 0)


def unpack_met(payloads: Iterable[Any], whole: bool) -> Met:
    """Read the rows of all packs (Arrow's buffers). `whole`: ids are whole numbers."""
    parts: list[tuple[np.ndarray, ...]] = [(NO_WORDS, NO_WORDS, NO_ROWS)]
    data = []
    for payload in payloads:
        rows, task, first, least, size = np.frombuffer(payload, "<i8", 5).tolist()
        prints = np.frombuffer(payload, "<u8", rows, HEAD)
        offsets = np.frombuffer(payload, "<u4", rows, HEAD + 8 * rows)
        numbers = np.frombuffer(payload, f"<{'u4' if size == 4 else 'i8'}", rows, HEAD + 12 * rows)
        places = offsets + np.uint64(task << int(NUMBER_BITS) | first)
        parts.append((places, prints, numbers.astype(np.int64) + least))
        if not whole:
            data.append(memoryview(payload)[HEAD + (12 + size) * rows :])
    places, prints, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Met(places, prints, pa.array(ids) if whole else make_binary(ids, b"".join(data), pa.large_binary()))


def make_binary(lengths: np.ndarray, data: bytes, kind: Any) -> Any:
    """Make an array of bytes, which lie one after the other."""
    if kind == pa.binary() and len(data) >= 1 << 31:
        raise OverflowError
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32 if kind == pa.binary() else np.int64)
    return pa.Array.from_buffers(kind, len(lengths), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def choose_rows(met: Met, most: int, by: RowOrder, one_word: bool = False) -> Chosen:
    """Choose who goes of those with more than `most` rows, by the rows' numbers in `met`.

    `one_word`: rows with one fingerprint are one to the release, since the hash of a single word is one to one.
    """
    people = _numbers(met.ids)
    order = np.argsort(people)
    starts = np.flatnonzero(_is_new(people[order]))
    counts = np.diff(np.append(starts, len(order)))
    many = counts > most
    if not many.any():
        return Chosen()
    rows, firsts, counts = order[np.repeat(many, counts)], order[starts[many]], counts[many]
    hashes = np.repeat(by.people(met.ids.take(pa.array(firsts))), counts)
    run, prints = np.repeat(np.arange(len(counts)), counts), met.fingerprints[rows]
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    ranked = _sort_unlike(run, by.places(hashes, prints, np.zeros(len(rows), dtype=np.int64)))
    if ranked is not None:
        return Chosen(rows[ranked[within >= most]])
    # Some rows are alike: those of one fingerprint come one after the other now, and each has a rank.
    alike = np.lexsort((prints, run))
    rows, prints = rows[alike], prints[alike]
    new = _is_new(prints) | _is_new(run)
    ranks = ranks_among(~new)
    ranked = np.lexsort((ranks, prints, by.places(hashes, prints, ranks), run))
    stays = np.empty(len(rows), dtype=bool)
    stays[ranked] = within < most
    return Chosen(rows[~stays]) if one_word else _ask(rows, new, stays)


def _ask(rows: np.ndarray, new: np.ndarray, stays: np.ndarray) -> Chosen:
    """Ask for the words of classes of which some stay and some go."""
    starts = np.flatnonzero(new)
    sizes = np.diff(np.append(starts, len(rows)))
    staying = np.add.reduceat(stays.astype(np.int64), starts)
    mixed = np.repeat((staying > 0) & (staying < sizes), sizes)
    classes = np.repeat(np.arange(len(starts)), sizes)
    return Chosen(rows[~stays & ~mixed], rows[mixed], classes[mixed], stays[mixed])


def settle(classes: np.ndarray, stays: np.ndarray, words: Sequence[np.ndarray]) -> np.ndarray:
    """Mark the rows that stay: in each class as many as are marked already, but those that come first by their words."""
    order = np.lexsort((*words[::-1], classes))
    starts = np.flatnonzero(_is_new(classes[order]))
    sizes = np.diff(np.append(starts, len(order)))
    staying = np.add.reduceat(stays[order].astype(np.int64), starts) if len(starts) else NO_ROWS
    within = np.arange(len(order)) - np.repeat(starts, sizes)
    settled = np.empty(len(order), dtype=bool)
    settled[order] = within < np.repeat(staying, sizes)
    return settled


def _numbers(ids: Any) -> np.ndarray:
    """Give each row its person's number: an id that is one, or that of its bytes among those that are here."""
    if pa.types.is_integer(ids.type):
        return ids.to_numpy(zero_copy_only=False)
    return ids.dictionary_encode().indices.to_numpy(zero_copy_only=False)


def _is_new(values: np.ndarray) -> np.ndarray:
    """Mark values that differ from the one before."""
    new = np.ones(len(values), dtype=bool)
    new[1:] = values[1:] != values[:-1]
    return new


def _sort_unlike(run: np.ndarray, places: np.ndarray) -> np.ndarray | None:
    """Sort rows by run, then place; None if two of a run may have the same place.

    Both in one word: it is much faster to sort by one.
    """
    bits = int(run[-1]).bit_length()
    keys = places >> np.uint64(bits) | (run.astype(np.uint64) << np.uint64(64 - bits) if bits else np.uint64(0))
    ranked = np.argsort(keys)
    return ranked if _is_new(keys[ranked]).all() else None
