"""A tree of Spark tasks that adds up partial sums, with DataFrames alone.

A node gets its payloads as one Arrow batch: the larger they are, the fewer it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.spark.settings import hold_settings

NODE_BYTES = 64 << 20  # of payloads at one node: Spark and Python hold them two or three times over
LEAST_FAN_IN = 4  # a tree of larger payloads would be too deep
MOST_FAN_IN = 1024
MOST_PARTIALS = 1024  # of a frame, whose number of partitions is not known
PAYLOAD = pa.schema([("payload", pa.binary())])

Merge = Callable[[Iterator[bytes]], bytes]


def fan_in_for(payload_bytes: int) -> int:
    """Choose how many payloads of this size a node takes."""
    return min(MOST_FAN_IN, max(LEAST_FAN_IN, NODE_BYTES // max(1, payload_bytes)))


def tree_reduce(partials: Any, count: int, merge: Merge, fan_in: int) -> list[bytes]:
    """Merge payloads in a tree of tasks, until at most `fan_in` are left; their merge is the merge of all.

    `partials` has one column, payload (binary), one row a partition, and at most `count` partitions. The merge must not
    depend on order.
    """
    while count > fan_in:
        count = -(-count // fan_in)
        partials = _regroup(partials, count, f"spark_partition_id() div {fan_in}", merge)
    return [bytes(row["payload"]) for row in partials.collect()]


def _regroup(partials: Any, groups: int, group: str, merge: Merge) -> Any:
    grouped = send_to_parts(partials.selectExpr(f"cast({group} as int) as part", "payload"), groups)
    return grouped.mapInArrow(_merger(merge), "payload binary")


def _merger(merge: Merge) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def merge_partition(batches: Iterator[Any]) -> Iterator[Any]:
        payloads = (value.as_py() for batch in batches for value in batch.column("payload"))
        for first in payloads:  # a node without payloads has nothing to pass on
            yield payload_batch(merge(chain([first], payloads)))

    return merge_partition


def send_to_parts(frame: Any, parts: int) -> Any:
    """Send each row to the task of its number `part`."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(parts, frame["part"])
    # Before Spark 4 a hash decides: give it, for each part, a number that it sends there.
    keys = ", ".join(map(str, keys_of_parts(parts)))
    return frame.selectExpr("*", f"element_at(array({keys}), part + 1) as at").repartition(parts, "at").drop("at")


def keys_of_parts(parts: int) -> list[int]:
    """Find, for each part, the least number that Spark's hash, modulo the parts, sends there."""
    tried = 64
    while True:
        tried *= 2
        found, first = np.unique(spark_hash(np.arange(tried, dtype=np.uint32)) % parts, return_index=True)
        if len(found) == parts:
            return first.tolist()


def spark_hash(values: np.ndarray) -> np.ndarray:
    """Hash an int column as Spark does: Murmur3 of one 32-bit word, from 42."""
    mixed = _rotate(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = _rotate(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64) ^ np.uint32(4)
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (h ^ h >> np.uint32(16)).astype(np.int32)


def _rotate(word: np.ndarray, bits: int) -> np.ndarray:
    return word << np.uint32(bits) | word >> np.uint32(32 - bits)


@contextmanager
def limit_batches(spark: Any, most: int) -> Iterator[None]:
    """Let Spark send at most so many rows to Python in each Arrow batch, until the end of the block."""
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    limit = int(before) if int(before) > 0 else most  # zero or less: no limit
    with hold_settings(spark, {key: str(max(1, min(most, limit)))}):
        yield


def payload_batch(payload: bytes) -> Any:
    return pa.record_batch([pa.array([payload], type=pa.binary())], schema=PAYLOAD)
