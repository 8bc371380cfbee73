"""Parquet on S3: the same files, rows and types as on a disk, for the direct reader and for frames."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_store import SECRET, Bucket

import dpspark
from dpspark.core.domain import Domain, Numeric
from dpspark.errors import SourceError
from dpspark.source.listing import find_files, find_objects
from dpspark.source.parquet import open_parquet, open_source
from dpspark.source.stores import parse_address
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.frames import open_spark_parquet
from dpspark.spark.parquet_frames import open_parquet_frame

TREE = [
    "a.parquet",
    "b é%20.parquet",
    "_SUCCESS",
    ".hidden.parquet",
    "_temporary/0/x.parquet",
    "year=2023/m=1/a.parquet",
    "year=2023/m=2/b.parquet",
    "year=2024/m=1/a.parquet",
    "year=a%2Fb/m=1/.part.crc",
    "year=a%2Fb/m=1/a.parquet",
    "_k=1/c.parquet",
    "deep/er/d.parquet",
]
GLOBS = [
    "",
    "a.parquet",
    "*.parquet",
    "**/*.parquet",
    "**",
    "year=202?",
    "year=202?/m=1",
    "year=*/m=[13]/*.parquet",
    "*/*/*.parquet",
    "deep/*",
    ".hidden.parquet",
    "_temporary/0/x.parquet",
    "year=*",
]


def upload(folder: Path, bucket: Bucket, below: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            bucket.put(f"{below}/{path.relative_to(folder)}", path)


@pytest.mark.parametrize("below", ["people", "data/*/people", ".data/people"])
def test_the_same_files_as_on_a_disk(tmp_path: Path, bucket: Bucket, below: str) -> None:
    """Kills: a glob, a hidden name or a directory's value that means one thing on a disk and another on S3."""
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    top = below.replace("*", "x")
    upload(tmp_path, bucket, top)
    bucket.put("people-2/other.parquet", b"x")  # begins with the same letters
    for glob in GLOBS if "*" not in below else [""]:
        expected = [(Path(f).relative_to(tmp_path), v) for f, v in find_files(f"{tmp_path}/{glob}".rstrip("/"))[1]]
        address = parse_address(bucket.address(f"{below}/{glob}"))
        assert address is not None
        root, found = find_objects(*address)
        assert [(Path(key).relative_to(top), values) for key, values in found] == expected, glob
        assert root == "data" if "*" in below else root.startswith(top)


def test_nothing_there(bucket: Bucket, conf: dict[str, Any]) -> None:
    bucket.put("delta/_delta_log/0.json", b"{}")
    bucket.put("delta/a.parquet", b"x")
    bucket.put("empty/_SUCCESS", b"")
    bucket.put("text/a.parquet", b"no Parquet")
    for key, message in [
        ("absent", "nothing there"),
        ("absent/*.parquet", "nothing there"),
        ("empty", "no Parquet files"),
        ("delta", "Delta table"),
        ("text", "not readable as Parquet"),
    ]:
        with pytest.raises(SourceError, match=message) as refused:
            dpspark.release({**conf, "source": {"parquet": bucket.address(key)}})
        assert refused.value.exit_code == 4
        assert SECRET not in str(refused.value)
    nowhere = f"s3://{bucket.name}/people?endpoint_override=127.0.0.1:1&scheme=http"
    with pytest.raises(SourceError, match="cannot be listed"):
        dpspark.release({**conf, "source": {"parquet": nowhere}})


@pytest.fixture
def typed(tmp_path: Path) -> Path:
    """Every type that Spark's reader has, with nulls, in two files of a hive directory."""
    moment = datetime.datetime(2024, 2, 29, 12, 30, 15, 123456)
    old = datetime.datetime(1961, 4, 12, 6, 7, 0, 1)
    columns = {
        "i8": pa.array([1, None, -128], pa.int8()),
        "i16": pa.array([1, None, -32768], pa.int16()),
        "i32": pa.array([1, None, -(2**31)], pa.int32()),
        "i64": pa.array([1, None, -(2**63)], pa.int64()),
        "u8": pa.array([1, None, 255], pa.uint8()),
        "u16": pa.array([1, None, 65535], pa.uint16()),
        "u32": pa.array([1, None, 2**32 - 1], pa.uint32()),
        "u64": pa.array([1, None, 2**64 - 1], pa.uint64()),
        "f": pa.array([0.1, None, float("inf")], pa.float32()),
        "d": pa.array([0.1, None, float("nan")], pa.float64()),
        "b": pa.array([True, None, False]),
        "s": pa.array(["é", None, ""]),
        "large": pa.array(["é", None, ""], pa.large_string()),
        "dictionary": pa.array(["F", None, "M"]).dictionary_encode(),
        "bin": pa.array([b"\0\1", None, b""], pa.binary()),
        "dec": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("-99999999.99")], pa.decimal128(10, 2)),
        "wide": pa.array([decimal.Decimal(10) ** 30, None, decimal.Decimal(-1)], pa.decimal128(38, 0)),
        "date": pa.array([moment.date(), None, old.date()]),
        "at": pa.array([moment, None, old], pa.timestamp("us", "UTC")),
        "ms": pa.array([moment, None, old], pa.timestamp("us", "UTC")).cast(pa.timestamp("ms", "UTC"), safe=False),
        "naive": pa.array([moment, None, old], pa.timestamp("us")),
    }
    for year in ("2023", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / "typed" / f"year={year}").mkdir(parents=True)
        pq.write_table(pa.table(columns), tmp_path / "typed" / f"year={year}" / "a.parquet")
    return tmp_path / "typed"


def test_frames_have_the_types_and_values_of_sparks_own_reader(spark: Any, typed: Path, bucket: Bucket) -> None:
    """Kills: a cast that changes a value, a type that `where` compares otherwise, a null that is not."""
    upload(typed, bucket, "typed")
    names = {*pq.ParquetFile(typed / "year=2023" / "a.parquet").schema_arrow.names, "year"}
    local = open_parquet(str(typed), [], {"where": names})
    expected, text = open_spark_parquet(spark, str(typed), local)
    remote = open_source(bucket.address("typed"), [], {"where": names})
    assert remote is not None
    frame, found_text = open_parquet_frame(spark, remote)
    assert found_text == text == {"year"}
    assert sorted(frame.dtypes) == sorted(expected.dtypes)
    order = [*sorted(names)]

    def rows(of: Any) -> list[str]:
        return sorted(map(repr, of.selectExpr(*(f"cast(`{name}` as string)" for name in order)).collect()))

    assert rows(frame) == rows(expected)
    where = (
        "at >= timestamp'2024-01-01 00:00:00Z' and naive < timestamp_ntz'2025-01-01 00:00:00' and dec > 1 and u64 = 1"
    )
    assert frame.where(where).count() == expected.where(where).count() == 2


def test_times_as_spark_writes_them(spark: Any, tmp_path: Path, bucket: Bucket) -> None:
    """INT96, before and after 1970."""
    times = pa.array([-1, 1, 1709209815123456789], pa.timestamp("ns"))
    pq.write_table(pa.table({"at": times}), tmp_path / "t.parquet", use_deprecated_int96_timestamps=True)
    bucket.put("t.parquet", tmp_path / "t.parquet")
    remote = open_source(bucket.address("t.parquet"), [], {"where": {"at"}})
    assert remote is not None
    frame, _ = open_parquet_frame(spark, remote)
    expected = spark.read.parquet(str(tmp_path / "t.parquet"))
    assert frame.dtypes == expected.dtypes
    assert sorted(frame.collect()) == sorted(expected.collect())


def test_columns_that_differ_between_files(spark: Any, tmp_path: Path, bucket: Bucket) -> None:
    """A type that is not one, or that a frame cannot have, is refused; a column that a file lacks is null there."""
    for name, table in {
        "x/a.parquet": {"x": [1], "y": [1]},
        "x/b.parquet": {"x": [1]},
        "two/a.parquet": {"x": [1]},
        "two/b.parquet": {"x": [0.5]},
        "list/a.parquet": {"x": [[1]]},
        "nano/a.parquet": {"x": pa.array([1], pa.timestamp("ns"))},
    }.items():
        pq.write_table(pa.table(table), tmp_path / "t.parquet")
        bucket.put(name, tmp_path / "t.parquet")

    def frame(key: str) -> Any:
        found = open_source(bucket.address(key), [], {"where": {"X", "y"} if key == "x" else {"x"}})
        assert found is not None
        return open_parquet_frame(spark, found)[0]

    assert sorted(tuple(row) for row in frame("x").collect() if row["y"] is not None) == [(1, 1)]
    assert frame("x").where("y is null").count() == 1
    for key, message in {"two": "bigint in .*, and double in", "list": "array<", "nano": r"timestamp\[ns\]"}.items():
        with pytest.raises(SourceError, match=message):
            frame(key)


def test_the_exact_matrix_is_that_of_the_disk(spark: Any, people: Path, bucket: Bucket) -> None:
    """Kills: rows lost or read twice. Many row groups in several tasks, and large ones in pieces."""
    domain = Domain((Numeric("age", 18, 99), Numeric("income", 0, 200000)))
    bucket.put("people/part 1.parquet", people)
    bucket.put("people/k=1/part-2.parquet", people)
    expected = exact_gram(spark, open_parquet(str(people), domain.columns), domain).reveal()
    found = open_source(bucket.address(""), domain.columns, {})  # the bucket itself
    assert found is not None
    assert found.in_store
    assert exact_gram(spark, found, domain).reveal() == [2 * value for value in expected]


def kinds() -> dict[str, dict[str, Any]]:
    return {
        "groups, a filter and an expression": {
            "where": "income > 1000 and month >= date'2024-02-01'",
            "columns": {"age": {"lower": 18, "upper": 99}, "half": {"lower": 0, "upper": 1e5, "expr": "income / 2"}},
            "release": {"name": "r", "version": "1", "group_by": ["sex"], "groups": ["F", "M"]},
        },
        "lines": {
            "columns": {"age": {"lower": 18, "upper": 99}, "income": {"lower": 0, "upper": 2e5}},
            "release": {
                **{"name": "r", "version": "1", "kind": "theil_sen", "x": "age", "y": "income", "cuts": [30, 60]},
                **{"group_by": ["year"], "groups": ["2023", "2024"]},
            },
        },
        "persons": {
            "columns": {"income": {"lower": 0, "upper": 2e5}},
            "privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "id", "max_rows": 2}},
        },
    }


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_of_release_from_s3_to_s3(
    spark: Any, conf: dict[str, Any], tmp_path: Path, bucket: Bucket, kind: str
) -> None:
    """Spark has no S3 file system here: what needs SQL or a shuffle works all the same."""
    rng = np.random.default_rng(7)
    for year in (2023, 2024):
        table = pa.table(
            {
                "id": rng.integers(0, 400, 1000),
                "age": rng.integers(18, 99, 1000),
                "income": rng.lognormal(10, 1, 1000),
                "sex": rng.choice(["F", "M"], 1000),
                "month": pa.array([datetime.date(2024, 1 + i % 12, 1) for i in range(1000)]),
            }
        )
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=300)
        bucket.put(f"people/year={year}/a.parquet", tmp_path / "t.parquet")
    conf = {**conf, **kinds()[kind], "source": {"parquet": bucket.address("people")}}
    conf["output"] = {"path": bucket.address("releases")}
    done = dpspark.release(conf, spark=spark)
    assert str(done.path) == bucket.address(f"releases/{conf['release']['name']}/1")
    again = dpspark.read_release(str(done.path))
    assert again.manifest == done.manifest
    assert {name: repr(table.to_pylist()) for name, table in again.tables.items()} == {
        name: repr(table.to_pylist()) for name, table in done.tables.items()
    }
