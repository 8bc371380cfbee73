"""Scores of clusters on Spark: the same whole numbers as in memory, however the rows are laid out and read."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.core.domain import Categorical, ClusterKey, Domain, Numeric
from dpspark.core.scores import ScoreAxes
from dpspark.exact.residuals import Residual
from dpspark.exact.scores import EDGES, Scores, SummedClusters, sum_scores
from dpspark.source.parquet import open_parquet
from dpspark.source.reading import Reading
from dpspark.spark import cluster_tasks
from dpspark.spark.cluster_tasks import ClusterSums, _Held, meet_clusters, pack_sums, send_scores, unpack_sums
from dpspark.spark.clusters import clustered
from dpspark.spark.direct import DirectSource
from dpspark.spark.frames import select_columns

COLUMNS = (Numeric("x", -1, 1), Categorical("s", ("a", "b", "c"), first_is_base=True), Numeric("y", -2, 2))
DOMAIN = Domain(COLUMNS, response="y")
SCORES = Scores(
    DOMAIN,
    (Residual.of(DOMAIN, np.array([0.1, -0.3, 0.2, 0.05])), Residual.of(DOMAIN, np.array([0.1, 0.5]), 4, (0, 1))),
    (0.4, 0.7),
    (
        ScoreAxes(DOMAIN.regressors, (0, 100, 300, 200)),
        ScoreAxes(replace(DOMAIN, columns=COLUMNS[:1], response=None), (0, -50)),
    ),
)
SCALES = ((1 << 20, 1 << 19, 3 << 18, 1 << 18), (1 << 20, 1 << 20))
RADII = (int(EDGES[42]), int(EDGES[36]))


def make_rows(rows: int = 3000, seed: int = 1) -> pa.Table:
    """Rows of some 400 clusters of unequal sizes, one of half of the rows; nulls, NaNs and unknown categories; no keys."""
    rng = np.random.default_rng(seed)
    number = np.where(rng.random(rows) < 0.5, 7, (rng.random(rows) ** 2 * 400).astype(int))
    x = np.where(rng.random(rows) < 0.05, np.nan, rng.uniform(-1.5, 1.5, rows))
    return pa.table(
        {
            "x": x,
            "s": rng.choice(["a", "b", "c", "?"], rows, p=[0.4, 0.3, 0.25, 0.05]),
            "y": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.05),
            "number": pa.array(number, pa.int64(), mask=rng.random(rows) < 0.02),
            "text": pa.array([None if n % 50 == 3 else f"k{n}\u00e9" for n in number.tolist()]),
            "day": pa.array(number.astype(np.int32), pa.int32()).cast(pa.date32()),
        }
    )


def in_memory(table: pa.Table, key: str) -> list[Any]:
    """The same by a dictionary of keys, without tasks."""
    texts = table[key].to_pylist()
    codes = {text: code for code, text in enumerate(dict.fromkeys(texts)) if text is not None}
    columns = [table[column.name].combine_chunks() for column in COLUMNS]
    sums = sum_scores(SCORES, columns, np.array([codes.get(text, -1) for text in texts]))
    return passes(SummedClusters(SCORES, sums))


def passes(clusters: Any) -> list[Any]:
    """All that is made of clusters' sums."""
    totals, norms, grams = clusters.totals(), clusters.norms(SCALES), clusters.grams(SCALES, RADII)
    both = [(totals.reveal(at), norms.reveal_excess(at), grams.reveal(at)) for at in (0, 1)]
    return [totals.reveal_count(), *both]


def on_spark(spark: Any, source: Any) -> list[Any]:
    with clustered(spark, source, SCORES, at=3) as found:
        return passes(found)


@pytest.mark.spark35
@pytest.mark.parametrize("key", ["number", "text", "day"])
def test_files_and_frames_have_the_sums_of_memory(spark: Any, tmp_path: Path, key: str) -> None:
    """Kills: a cluster that is cut by a task, keys that are merged, rows without a key in one cluster, dropped rows counted."""
    table = make_rows()
    for i, start in enumerate(range(0, len(table), 1100)):
        pq.write_table(table.slice(start, 1100), tmp_path / f"{i}.parquet", row_group_size=400)
    columns = (*COLUMNS, ClusterKey(key))
    files = open_parquet(str(tmp_path), columns)
    kinds = {"number": "bigint", "text": "string", "day": "date"}
    expected = in_memory(table, key)
    assert on_spark(spark, DirectSource(files, Reading(columns, kinds))) == expected
    frame = select_columns(spark, spark.read.parquet(str(tmp_path)).repartition(3), columns, None)
    assert on_spark(spark, frame) == expected


def run_tasks(tables: list[pa.Table], parts: int = 3) -> Counter[bytes]:
    """All clusters' sums, by the functions of the tasks, without Spark."""
    packs = [
        batch
        for table in tables
        for batch in send_scores(SCORES, 3, parts)(iter(table.combine_chunks().to_batches(max_chunksize=500)))
    ]
    found: Counter[bytes] = Counter()
    for part in range(parts):
        mine = [batch.filter(pa.array(np.array(batch.column(0)) == part)) for batch in packs]
        for batch in meet_clusters(SCORES)(iter(mine)):
            for value in batch.column("payload"):
                sums = np.frombuffer(value.as_buffer(), "<i8").reshape(SCORES.width, -1)
                found.update(column.tobytes() for column in sums.T)
    return found


def test_tasks_that_hold_little_send_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: sums that are lost, or added twice, where a task has no room for all of its clusters."""
    table = make_rows().select(["x", "s", "y", "text"])
    whole = run_tasks([table], parts=1)
    monkeypatch.setattr(cluster_tasks, "LEAST_ROWS", 100)
    monkeypatch.setattr(cluster_tasks, "PACK_BYTES", 1000)
    monkeypatch.setattr(_Held.__init__, "__defaults__", (8 * SCORES.width * 60,))
    assert run_tasks([table.slice(at, 700) for at in range(0, 3000, 700)], parts=4) == whole
    assert sum(whole.values()) > 300


def test_packs_keep_keys_and_sums() -> None:
    """Kills: an empty key that is taken for none."""
    keys = pa.array([b"a", b"", None, "é".encode(), None], pa.large_binary())
    sums = np.arange(10).reshape(2, 5) - (1 << 40)
    found = unpack_sums(pa.py_buffer(pack_sums(ClusterSums(keys, sums))), 2)
    assert found.keys.to_pylist() == keys.to_pylist()
    assert (found.sums == sums).all()
    assert unpack_sums(pa.py_buffer(pack_sums(found.take(np.arange(0)))), 2).sums.shape == (2, 0)


def test_rows_without_a_key_are_clusters_of_their_own() -> None:
    keys = pa.array(["a", None, "a", None])
    found = ClusterSums.by_key(keys, np.array([[1.0, 2.0, 4.0, 8.0]]))
    assert found.keys.to_pylist() == [b"a", None, None]
    assert found.sums.tolist() == [[5, 2, 8]]
    again = ClusterSums.join([found, found])
    assert again.sums.tolist() == [[10, 2, 8, 2, 8]]
