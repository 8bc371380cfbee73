"""The tree of sums and the work lists of tasks, without Spark: how much a node, a task and the driver are given."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.core.domain import Domain, GroupKey, Numeric
from dpspark.exact.fixed_point import GramAccumulator, partial_bytes
from dpspark.source.parquet import ParquetPart, ParquetSource, open_parquet
from dpspark.spark.group_gram import GroupedGramAccumulator
from dpspark.spark.groups import GroupList, _packer, _unpack_rows
from dpspark.spark.tree import LEAST_FAN_IN, MOST_FAN_IN, NODE_BYTES, _merger, fan_in_for, keys_of_parts, payload_batch
from dpspark.spark.work_lists import work_lists


def test_a_node_is_given_what_fits_its_memory() -> None:
    """Kills: one fan-in for all sizes. 500 columns over 10,000 partitions stay below 100 MB a node, in three levels at most."""
    size = partial_bytes(501)
    assert size == len(GramAccumulator(Domain(tuple(Numeric(f"x{i}", 0, 1) for i in range(500)))).finish())
    fan_in = fan_in_for(size)
    assert 16 <= fan_in <= NODE_BYTES // size
    assert fan_in**3 >= 10_000
    assert fan_in_for(16) == fan_in_for(1) == MOST_FAN_IN
    assert fan_in_for(1 << 40) == LEAST_FAN_IN


def test_payloads_are_merged_as_they_come() -> None:
    """Kills: a merge that waits until all batches are there."""
    pulled = 0

    def batches() -> Iterator[Any]:
        nonlocal pulled
        for number in range(50):
            pulled += 1
            yield payload_batch(bytes([number]))

    def merge(payloads: Iterator[bytes]) -> bytes:
        total = 0
        for seen, payload in enumerate(payloads, 1):
            assert pulled <= seen
            total += payload[0]
        return total.to_bytes(4, "little")

    (merged,) = _merger(merge)(batches())
    assert int.from_bytes(merged.column(0)[0].as_py(), "little") == sum(range(50))
    assert list(_merger(merge)(iter(()))) == []


def test_a_hash_that_spreads_parts_evenly() -> None:
    """Kills: two parts in one task on a Spark without repartitionById. The hashes of 0, 1 and 2 are Spark's own."""
    from dpspark.spark.tree import spark_hash

    assert spark_hash(np.arange(3, dtype=np.uint32)).tolist() == [933211791, -559580957, 1765031574]
    for parts in (1, 2, 7, 304):
        keys = np.array(keys_of_parts(parts), dtype=np.uint32)
        assert (spark_hash(keys) % parts).tolist() == list(range(parts))


@pytest.fixture
def part(tmp_path: Path) -> ParquetPart:
    pq.write_table(pa.table({"x": [0.5]}), tmp_path / "one.parquet")
    return open_parquet(str(tmp_path), [Numeric("x", 0, 1)]).parts[0]


def many(part: ParquetPart, files: int) -> ParquetSource:
    path = "/data/warehouse/people/year=2024/month=07/part-{:05d}-c000.snappy.parquet"
    return ParquetSource(tuple(replace(part, path=path.format(i)) for i in range(files)))


def test_many_small_files_are_many_tasks(part: ParquetPart) -> None:
    """Kills: tasks counted by bytes alone. Opening 20,000 files must not be the work of one task a core."""
    tasks = many(part, 20_000).tasks(cores=4)
    assert 40 <= len(tasks) <= 200
    assert len(tasks) % 4 == 0
    sizes = [sum(len(groups) for _, groups in task) for task in tasks]
    assert max(sizes) - min(sizes) <= 1
    assert sorted(part for task in tasks for part, _ in task) == list(range(20_000))


def test_every_row_group_is_in_one_task_and_a_large_one_has_it_for_itself(part: ParquetPart) -> None:
    """Kills: row groups dealt out by their number."""
    sizes = [(1 << 30, 1 << 30), *((1 << 20,) * 3 for _ in range(50))]
    tasks = ParquetSource(tuple(replace(part, row_group_bytes=size) for size in sizes)).tasks(cores=4)
    dealt = [(number, group) for task in tasks for number, groups in task for group in groups]
    assert sorted(dealt) == [(number, group) for number, size in enumerate(sizes) for group in range(len(size))]
    assert [(0, [0])] in tasks
    assert [(0, [1])] in tasks
    small = [sum(len(groups) for _, groups in task) for task in tasks if task[0][0]]
    assert len(small) == len(tasks) - 2
    assert max(small) - min(small) <= 10


def test_opening_a_file_is_work_too(part: ParquetPart) -> None:
    """Kills: one task that opens hundreds of small files while another reads one of middling size."""
    sizes = [200 << 20, *[1000] * 200]
    tasks = ParquetSource(tuple(replace(part, row_group_bytes=(size,)) for size in sizes)).tasks(cores=2)
    assert len(tasks) == 2
    assert min(map(len, tasks)) > 50


def test_work_lists_are_small_and_whole(part: ParquetPart) -> None:
    """Kills: every task sent the plain list of all files. 200,000 of them must stay a few megabytes."""
    source = many(part, 20_000)
    lists = work_lists(source, 4)
    assert sum(map(len, lists)) < 20 * 20_000
    unpack = [pickle.loads(zlib.decompress(one)) for one in lists]  # noqa: S301
    assert sorted(part.path for task in unpack for part, _ in task) == [part.path for part in source.parts]


def test_packs_of_rows_are_small_and_whole() -> None:
    """Kills: packs so large that 10,000 of them, an Arrow batch, pass 2 GB."""
    rng = np.random.default_rng(1)
    domain = Domain((Numeric("x", 0, 1), Numeric("y", 0, 1)), keys=(GroupKey("g"),))
    keys = rng.choice(["a", "b", "c"], 20_000)
    rows = [pa.array(rng.random(20_000)), pa.array(rng.random(20_000)), pa.array(keys)]
    batch = pa.record_batch(rows, names=["c0", "c1", "c2"])
    packs = list(_packer(domain, GroupList([("a",), ("b",), ("c",)]), 2)(iter([batch])))
    assert max(len(pack.column(1)[0].as_py()) for pack in packs) * 10_000 < 1 << 30
    found = {task: [] for task in (0, 1)}
    for pack in packs:
        found[pack.column(0)[0].as_py()].extend(_unpack_rows(pack))
    for task, names in ((0, ("a", "c")), (1, ("b",))):
        mine = np.isin(keys, names)
        code, x, y = (np.concatenate(part) for part in zip(*found[task], strict=True))
        assert sorted(zip(x, y, strict=True)) == sorted(
            zip(rows[0].to_numpy()[mine], rows[1].to_numpy()[mine], strict=True)
        )
        assert set(code.tolist()) == {"abc".index(name) for name in names}


def test_matrices_by_group_leave_a_task_in_bounded_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: one Arrow batch for all groups."""
    monkeypatch.setattr("dpspark.spark.group_gram.NODE_BYTES", 3 * partial_bytes(2))
    domain = Domain((Numeric("x", 0, 1),), keys=(GroupKey("g"),))
    names = [f"g{i}" for i in range(10)]
    total = GroupedGramAccumulator(domain, GroupList([(name,) for name in names]))
    total.add([pa.array(np.linspace(0, 1, 10)), pa.array(names)], 10)
    batches = list(total.finish())
    assert [batch.num_rows for batch in batches] == [3, 3, 3, 1]
    assert [code for batch in batches for code in batch.column(0).to_pylist()] == list(range(10))
