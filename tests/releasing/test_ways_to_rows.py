"""Every way to the rows gives the same release, to the last bit: tasks that open files, Spark's own scan, catalog tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.releasing.opening import open_files, open_rows
from dpspark.spark.direct import DirectSource
from dpspark.spec.spec import load_spec
from tests.noises import NoNoiseFixedSecret

SCHEMA = "educ int, income double, sex string, tract bigint, zone float"
KINDS: dict[str, dict[str, Any]] = {
    "gram": {},
    "filter": {"where": "age >= 30 and (sex = 'F' or income is null or educ > 3)"},
    "filter that keeps nothing": {"where": "age > 1000"},
    "computed": {
        "columns": {"older": {"expr": "age * 2 + educ", "lower": 0, "upper": 300}, "age": {"lower": 18, "upper": 99}}
    },
    "computed category": {
        "columns": {
            "old": {
                "expr": "case when age > 50 then 'old' when age > 30 then 'young' end",
                "categories": ["old", "young"],
            },
            "educ": {"lower": 1, "upper": 16},
        },
        "nulls": "midpoint",
    },
    "weight": {"weight": {"expr": "educ / 2", "upper": 8}},
    "groups of text": {"release": {"group_by": ["sex"], "groups": ["M", "F", "X"]}},
    "groups of numbers": {"release": {"group_by": ["tract", "sex"], "groups": [[3, "M"], [1, "F"], [700, "F"]]}},
    "groups of floats": {"release": {"group_by": ["zone"], "groups": [0, 1, 5]}},
    "computed groups": {
        "columns": {"age": {"lower": 18, "upper": 99}, "ten": {"expr": "tract % 10"}},
        "release": {"group_by": ["ten"], "groups": [0, 4, 11]},
        "where": "educ <> 7",
    },
    "lines": {
        "release": {
            **{"kind": "theil_sen", "x": "educ", "y": "income", "group_by": ["tract"], "groups": list(range(25))},
            "expected_rows": 100,
        },
        "mechanism": {"name": "exponential"},
    },
    "one line in buckets": {
        "release": {"kind": "theil_sen", "x": "educ", "y": "income", "expected_rows": 3_000_000},
        "where": "age < 90",
    },
    "quantiles": {
        "columns": {"income": {"lower": 0, "upper": 1e5}},
        "release": {"kind": "quantiles", "probabilities": [0.5]},
    },
    "quantiles by group": {
        "columns": {"income": {"lower": 0, "upper": 1e5}},
        "release": {"kind": "quantiles", "probabilities": [0.5, 0.9], "group_by": ["sex"], "groups": ["F", "M"]},
        "where": "age < 60",
    },
    "regression": {"release": {"kind": "regression", "response": "income"}, "where": "educ is not null"},
    "private bounds": {
        "columns": {"income": {"bounds": "private", "search": [0, 1e6]}, "age": {"lower": 18, "upper": 99}},
        "where": "educ > 2",
    },
    "count": {"count": {"epsilon_share": 0.1}, "where": "educ > 2", "nulls": "midpoint"},
}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Files in directories of their own tract, some with nulls, NaN and infinities; of two row groups each."""
    rng = np.random.default_rng(4)
    for number in range(3):
        n = 900 + number
        income = rng.lognormal(10, 1, n)
        income[:3] = [np.nan, np.inf, -np.inf]
        columns = {
            "age": pa.array(rng.integers(18, 99, n), pa.int64()),
            "educ": pa.array(rng.integers(1, 17, n).astype("int32"), mask=rng.random(n) < 0.05),
            "income": pa.array(income, mask=rng.random(n) < 0.05),
            "sex": pa.array(rng.choice(["F", "M"], n), mask=rng.random(n) < 0.05),
            "tract": pa.array(rng.integers(0, 25, n), pa.int64()),
            "zone": pa.array(rng.choice([0.0, -0.0, 1.0, 1.5, np.nan], n), pa.float32()),
        }
        table = pa.table(columns)
        (tmp_path / "rows" / f"region={number}").mkdir(parents=True)
        pq.write_table(table, tmp_path / "rows" / f"region={number}" / "a.parquet", row_group_size=500)
    return tmp_path / "rows"


def variant(conf: dict[str, Any], changes: dict[str, Any], version: str, **source: Any) -> dict[str, Any]:
    changed = {**conf, **changes, "source": source}
    changed["release"] = {**conf["release"], **changes.get("release", {}), "version": version}
    return changed


def tables(conf: dict[str, Any], spark: Any) -> dict[str, Any]:
    made = dpspark.release(conf, spark=spark, noise=NoNoiseFixedSecret())
    folder = Path(str(made.path))
    return {file.name: pq.read_table(file).to_pydict() for file in sorted(folder.glob("*.parquet"))}


def is_direct(conf: dict[str, Any], spark: Any) -> bool:
    spec = load_spec(conf)
    return isinstance(open_rows(spec, spark, None, open_files(spec))[0], DirectSource)


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_and_spark_release_the_same(spark: Any, conf: dict[str, Any], rows: Path, kind: str) -> None:
    """Kills: a filter, a key or a type that means something else where tasks read the files."""
    direct = variant(conf, KINDS[kind], "1", parquet=str(rows))
    through = variant(conf, KINDS[kind], "2", parquet=str(rows), reader="spark")
    assert is_direct(direct, spark)
    assert not is_direct(through, spark)
    assert repr(tables(direct, spark)) == repr(tables(through, spark))  # repr: NaN is NaN


@pytest.mark.parametrize("kind", ["gram", "filter", "groups of numbers", "computed category", "quantiles by group"])
def test_a_table_of_the_catalog_is_read_by_tasks(spark: Any, conf: dict[str, Any], rows: Path, kind: str) -> None:
    """Kills: partitions, names or types of a table that tasks read otherwise than Spark."""
    name = f"ways_{abs(hash(kind))}"
    frame = spark.read.schema(f"AGE bigint, {SCHEMA}, region int").parquet(str(rows))  # files that say age
    frame.write.partitionBy("region").saveAsTable(name)
    try:
        spark.sql(f"alter table {name} partition (region = 1) set location '{rows / 'region=2'}'")
        named = {"AGE" if column == "age" else column: bounds for column, bounds in conf["columns"].items()}
        changes = {"columns": named, **KINDS[kind]}
        direct = variant(conf, changes, "1", table=name)
        through = variant(conf, changes, "2", table=name, reader="spark")
        assert is_direct(direct, spark)
        assert not is_direct(through, spark)
        assert repr(tables(direct, spark)) == repr(tables(through, spark))
    finally:
        spark.sql(f"drop table {name}")


def test_a_column_that_spark_pads(spark: Any, conf: dict[str, Any], rows: Path) -> None:
    """Spark reads it, and its own padding is judged to be of one row. Kills: 'F' where the table says 'F  '."""
    spark.sql("create table padded (age bigint, sex char(3)) using parquet")
    try:
        spark.read.parquet(str(rows)).selectExpr("age", "sex").write.insertInto("padded")
        columns = {"age": {"lower": 18, "upper": 99}, "sex": {"categories": ["F  ", "M  "]}}
        padded = variant(conf, {"columns": columns}, "1", table="padded")
        assert not is_direct(padded, spark)
        bare = {**columns, "sex": {"categories": ["F", "M"]}}
        plain = tables(variant(conf, {"columns": bare}, "2", parquet=str(rows)), spark)
        assert repr(tables(padded, spark)).replace("F  ", "F").replace("M  ", "M") == repr(plain)
    finally:
        spark.sql("drop table padded")
