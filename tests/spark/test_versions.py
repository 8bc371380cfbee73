"""What depends on the version of Spark, against plain numpy: so Spark 3.5 and 4 give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpspark.core.domain import Domain, GroupKey, Numeric
from dpspark.exact.histogram import Axis, ExactHistogram, encode_counts
from dpspark.privacy.keyed import KeyedRandom
from dpspark.spark.buckets import LABEL as BUCKET
from dpspark.spark.buckets import _count_pairs, _draw_line, bucket_of, fit_in_buckets, rank_among_equals
from dpspark.spark.frames import select_columns
from dpspark.spark.groups import LABEL, GroupList, fit_all_groups
from dpspark.spark.tree import payload_batch, send_to_parts, tree_reduce
from dpspark.spec.choose import choose_lines
from dpspark.spec.spec import load_spec

pytestmark = pytest.mark.spark35

PARTS = 8
SECRET = b"v" * 32
DOMAIN = Domain((Numeric("x", 0, 1), Numeric("y", 0, 1)))


def frame_of(spark: Any, table: pa.Table) -> Any:
    return spark.createDataFrame(table.to_pandas()).repartition(5)


def points(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Coarse values, so that many rows are equal."""
    rng = np.random.default_rng(11)
    x = rng.integers(0, 50, rows) / 50
    return x, np.clip(np.round(0.3 + 0.4 * x + rng.normal(0, 0.1, rows), 2), 0, 1)


def kernel_of(conf: dict[str, Any], **release: Any) -> Any:
    made = {
        **conf,
        "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 1}},
        "privacy": {"epsilon": 4.0},
        "release": {"name": "lines", "version": "1", "kind": "theil_sen", "x": "x", "y": "y", **release},
        "mechanism": {"name": "exponential"},
    }
    return choose_lines(load_spec(made))


def test_every_part_has_a_task_of_its_own(spark: Any) -> None:
    """On Spark 3.5 too, which has no repartitionById. Kills: tasks that are empty, and one that does the work of all."""
    rows = spark.range(PARTS).selectExpr("cast(id as int) as part")
    where = send_to_parts(rows, PARTS).selectExpr("part", "spark_partition_id() as task").collect()
    assert sorted(row["part"] for row in where) == list(range(PARTS))
    assert all(row["part"] == row["task"] for row in where)


def test_a_tree_of_numbers(spark: Any) -> None:
    """Kills: a node that is lost, or counted twice."""

    def numbers(batches: Any) -> Any:
        for batch in batches:
            for value in batch.column(0).to_pylist():
                yield payload_batch((7**value).to_bytes(9, "big"))

    def merge(payloads: Any) -> bytes:
        return sum(int.from_bytes(payload, "big") for payload in payloads).to_bytes(9, "big")

    partials = spark.range(0, 20, 1, 20).mapInArrow(numbers, "payload binary")
    expected = sum(7**value for value in range(20))
    for count in (20, 40):  # known, or only bounded
        payloads = tree_reduce(partials, count, merge, 2)
        assert sum(int.from_bytes(payload, "big") for payload in payloads) == expected


def test_lines_of_groups(spark: Any, conf: dict[str, Any]) -> None:
    """Kills: groups that are fitted together, or draws that depend on the task. Each line as numpy alone draws it."""
    names = [f"g{number}" for number in range(30)]
    mechanism = kernel_of(conf, group_by=["g"], groups=names, expected_rows=60)
    x, y = points(2000)
    code = np.random.default_rng(2).integers(0, len(names), len(x))
    table = pa.table({"x": x, "y": y, "g": [names[c] for c in code]})
    domain = Domain(DOMAIN.columns, keys=(GroupKey("g"),))
    source = select_columns(spark, frame_of(spark, table), domain.read_columns, None)
    groups = GroupList([(name,) for name in names])
    kernel, random = mechanism.kernel, KeyedRandom(SECRET)
    found = fit_all_groups(spark, source, domain, groups, mechanism.plane.wanted, kernel, random)
    for number in range(len(names)):
        here = code == number
        alone = kernel.fit(x[here], y[here], random, LABEL, number)
        assert found[number].estimate == alone.estimate


def test_buckets(spark: Any, conf: dict[str, Any]) -> None:
    """Kills: buckets that are paired together where they meet in a task. The line as numpy alone draws it."""
    mechanism = kernel_of(conf, expected_rows=6000)
    kernel, random, buckets = mechanism.kernel, KeyedRandom(SECRET), 7
    x, y = points(6000)
    source = select_columns(spark, frame_of(spark, pa.table({"x": x, "y": y})), DOMAIN.read_columns, None)
    found = fit_in_buckets(spark, source, DOMAIN, buckets, kernel, random)
    axes = [Axis(str(i), 0.0, 1.0, kernel.cells + 1) for i in range(len(kernel.plane.anchors))]
    totals = [np.zeros(axis.cells, dtype=np.int64) for axis in axes]
    x, y, ranks = rank_among_equals(x, y)
    bucket = bucket_of(random.stream("buckets").bytes(16), x, y, buckets, ranks)
    for number in range(buckets):
        _count_pairs(kernel, random, number, x[bucket == number], y[bucket == number], totals)
    histogram = ExactHistogram.from_partials(axes, [b"".join(map(encode_counts, totals))])
    assert found.estimate == _draw_line(kernel, histogram, axes, random).estimate
    assert BUCKET != LABEL  # the two kinds of draws have streams of their own
