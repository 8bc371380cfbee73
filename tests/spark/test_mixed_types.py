"""Parquet files that do not agree: one type that holds all values, or a refusal before the charge."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.cli.main import main
from dpspark.core.domain import Domain, Numeric
from dpspark.errors import SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.releasing.opening import open_files
from dpspark.source.frame_columns import common_type
from dpspark.source.parquet import open_parquet
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.frames import open_spark_parquet, select_columns
from dpspark.spark.parquet_frames import open_parquet_frame
from dpspark.spec.spec import load_spec

ROWS = 200
AGREE = {
    "floats": (pa.float32(), pa.float64()),
    "half floats": (pa.float16(), pa.float32()),
    "integers": (pa.int32(), pa.int64()),
    "small integers and floats": (pa.int16(), pa.float32()),
    "integers and doubles": (pa.int32(), pa.float64()),
    "decimals": (pa.decimal128(9, 2), pa.decimal128(12, 4)),
    "decimals and integers": (pa.decimal128(9, 2), pa.int64()),
    "unsigned": (pa.uint64(), pa.int32()),
    "a column of nulls": (pa.null(), pa.float32()),
}
DISAGREE = {
    "bigint and double": ((pa.int64(), pa.float64()), "bigint in .*/a.parquet, and double in .*/b.parquet"),
    "decimal and double": ((pa.decimal128(9, 2), pa.float64()), r"decimal\(9,2\) in .*, and double"),
    "decimals beyond 38 digits": (
        (pa.decimal128(38, 0), pa.decimal128(9, 2)),
        r"decimal\(38,0\) in .*, and decimal\(9,2\)",
    ),
    "numbers and text": ((pa.int32(), pa.string()), "int in .*, and string in"),
    "booleans and integers": ((pa.bool_(), pa.int32()), "boolean in .*, and int in"),
    "dates and times": ((pa.date32(), pa.timestamp("us")), "date in .*, and timestamp_ntz"),
    "times with and without zone": (
        (pa.timestamp("us", "UTC"), pa.timestamp("us")),
        "timestamp in .*, and timestamp_ntz",
    ),
    "nanoseconds": ((pa.timestamp("ns"), pa.timestamp("ns")), r"timestamp\[ns\], which Spark has not"),
    "lists that differ": ((pa.list_(pa.int32()), pa.list_(pa.int64())), r"array<int> in .*, and array<bigint>"),
}


def values_of(kind: Any, seed: int) -> Any:
    whole = np.random.default_rng(seed).integers(0, 100, ROWS)
    if pa.types.is_null(kind):
        return pa.nulls(ROWS)
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(int(value)) / (1 if kind.scale == 0 else 4) for value in whole], kind)
    if pa.types.is_floating(kind):
        return pa.array((whole / 7).astype(kind.to_pandas_dtype()), kind)
    if pa.types.is_string(kind):
        return pa.array([str(value) for value in whole])
    if pa.types.is_list(kind):
        return pa.array([[int(value)] for value in whole], kind)
    if pa.types.is_boolean(kind):
        return pa.array(whole > 50)
    if pa.types.is_temporal(kind):
        return pa.array([datetime.datetime(2024, 1, 1)] * ROWS, pa.timestamp("us")).cast(kind)
    return pa.array(whole, kind)


def write(folder: Path, kinds: tuple[Any, Any], name: str = "delay") -> Path:
    folder.mkdir()
    for seed, (file, kind) in enumerate(zip("ab", kinds, strict=True)):
        sex = pa.array(["F", "M"] * (ROWS // 2))
        columns = {name: values_of(kind, seed), "sex": sex.dictionary_encode() if seed else sex, "id": range(ROWS)}
        pq.write_table(pa.table(columns), folder / f"{file}.parquet", row_group_size=70)
    return folder


def conf_of(conf: dict[str, Any], folder: Path, **more: Any) -> dict[str, Any]:
    return {
        **conf,
        "source": {"parquet": str(folder)},
        "columns": {"delay": {"lower": 0, "upper": 100}, "sex": {"categories": ["F", "M"]}},
        **more,
    }


@pytest.mark.parametrize("kinds", AGREE)
def test_the_same_rows_as_the_direct_reader(spark: Any, tmp_path: Path, kinds: str) -> None:
    """Fails on 0.2.0: Spark fails on the second file, after the charge. Kills: a cast that moves a value by one bit."""
    columns = [Numeric("delay", 0, 100), Numeric("id", 0, ROWS)]
    folder, domain = write(tmp_path / "d", AGREE[kinds]), Domain(tuple(columns))
    for mentioned in ({}, {"where": {"ID"}}, {"where": {"Delay", "id"}}):
        if pa.null() in AGREE[kinds]:
            files = open_parquet(str(folder), [], {"where": {"delay", "id"}})
        else:
            files = open_parquet(str(folder), columns, mentioned)
        assert files.frame_columns().by_tasks
        frame, _ = open_parquet_frame(spark, files)
        through = exact_gram(spark, select_columns(spark, frame, columns, "ID >= 0"), domain)
        if pa.null() in AGREE[kinds]:
            assert frame.where("delay is null").count() == ROWS
            continue
        assert through.reveal() == exact_gram(spark, files, domain).reveal()


def test_bigint_and_double_as_a_number_alone(spark: Any, tmp_path: Path) -> None:
    """As the direct reader: both become doubles, and an integer beyond 2^53 is rounded, not quoted in an error."""
    folder = tmp_path / "d"
    folder.mkdir()
    pq.write_table(pa.table({"x": pa.array([2**53 + 1, None, 3])}), folder / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([0.5, None, 1e300])}), folder / "b.parquet")
    pq.write_table(pa.table({"x": pa.array([True, None, False])}), folder / "c.parquet")
    pq.write_table(pa.table({"x": pa.array([1], pa.decimal256(60, 3))}), folder / "d.parquet")
    columns = [Numeric("x", 0, 2.0**60)]
    files = open_parquet(str(folder), columns)
    assert files.frame_columns().types == {"x": "double"}
    frame, _ = open_parquet_frame(spark, files)
    assert sum(row["x"] is None for row in frame.collect()) == 3
    assert {row["x"] for row in frame.collect()} >= {2.0**53, 0.5, 1.0, 0.0}
    through = exact_gram(spark, select_columns(spark, frame, columns, None), Domain(tuple(columns)))
    assert through.reveal() == exact_gram(spark, files, Domain(tuple(columns))).reveal()


@pytest.mark.parametrize("kinds", DISAGREE)
def test_refused_before_the_charge(conf: dict[str, Any], tmp_path: Path, kinds: str, capsys: Any) -> None:
    """Fails on 0.2.0: `check` says that every column fits, and `release` fails after the charge."""
    folder = write(tmp_path / "d", DISAGREE[kinds][0], "other")
    del conf["columns"]
    wrong = conf_of(conf, folder, columns={"id": {"lower": 0, "upper": ROWS}}, where="other is not null")
    (tmp_path / "conf.json").write_text(json.dumps(wrong))
    with pytest.raises(SystemExit) as left:
        main(["check", str(tmp_path / "conf.json")])
    assert left.value.code == 4
    shown = capsys.readouterr().err
    with pytest.raises(SourceError, match=DISAGREE[kinds][1]) as refused:
        dpspark.release(wrong)
    assert str(refused.value) in shown
    assert Ledger(conf["ledger"]["url"]).find("people", "income", "1") is None
    # Where nothing mentions it, it does not matter.
    (tmp_path / "conf.json").write_text(json.dumps({**wrong, "where": "id >= 0"}))
    with pytest.raises(SystemExit) as left:
        main(["check", str(tmp_path / "conf.json")])
    assert left.value.code == 0


KINDS: dict[str, dict[str, Any]] = {
    "a filter": {"where": "delay >= 0"},
    "a filter on another column": {"where": "id >= 0"},
    "groups": {
        "columns": {"delay": {"lower": 0, "upper": 100}},
        "release": {"name": "income", "version": "1", "group_by": ["sex"], "groups": ["F", "M"]},
    },
    "persons": {"privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "id", "max_rows": 2}}},
}


@pytest.mark.spark35
@pytest.mark.parametrize("kind", KINDS)
def test_flights_whose_delay_is_a_float_here_and_a_double_there(
    spark: Any, conf: dict[str, Any], tmp_path: Path, kind: str
) -> None:
    """Fails on 0.2.0: "could not be read to the end (Py4JJavaError)", after the charge."""
    folder = write(tmp_path / "d", AGREE["floats"])
    assert dpspark.release(conf_of(conf, folder, **KINDS[kind]), spark=spark).path


UNUSED = {
    "nanoseconds": pa.array([1] * ROWS, pa.timestamp("ns")),
    "unsigned": pa.array([2**64 - 1] * ROWS, pa.uint64()),
    "half floats": pa.array([1.0] * ROWS, pa.float16()),
    "times of day": pa.array([1] * ROWS, pa.time64("us")),
    "wide decimals": pa.array([1] * ROWS, pa.decimal256(50, 2)),
    "lists": pa.array([[{"a": 1}]] * ROWS),
}


@pytest.mark.spark35
@pytest.mark.parametrize("kind", UNUSED)
def test_an_unused_column_beside_a_filter(spark: Any, conf: dict[str, Any], tmp_path: Path, kind: str) -> None:
    """Fails on 0.2.0 for types that Spark has not: it reads the schema of the whole file."""
    (tmp_path / "d").mkdir()
    table = pa.table({"delay": np.arange(ROWS) / 7, "sex": ["F", "M"] * (ROWS // 2), "unused": UNUSED[kind]})
    pq.write_table(table, tmp_path / "d" / "a.parquet")
    files = open_parquet(str(tmp_path / "d"), [Numeric("delay", 0, 100)], {"where": {"sex"}})
    by_tasks = files.frame_columns().by_tasks
    assert by_tasks == (kind == "half floats")  # else Spark's own reader: in all other files, the faster way
    frame, _ = open_parquet_frame(spark, files) if by_tasks else open_spark_parquet(spark, "d", files)
    assert dict(frame.dtypes) == {"delay": "double", "sex": "string"}
    assert dpspark.release(conf_of(conf, tmp_path / "d", where="sex = 'F'"), spark=spark).path


@pytest.mark.spark35
def test_one_type_stored_in_several_ways(spark: Any, tmp_path: Path) -> None:
    """Types that are one in Spark: its own reader takes each file as it is. Kills: a type that fails after the charge."""
    at = pa.array([datetime.datetime(2024, 2, 29, 12), None], pa.timestamp("us", "UTC"))
    stored = [
        {
            "at": at.cast(pa.timestamp("ns", "UTC")),
            "ntz": pa.array([1000, None], pa.timestamp("us")),
            "text": pa.array(["a", None]),
            "binary": pa.array([b"12", None]),
            "small": pa.array([1, None], pa.int16()),
            "whole": pa.array([1, None], pa.int32()),
            "big": pa.array([1, None], pa.int64()),
            "money": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
            "day": pa.array([datetime.date(2024, 2, 29), None]),
            "lasts": pa.array([5, None]),
        },
        {
            "at": at,
            "ntz": pa.array([1, None], pa.timestamp("ms")),
            "text": pa.array(["a", None]).dictionary_encode(),
            "binary": pa.array([b"12", None], pa.binary(2)),
            "small": pa.array([1, None], pa.uint8()),
            "whole": pa.array([1, None], pa.uint16()),
            "big": pa.array([1, None], pa.uint32()),
            "money": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
            "day": pa.array([datetime.date(2024, 2, 29), None], pa.date64()),
            "lasts": pa.array([5, None], pa.duration("us")),
        },
        {
            "at": at.cast(pa.timestamp("ms", "UTC")),
            "text": pa.array(["a", None], pa.large_string()),
            "binary": pa.array([b"12", None], pa.large_binary()),
        },
    ]
    (tmp_path / "d").mkdir()
    for number, columns in enumerate(stored):
        options = {"use_deprecated_int96_timestamps": number == 0, "store_decimal_as_integer": number == 1}
        times = {"ntz"} if number == 0 else set()  # which INT96 does not have
        table = pa.table({name: values for name, values in columns.items() if name not in times})
        pq.write_table(table, tmp_path / "d" / f"{number}.parquet", **options)
    names = set(stored[0])
    files = open_parquet(str(tmp_path / "d"), [], {"where": names})
    assert not files.frame_columns().by_tasks
    frames = open_spark_parquet(spark, "d", files)[0], open_parquet_frame(spark, files)[0]
    own, ours = (sorted(map(str, frame.select(*sorted(names)).collect())) for frame in frames)
    assert own == ours
    assert sum(row["at"] is not None for row in frames[0].collect()) == 3


def test_names_that_differ_in_case(spark: Any, tmp_path: Path) -> None:
    """Read as one where files differ; refused where one file has both. Fails on 0.2.0: one of them was null, or a failure."""
    (tmp_path / "d").mkdir()
    pq.write_table(pa.table({"x": [0.5], "Age": [1]}), tmp_path / "d" / "a.parquet")
    pq.write_table(pa.table({"x": [0.5], "age": [2]}), tmp_path / "d" / "b.parquet")
    pq.write_table(pa.table({"x": [0.5]}), tmp_path / "d" / "c.parquet")
    files = open_parquet(str(tmp_path / "d"), [Numeric("x", 0, 1)], {"where": {"AGE"}})
    frame, _ = open_parquet_frame(spark, files)
    assert frame.columns == ["x", "Age"]
    assert [row["Age"] for row in frame.orderBy("age").collect()] == [None, 1, 2]
    pq.write_table(pa.table({"x": [0.5], "age": [2], "AGE": [2]}), tmp_path / "d" / "d.parquet")
    with pytest.raises(SourceError, match=r"d\.parquet has more than one of that name, but for case"):
        open_parquet(str(tmp_path / "d"), [Numeric("x", 0, 1)], {"where": {"AGE"}}).frame_columns()


def test_a_column_that_only_some_files_have(spark: Any, tmp_path: Path) -> None:
    """Null where it is not. Fails on 0.2.0: Spark takes the columns of one file."""
    (tmp_path / "d").mkdir()
    pq.write_table(pa.table({"x": [0.5]}), tmp_path / "d" / "a.parquet")
    pq.write_table(pa.table({"x": [0.5], "age": [2]}), tmp_path / "d" / "b.parquet")
    files = open_parquet(str(tmp_path / "d"), [Numeric("x", 0, 1)], {"where": {"age"}})
    frame, _ = open_spark_parquet(spark, "d", files)
    assert frame.where("age is null").count() == frame.where("age = 2").count() == 1


def test_directories_that_differ(spark: Any, tmp_path: Path) -> None:
    """A key that some files' directories lack is null there; one that is a column elsewhere is refused."""
    for name in ("a.parquet", "year=2024/b.parquet", "year=2024/m=1/c.parquet"):
        (tmp_path / "d" / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [0.5]}), tmp_path / "d" / name)
    files = open_parquet(str(tmp_path / "d"), [Numeric("x", 0, 1)], {"where": {"year"}})
    frame, text = open_parquet_frame(spark, files)
    assert text == {"year", "m"}
    assert sorted(map(str, (row["year"] for row in frame.collect()))) == ["2024", "2024", "None"]
    pq.write_table(pa.table({"x": [0.5], "Year": [2023]}), tmp_path / "d" / "a.parquet")
    with pytest.raises(SourceError, match="'Year': in some files a column, in others the name of a directory"):
        open_parquet(str(tmp_path / "d"), [Numeric("x", 0, 1)], {"where": {"year"}}).frame_columns()


def test_only_directories(spark: Any, tmp_path: Path) -> None:
    """No column of the files is read, and rows are counted all the same."""
    for year in ("2023", "2024"):
        (tmp_path / "d" / f"year={year}").mkdir(parents=True)
        pq.write_table(
            pa.table({"at": pa.array([1, 2], pa.timestamp("ns"))}), tmp_path / "d" / f"year={year}" / "a.parquet"
        )
    files = open_parquet(str(tmp_path / "d"), [Numeric("year", 2000, 2030)])
    for frame, _ in (open_spark_parquet(spark, "d", files), open_parquet_frame(spark, files)):
        assert [row["count"] for row in frame.groupBy("year").count().orderBy("year").collect()] == [2, 2]


def test_check_tells_what_the_release_would(conf: dict[str, Any], tmp_path: Path) -> None:
    """Unsigned 64-bit integers are decimals in Spark. Fails on 0.2.0: `check` looked at the direct reader's types alone."""
    pq.write_table(pa.table({"code": pa.array([1], pa.uint64()), "x": [0.5]}), tmp_path / "a.parquet")
    conf["source"] = {"parquet": str(tmp_path / "a.parquet")}
    conf["columns"] = {"code": {"categories": [1, 2]}, "x": {"lower": 0, "upper": 1}}
    assert open_files(load_spec(conf)) is not None
    with pytest.raises(SourceError, match=r"columns\.code has integer categories but its type is decimal\(20,0\)"):
        open_files(load_spec({**conf, "where": "x > 0"}))


def test_common_types() -> None:
    for kinds, expected in {
        ("float", "double"): "double",
        ("tinyint", "bigint", "int"): "bigint",
        ("smallint", "halffloat"): "float",
        ("int", "float"): "double",
        ("decimal(5,2)", "decimal(5,4)"): "decimal(7,4)",
        ("decimal(20,0)", "bigint"): "decimal(20,0)",
        ("decimal(38,0)", "decimal(38,1)"): None,
        ("null", "string"): "string",
        ("null",): "int",
        ("string", "binary"): None,
        ("halffloat",): "float",
    }.items():
        assert common_type(kinds) == common_type(reversed(kinds)) == expected, kinds
