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

    `partials` has the columns part (long) and payload (binary). The merge must not depend on order.
    """
    if count is None:
        partials = _regroup(partials, nodes, f"part % {nodes}", merge)
    else:
        while count > fan_in:
            groups = -(-count // fan_in)
            partials = _regroup(partials, groups, f"part div {fan_in}", merge)
            count = groups
    return [bytes(row["payload"]) for row in partials.select("payload").collect()]


def _regroup(partials: Any, groups: int, key: str, merge: Merge) -> Any:
    key = f"cast({key} as int)"
    by_id = getattr(partials, "repartitionById", None)
    keyed = partials.selectExpr(f"{key} as part", "payload")
    # Without repartitionById (before Spark 4) two groups may share a node: still one sum each, only less even.
    grouped = keyed.repartitionById(groups, keyed["part"]) if by_id else keyed.repartition(groups, "part")

    def merge_partition(batches: Iterator[Any]) -> Iterator[Any]:
        payloads = (value.as_py() for batch in batches for value in batch.column("payload"))
        yield payload_batch(merge(payloads))

    merged = grouped.mapInArrow(merge_partition, "payload binary")
    return merged.selectExpr("cast(spark_partition_id() as long) as part", "payload")


def payload_batch(payload: bytes) -> Any:
    return pa.record_batch([pa.array([payload], type=pa.binary())], schema=PAYLOAD)
