"""What tasks do so that the scores of one cluster's rows are added up, wherever they are read. Runs on executors.

A task adds up the scores of its own rows by cluster and sends the sums to where clusters meet, in packs. Keys are compared as
they are, as text, never by a hash alone: a hash only says where a key meets. A row without a key is a cluster of its own.

Memory: a task that reads holds a batch and HELD_BYTES of sums, however many clusters there are; what does not fit is sent and
begun anew. A task where clusters meet holds the sums of its own clusters once, and the packs that it has not added yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.exact.scores import BLOCK_CLUSTERS, RowScores, Scores, sum_by_code
from dpspark.spark.failures import task_error
from dpspark.spark.groups import enlarge_batches
from dpspark.spark.meeting import make_binary
from dpspark.spark.row_order import hash_texts
from dpspark.spark.row_source import TaskFunction
from dpspark.spark.tree import payload_batch

LEAST_ROWS = 1 << 16  # of a batch: smaller ones are put together
HELD_BYTES = 64 << 20  # of sums that a task adds to before it sends them
PACK_BYTES = 100_000  # an Arrow batch has up to 10,000 packs, and can have 2 GB
PACKS = pa.schema([("part", pa.int32()), ("payload", pa.binary())])
MEETING = np.arange(1, 65, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # where a key meets: it decides nothing
HALF = np.uint64(32)


@dataclass(frozen=True)
class ClusterSums:
    """Sums of scores, one column each, and the keys of their clusters as bytes; null: one row without a key."""

    keys: Any
    sums: np.ndarray

    @classmethod
    def join(cls, several: Sequence[ClusterSums]) -> ClusterSums:
        """Add up the sums of each key."""
        keys = pa.concat_arrays([one.keys for one in several])
        return cls.by_key(keys, np.concatenate([one.sums for one in several], axis=1))

    @classmethod
    def by_key(cls, keys: Any, values: np.ndarray) -> ClusterSums:
        """Add up columns of whole numbers by their keys, of any type that has a text of its own for each value."""
        plain = keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys
        encoded = plain.dictionary_encode()
        known = pc.is_valid(encoded).to_numpy(zero_copy_only=False)
        codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False)[known]
        found, sums = sum_by_code(values[:, known], codes)
        texts = encoded.dictionary.take(pa.array(found))
        if not pa.types.is_large_binary(texts.type):
            texts = texts.cast(pa.string()).cast(pa.large_binary())
        alone = values[:, ~known].astype(np.int64)
        return cls(
            pa.concat_arrays([texts, pa.nulls(alone.shape[1], pa.large_binary())]),
            np.concatenate([sums, alone], axis=1),
        )

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, order: np.ndarray) -> ClusterSums:
        return ClusterSums(self.keys.take(pa.array(order)), self.sums[:, order])


def send_scores(scores: Scores, at: int, parts: int) -> TaskFunction:
    """Make a function that sends the sums of its rows' scores to where clusters meet. The key is in column `at`."""

    def send(batches: Iterator[Any]) -> Iterator[Any]:
        held = _Held(scores.width)
        for batch in enlarge_batches(batches, LEAST_ROWS):
            try:
                full = held.add(_score_batch(scores, at, batch))
                packs = None if full is None else _pack_by_part(full, parts)
            except Exception as error:
                raise task_error("a batch of rows", error) from None
            if packs is not None:
                yield packs
        yield _pack_by_part(held.finish(), parts)

    return send


def _score_batch(scores: Scores, at: int, batch: Any) -> ClusterSums:
    rows = RowScores(scores)
    rows.add([batch.column(i) for i in range(len(scores.domain.columns))], batch.num_rows)
    values, kept = rows.take()
    keys = batch.column(at)
    if kept.all():
        return ClusterSums.by_key(keys, values)
    return ClusterSums.by_key(keys.filter(pa.array(kept)), values[:, kept])


class _Held:
    """Sums that wait for more of the same clusters, as long as there is room for them."""

    def __init__(self, width: int, most: int = HELD_BYTES):
        self._most, self._width = max(1, most // (8 * width)), width
        self._held: list[ClusterSums] = []
        self._count = 0

    def add(self, more: ClusterSums) -> ClusterSums | None:
        """Take more; return all there are, to be sent, where they are too many to keep."""
        self._held.append(more)
        self._count += len(more)
        if self._count <= self._most:
            return None
        joined = ClusterSums.join(self._held)
        self._held, self._count = [joined], len(joined)
        return self.finish() if 2 * len(joined) > self._most else None

    def finish(self) -> ClusterSums:
        empty = ClusterSums(pa.nulls(0, pa.large_binary()), np.zeros((self._width, 0), dtype=np.int64))
        found = ClusterSums.join([empty, *self._held])
        self._held, self._count = [], 0
        return found


def _pack_by_part(sent: ClusterSums, parts: int) -> Any:
    """Make one batch of packs, each for the task where its clusters meet."""
    known = pc.is_valid(sent.keys).to_numpy(zero_copy_only=False)
    hashed = hash_texts(MEETING, pc.fill_null(sent.keys, b""))
    part = ((hashed >> HALF) * np.uint64(parts) >> HALF).astype(np.int64)
    part[~known] = np.arange(np.count_nonzero(~known)) % parts  # they meet nobody
    order = np.argsort(part, kind="stable")
    sent, part = sent.take(order), part[order]
    size = _clusters_in_pack(len(sent.sums))
    found, packs = [], []
    for number in np.unique(part).tolist():
        first, end = np.searchsorted(part, [number, number + 1]).tolist()
        for start in range(first, end, size):
            found.append(number)
            packs.append(pack_sums(sent.take(np.arange(start, min(start + size, end)))))
    return pa.record_batch([pa.array(found, pa.int32()), pa.array(packs, pa.binary())], schema=PACKS)


def _clusters_in_pack(width: int) -> int:
    return max(1, min(BLOCK_CLUSTERS, PACK_BYTES // (8 * width)))


def pack_sums(sent: ClusterSums) -> bytes:
    """Write clusters: their number, how long each key is (−1: none), the sums, and the keys' bytes."""
    keys = pc.fill_null(sent.keys, b"")
    lengths = np.where(
        pc.is_valid(sent.keys).to_numpy(zero_copy_only=False),
        pc.binary_length(keys).to_numpy(zero_copy_only=False),
        -1,
    )
    texts = b"".join(keys.to_pylist())
    head = np.array([len(sent)], dtype="<i8")
    return b"".join([head.tobytes(), lengths.astype("<i8").tobytes(), sent.sums.astype("<i8").tobytes(), texts])


def unpack_sums(payload: Any, width: int) -> ClusterSums:
    """Read a pack (Arrow's buffer)."""
    count = int(np.frombuffer(payload, "<i8", 1)[0])
    lengths = np.frombuffer(payload, "<i8", count, 8)
    sums = np.frombuffer(payload, "<i8", count * width, 8 * (1 + count)).reshape(width, count)
    data = bytes(memoryview(payload)[8 * (1 + count + count * width) :])
    keys = make_binary(np.maximum(lengths, 0), data, pa.large_binary())
    return ClusterSums(pc.if_else(pa.array(lengths >= 0), keys, pa.scalar(None, pa.large_binary())), sums)


def meet_clusters(scores: Scores) -> TaskFunction:
    """Make a function that adds up the sums of the clusters that meet in its task, and hands these on without their keys."""

    def add_up(batches: Iterator[Any]) -> Iterator[Any]:
        met, waiting, count = _Held(scores.width).finish(), [], 0
        try:
            for batch in batches:
                for value in batch.column("payload"):
                    waiting.append(unpack_sums(value.as_buffer(), scores.width))
                    count += len(waiting[-1])
                    # Joined when they are as many as those that have met: each is copied a few times at most.
                    if count > max(len(met), LEAST_ROWS):
                        met, waiting, count = ClusterSums.join([met, *waiting]), [], 0
            met = ClusterSums.join([met, *waiting])
        except Exception as error:
            raise task_error("scores of clusters", error) from None
        size = _clusters_in_pack(scores.width)
        for start in range(0, len(met), size):
            yield payload_batch(met.sums[:, start : start + size].astype("<i8").tobytes())

    return add_up


def accumulate_clusters(width: int, start: Any) -> TaskFunction:
    """Make a function that shows the clusters of its task to an accumulator, and hands on what that found."""

    def add_up(batches: Iterator[Any]) -> Iterator[Any]:
        total = start()
        for batch in batches:
            for value in batch.column("payload"):
                total.add(np.frombuffer(value.as_buffer(), "<i8").reshape(width, -1))
        yield payload_batch(total.finish())

    return add_up
