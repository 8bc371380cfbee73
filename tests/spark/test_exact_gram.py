"""The same integers for any partitioning, reader, file order and tree, on a real Spark session."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.exact.fixed_point import ExactGram, GramAccumulator, merge_partials
from dpspark.exact.residuals import Residual
from dpspark.source.parquet import open_parquet
from dpspark.source.reading import Reading, read_rows
from dpspark.spark.exact_sums import (
    exact_gram,
    exact_residual_grams,
    exact_residual_histograms,
    exact_residual_sums,
)
from dpspark.spark.frames import select_columns
from dpspark.spark.tree import tree_reduce

pytestmark = pytest.mark.spark35

N = 30_000
DOMAIN = Domain(
    (
        Numeric("age", 18, 99),
        Numeric("income", 0, 3e5),
        Numeric("rate", -1, 1),
        Numeric("price", 0, 100),
        Numeric("flag", 0, 1),
        Categorical("sex", ("F", "M")),
        Categorical("race", (1, 2, 3)),
    )
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Every awkward value there is: nulls, NaN, infinities, outliers, unknown categories."""
    rng = np.random.default_rng(12)
    income = rng.lognormal(10, 1.5, N)
    income[::1001] = np.inf
    income[::1003] = -np.inf
    income[::997] = np.nan
    rate = rng.normal(0, 1, N).astype("float32")
    cents = rng.integers(0, 12_000, N)
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 120, N), mask=rng.random(N) < 0.01),
            "income": income,
            "rate": rate,
            "price": pa.array([decimal.Decimal(int(c)) / 100 for c in cents], pa.decimal128(10, 2)),
            "flag": rng.random(N) < 0.3,
            "sex": pa.array(rng.choice(["F", "M", "X", None], N, p=[0.48, 0.48, 0.02, 0.02])),
            "race": pa.array(rng.integers(1, 5, N), pa.int16()),
        }
    )


def in_memory(table: pa.Table, domain: Domain) -> list[int]:
    accumulator = GramAccumulator(domain)
    for batch in table.to_batches():
        accumulator.add([batch.column(column.name) for column in domain.columns], batch.num_rows)
    return ExactGram.from_partials(domain, [accumulator.finish()]).reveal()


@pytest.fixture(scope="module")
def expected(table: pa.Table) -> list[int]:
    """Kept honest by tests/exact/test_fixed_point.py, which compares with Python integers."""
    return in_memory(table, DOMAIN)


@pytest.fixture(scope="module")
def parquet(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exact") / "all.parquet"
    pq.write_table(table, path, row_group_size=1700)
    return path


def through_spark(spark: Any, frame: Any, domain: Domain = DOMAIN, **options: Any) -> list[int]:
    return exact_gram(spark, select_columns(spark, frame, domain.columns, None), domain, **options).reveal()


def test_direct(spark: Any, parquet: Path, expected: list[int]) -> None:
    assert exact_gram(spark, open_parquet(str(parquet), DOMAIN.columns), DOMAIN).reveal() == expected


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_map_in_arrow_for_any_partitioning(spark: Any, parquet: Path, expected: list[int], partitions: int) -> None:
    frame = spark.read.parquet(str(parquet)).repartition(partitions)
    assert through_spark(spark, frame) == expected


@pytest.mark.parametrize("files", [1, 2, 7, 64])
def test_direct_for_any_files_in_any_order(
    spark: Any, table: pa.Table, tmp_path: Path, expected: list[int], files: int
) -> None:
    shuffled = table.take(np.random.default_rng(files).permutation(N))
    for i in range(files):
        start, stop = N * i // files, N * (i + 1) // files
        pq.write_table(shuffled.slice(start, stop - start), tmp_path / f"{i}.parquet", row_group_size=999)
    assert exact_gram(spark, open_parquet(str(tmp_path), DOMAIN.columns), DOMAIN).reveal() == expected


def test_large_row_groups_are_read_in_pieces(
    parquet: Path, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpspark.source.parquet.WHOLE_ROW_GROUP", 10_000)
    monkeypatch.setattr("dpspark.source.parquet.BATCH_ROWS", 777)
    source = open_parquet(str(parquet), DOMAIN.columns)
    accumulator = GramAccumulator(DOMAIN)
    sizes = []
    for batch in read_rows(Reading(DOMAIN.columns), source.parts[0], list(range(18))):
        accumulator.add(batch.columns, batch.num_rows)
        sizes.append(batch.num_rows)
    assert max(sizes) == 777
    assert ExactGram.from_partials(DOMAIN, [accumulator.finish()]).reveal() == expected


@pytest.mark.parametrize("fan_in", [2, 3])
def test_deep_trees(
    spark: Any, parquet: Path, expected: list[int], fan_in: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More tasks than a node takes, over several levels."""
    monkeypatch.setattr("dpspark.source.parquet.LARGEST_TASK", 20_000)
    source = open_parquet(str(parquet), DOMAIN.columns)
    assert len(source.tasks(2)) > 9
    assert exact_gram(spark, source, DOMAIN, fan_in=fan_in).reveal() == expected


def test_empty_and_skewed_partitions(spark: Any, parquet: Path, expected: list[int]) -> None:
    frame = spark.read.parquet(str(parquet))
    skewed = frame.where("age < 3").repartition(1).unionAll(frame.where("age >= 3 or age is null"))
    assert through_spark(spark, skewed.unionAll(frame.where("age > 1000").repartition(5))) == expected


def test_nulls_at_the_midpoint_and_row_norm(spark: Any, table: pa.Table, parquet: Path) -> None:
    for norm in (None, RowNorm("cap", 0.8), RowNorm("project", 1.5)):
        domain = Domain(DOMAIN.columns, "midpoint", norm).with_bits(20)
        expected = in_memory(table, domain)
        assert exact_gram(spark, open_parquet(str(parquet), domain.columns), domain).reveal() == expected
        assert through_spark(spark, spark.read.parquet(str(parquet)).repartition(3), domain) == expected


def test_hive_columns_mean_the_same_to_both_readers(spark: Any, table: pa.Table, tmp_path: Path) -> None:
    from dpspark.spark.frames import open_spark_parquet

    expected = in_memory(table, DOMAIN)
    labels = table["sex"].to_pylist()
    for value in (None, "F", "M", "X"):
        name = "__HIVE_DEFAULT_PARTITION__" if value is None else value
        part = table.filter(pa.array([label == value for label in labels])).drop_columns(["sex"])
        for race in range(1, 5):
            folder = tmp_path / "hive" / f"sex={name}" / f"race={race}"
            folder.mkdir(parents=True)
            rows = part.filter(pa.compute.equal(part["race"], race)).drop_columns(["race"])
            pq.write_table(rows, folder / "part-0.parquet")
    path = str(tmp_path / "hive")
    assert exact_gram(spark, open_parquet(path, DOMAIN.columns), DOMAIN).reveal() == expected
    frame, text = open_spark_parquet(spark, path, open_parquet(path, DOMAIN.columns))
    assert text == {"sex", "race"}
    assert exact_gram(spark, select_columns(spark, frame, DOMAIN.columns, None, text), DOMAIN).reveal() == expected


def test_no_rows_at_all(spark: Any, table: pa.Table, tmp_path: Path) -> None:
    zero = [0] * (DOMAIN.width * (DOMAIN.width + 1) // 2)
    pq.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    assert exact_gram(spark, open_parquet(str(tmp_path), DOMAIN.columns), DOMAIN).reveal() == zero
    assert through_spark(spark, spark.read.parquet(str(tmp_path))) == zero


def test_tree_reduce_of_many_synthetic_partials_beyond_int64(spark: Any) -> None:
    """100 partials of 2^45 rows each: the totals need 92 bits."""
    domain = Domain((Numeric("a", 0, 1),))
    accumulator = GramAccumulator(domain)
    accumulator.add([pa.array([0.125])], 1)
    partial = accumulator.finish()
    once = ExactGram.from_partials(domain, [partial]).reveal()
    for _ in range(45):
        partial = merge_partials([partial, partial], domain.width)
    frame = spark.createDataFrame([(bytearray(partial),) for _ in range(100)], "payload binary").repartition(100)

    def merge(payloads: Any) -> bytes:
        return merge_partials(payloads, 2)

    payloads = tree_reduce(frame, 100, merge, fan_in=4)
    assert len(payloads) <= 4
    got = ExactGram.from_partials(domain, payloads).reveal()
    assert got == [100 * (value << 45) for value in once]
    assert max(got) > 2**90


def residual_numbers(spark: Any, source: Any, domain: Domain) -> list[list[int]]:
    """The three sums of residuals, of a regression on two numbers and a block."""
    theta, terms = np.array([0.1, -0.3, 0.2, 0.4]), (0, 1, 6, 7)
    fine = Residual.of(domain, theta, 2, terms)
    histogram = exact_residual_histograms(spark, source, domain, {"r": fine}).reveal("r")
    return [
        [int(value) for part in histogram for value in part],
        exact_residual_sums(spark, source, domain, fine, 0.3).reveal(),
        exact_residual_grams(spark, source, domain, [fine, fine], [0.3, 0.7]).reveal(),
    ]


def test_sums_of_residuals_for_any_reader_and_partitioning(spark: Any, parquet: Path) -> None:
    """Kills: a pass that leaves out rows, or shows some twice, by one of the ways to rows."""
    once = residual_numbers(spark, open_parquet(str(parquet), DOMAIN.columns), DOMAIN)
    assert all(any(part) for part in once)
    frame = spark.read.parquet(str(parquet)).repartition(7)
    source = select_columns(spark, frame, DOMAIN.columns, None)
    with source.kept(3):
        assert residual_numbers(spark, source, DOMAIN) == once
