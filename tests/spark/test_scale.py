"""Many partitions, files and columns on a real Spark session: the same integers, in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from benchmarks.scale.generated import check_tree, synthetic_tree
from dpspark.core.domain import Domain, Numeric
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.ledger.ledger import Ledger
from dpspark.source.parquet import open_parquet
from dpspark.spark import frames, passes
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.frames import select_columns
from dpspark.spark.tree import limit_batches, payload_batch, send_to_parts, tree_reduce

DOMAIN = Domain((Numeric("x", 0, 1), Numeric("y", -1, 1)))
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


def in_memory(table: pa.Table) -> list[int]:
    total = GramAccumulator(DOMAIN)
    total.add([table["x"].to_numpy(), table["y"].to_numpy()], table.num_rows)
    return ExactGram.from_partials(DOMAIN, [total.finish()]).reveal()


def rows(count: int) -> pa.Table:
    rng = np.random.default_rng(count)
    return pa.table({"x": rng.random(count), "y": rng.uniform(-1.2, 1.2, count)})


@pytest.mark.spark35
def test_no_node_takes_more_than_its_share(spark: Any) -> None:
    """Kills: a level that sends two nodes' payloads to one. A payload is a sum, and the most that any node was given."""

    def one(batches: Any) -> Any:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield payload_batch(np.array([number, 1]).tobytes())

    def merge(payloads: Any) -> bytes:
        found = [np.frombuffer(payload, np.int64) for payload in payloads]
        return np.array([sum(f[0] for f in found), max(len(found), *(f[1] for f in found))]).tobytes()

    partials = spark.range(0, 45, 1, 45).mapInArrow(one, "payload binary")
    collected = tree_reduce(partials, 45, merge, fan_in=4)
    assert len(collected) == 3
    total, most = np.frombuffer(merge(iter(collected)), np.int64)
    assert (total, most) == (sum(range(45)), 4)


@pytest.mark.spark35
@pytest.mark.parametrize("by_id", [True, False])
def test_every_part_has_a_task_of_its_own(spark: Any, by_id: bool) -> None:
    """Kills: parts that share a task on Spark 3.5, where a hash deals them out."""
    frame = spark.range(0, 40, 1, 4).selectExpr("cast(id % 10 as int) as part", "id")

    class Old:
        selectExpr = frame.selectExpr  # what there is without repartitionById

    placed = send_to_parts(frame if by_id else Old(), 10).selectExpr("part", "spark_partition_id() as task").collect()
    tasks = {(row["part"], row["task"]) for row in placed}
    assert len(placed) == 40
    assert len(tasks) == len({task for _, task in tasks}) == 10


def test_synthetic_partials_through_a_deep_tree(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random numbers beyond 64 bits, checked in Python's integers: any lost, doubled or overflowing payload shows."""
    monkeypatch.setattr("dpspark.spark.tree.NODE_BYTES", 1)
    found = synthetic_tree(spark, 41, 37)
    assert len(found) == 3
    check_tree(41, 37, found)
    with pytest.raises(dpspark.DpsparkError, match="not the sum"):
        check_tree(41, 38, found)


def test_a_frame_of_very_many_partitions_gives_few_partials(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: a partial sum for each of an unknown number of partitions, sent to a few tasks."""
    seen: list[tuple[int, int]] = []
    real = passes.tree_reduce

    def see(partials: Any, count: int, *arguments: Any) -> Any:
        seen.append((partials.count(), count))
        return real(partials, count, *arguments)

    monkeypatch.setattr(passes, "tree_reduce", see)
    monkeypatch.setattr(frames, "MOST_PARTIALS", 8)
    table = rows(5000)
    pq.write_table(table, tmp_path / "all.parquet")
    frame = spark.read.parquet(str(tmp_path)).repartition(40)
    source = select_columns(spark, frame, DOMAIN.columns, None)
    assert exact_gram(spark, source, DOMAIN, fan_in=3).reveal() == in_memory(table)
    assert seen == [(8, 8)]


def test_smaller_batches_last_as_long_as_they_should(spark: Any) -> None:
    """Kills: a setting of the user's session left changed, or a larger batch than the user allows."""
    before = spark.conf.get(ARROW_ROWS)
    try:
        for theirs, ours in (("10000", "7"), ("5", "5"), ("-1", "7")):
            spark.conf.set(ARROW_ROWS, theirs)
            with suppress(KeyError), limit_batches(spark, 7):
                assert spark.conf.get(ARROW_ROWS) == ours
                raise KeyError
            assert spark.conf.get(ARROW_ROWS) == theirs
    finally:
        spark.conf.set(ARROW_ROWS, before)


def release_conf(tmp_path: Path) -> dict[str, Any]:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger(url).grant("many", epsilon=10.0, delta=1e-3)
    return {
        "source": {"parquet": str(tmp_path / "data")},
        "columns": {"x": {"lower": 0, "upper": 1}, "y": {"lower": -1, "upper": 1}},
        "privacy": {"epsilon": 1.0, "delta": 1e-9},
        "release": {"name": "many", "version": "1"},
        "ledger": {"url": url, "dataset": "many"},
        "output": {"path": str(tmp_path / "releases")},
    }


def small_files(folder: Path, table: pa.Table, files: int) -> None:
    folder.mkdir()
    each = table.num_rows // files
    for number in range(files):
        pq.write_table(table.slice(number * each, each), folder / f"{number}.parquet")


@pytest.mark.parametrize("files", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_release_of_many_small_files(spark: Any, tmp_path: Path, files: int) -> None:
    """Kills: a file left out or read twice; the matrix of all files is that of all rows."""
    table = rows(5 * files)
    small_files(tmp_path / "data", table, files)
    source = open_parquet(str(tmp_path / "data"), DOMAIN.columns)
    assert exact_gram(spark, source, DOMAIN).reveal() == in_memory(table)
    rel = dpspark.release(dpspark.load_spec(release_conf(tmp_path)), spark=spark)
    assert rel.second_moment().loc["(intercept)", "(intercept)"] == pytest.approx(5 * files, abs=200)


WIDE = """
import json, sys
from pathlib import Path
import dpspark
from benchmarks.gram_rivals import bench_columns
from benchmarks.scale.measure import Meter
from benchmarks.scale.studies import write_rows
from dpspark.core.domain import Domain
from dpspark.spark.session import spark_session

conf, columns, rows = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
domain = Domain(bench_columns(columns))
conf["columns"] = {c.name: {"lower": c.lower, "upper": c.upper} for c in domain.numeric}
Path(conf["source"]["parquet"]).mkdir()
for number in range(8):
    write_rows(Path(conf["source"]["parquet"], f"{number}.parquet"), domain, rows // 8, number)
with spark_session("wide", {"spark.master": "local[2,4]", "spark.driver.memory": "1g"}) as spark:
    meter = Meter(spark, 1e-9)
    rel = meter.measure("release", rows, lambda: dpspark.release(dpspark.load_spec(conf), spark=spark))
    meter.measure("regress", columns, lambda: rel.regress("y ~ .", repair="ridge"))
print(json.dumps(meter.points))
"""


# A heap of 1 GB, as much again outside of it, which is Java's own limit for buffers, and what Java needs for itself.
JAVA_BYTES = 2.5e9


def measured(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A class archive, if there is one, is mapped into Java's memory, and does not grow with the data."""
    environment = {**os.environ, "DPSPARK_CLASS_ARCHIVE": "off"}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, env=environment
    )


@pytest.mark.slow
def test_a_release_of_500_columns_in_bounded_memory(tmp_path: Path) -> None:
    """200,000 rows, 0.8 GB, in a process of its own with a Java heap of 1 GB: no process comes near the size of the data."""
    done = measured(WIDE, json.dumps(release_conf(tmp_path)), "500", "200000")
    for point in json.loads(done.stdout.splitlines()[-1]):
        assert point["driver_peak_bytes"] < 1.0e9
        assert point["worker_peak_bytes"] < 1.0e9
        assert point["jvm_peak_bytes"] < JAVA_BYTES


TREE = """
import json
from benchmarks.scale.generated import check_tree, synthetic_tree
from benchmarks.scale.measure import Meter
from dpspark.spark.session import spark_session

with spark_session("tree", {"spark.master": "local[2,4]", "spark.driver.memory": "1g"}) as spark:
    meter = Meter(spark, 1e-9)
    found = meter.measure("tree", 10_000, synthetic_tree, spark, 501, 10_000)
check_tree(501, 10_000, found)
print(json.dumps(meter.points))
"""


@pytest.mark.slow
def test_the_tree_of_10_000_partial_sums_of_500_columns_in_bounded_memory() -> None:
    """20 GB of payloads; no process may hold more than a few hundred megabytes of them."""
    done = measured(TREE)
    (point,) = json.loads(done.stdout.splitlines()[-1])
    assert point["driver_peak_bytes"] < 0.6e9
    assert point["worker_peak_bytes"] < 0.6e9
    assert point["jvm_peak_bytes"] < JAVA_BYTES
