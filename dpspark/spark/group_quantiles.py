"""Quantiles of each public group: rows are shuffled to their group, and a kernel draws on the executors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import Domain
from dpspark.exact.bounds import plain_values
from dpspark.mechanisms.quantiles.group_kernel import GroupQuantiles
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.failures import UNREADABLE, explain_failure
from dpspark.spark.groups import LABEL, TASKS_PER_CORE, GroupList, enlarge_batches
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.row_source import RowSource, TaskFunction

FOUND = pa.schema([("code", pa.int64()), ("estimate", pa.list_(pa.float64()))])


def draw_group_quantiles(
    spark: Any, source: RowSource, domain: Domain, groups: GroupList, kernel: GroupQuantiles, random: KeyedRandom
) -> dict[int, list[float]]:
    """Draw the quantiles of every group that has rows, by its number."""
    names = [f"v{i}" for i in range(len(domain.columns))]
    rows = source.map_in_arrow(
        spark, _row_reader(domain, groups, names), ", ".join(["code bigint", *(f"{n} double" for n in names)])
    )
    tasks = TASKS_PER_CORE * default_parallelism(spark)
    drawn = rows.repartition(tasks, "code").mapInArrow(
        _drawer(domain, kernel, random), "code bigint, estimate array<double>"
    )
    try:
        collected = drawn.collect()
    except Exception as error:
        failed = explain_failure(error)
    else:
        return {row["code"]: list(row["estimate"]) for row in collected}
    raise failed


def _row_reader(domain: Domain, groups: GroupList, names: list[str]) -> TaskFunction:
    """Make a function that yields each row's group and values; nulls stay. Rows of no listed group are left out."""

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        plain = len(domain.columns)
        for batch in enlarge_batches(batches):
            try:
                values = [plain_values(column, batch.column(i)) for i, column in enumerate(domain.columns)]
                codes = groups.codes([batch.column(plain + i) for i in range(len(domain.keys))])
            except Exception as error:
                raise RuntimeError(f"{UNREADABLE}<a batch of rows|{type(error).__name__}>") from None
            keep = codes >= 0
            yield pa.record_batch([pa.array(codes[keep]), *(pa.array(v[keep]) for v in values)], names=["code", *names])

    return read


def _drawer(domain: Domain, kernel: GroupQuantiles, random: KeyedRandom) -> TaskFunction:
    def draw(batches: Iterator[Any]) -> Iterator[Any]:
        width = 1 + len(domain.columns)
        parts = [[batch.column(i).to_numpy(zero_copy_only=False) for i in range(width)] for batch in batches]
        if not any(len(codes) for codes, *_ in parts):
            return
        codes, *values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.argsort(codes, kind="stable")
        codes, values = codes[order], [v[order] for v in values]
        starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
        found = []
        for first, last in zip(starts, [*starts[1:], len(codes)], strict=True):
            columns = {c.name: v[first:last] for c, v in zip(domain.columns, values, strict=True)}
            found.append((int(codes[first]), kernel.fit(columns, random, LABEL, int(codes[first]))))
        yield pa.record_batch([[code for code, _ in found], [line for _, line in found]], schema=FOUND)

    return draw
