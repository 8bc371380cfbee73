"""Add up partial sums in a tree of Spark tasks, with DataFrames alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

FAN_IN = 32
PAYLOAD = pa.schema([("payload", pa.binary())])

Merge = Callable[[Iterator[bytes]], bytes]


def tree_reduce(partials: Any, count: int | None, nodes: int, merge: Merge, fan_in: int = FAN_IN) -> list[bytes]:
    """At most `fan_in` payloads (or `nodes`, if their `count` is not known), whose merge is the merge of all.

    `partials` has one column, payload (binary), one row a partition. The merge must not depend on order.
    """
    if count is None:
        partials = _regroup(partials, nodes, f"spark_partition_id() % {nodes}", merge)
    else:
        while count > fan_in:
            count = -(-count // fan_in)
            partials = _regroup(partials, count, f"spark_partition_id() div {fan_in}", merge)
    return [bytes(row["payload"]) for row in partials.collect()]


def _regroup(partials: Any, groups: int, group: str, merge: Merge) -> Any:
    grouped = by_part(partials.selectExpr(f"cast({group} as int) as part", "payload"), groups)

    def merge_partition(batches: Iterator[Any]) -> Iterator[Any]:
        yield payload_batch(merge(value.as_py() for batch in batches for value in batch.column("payload")))

    return grouped.mapInArrow(merge_partition, "payload binary")


def by_part(frame: Any, parts: int) -> Any:
    """Rows to the task of their number `part`.

    Without repartitionById (before Spark 4) two parts may share a task: work for one that must not mind it, only less even.
    """
    by_id = hasattr(frame, "repartitionById")
    return frame.repartitionById(parts, frame["part"]) if by_id else frame.repartition(parts, "part")


def payload_batch(payload: bytes) -> Any:
    return pa.record_batch([pa.array([payload], type=pa.binary())], schema=PAYLOAD)
