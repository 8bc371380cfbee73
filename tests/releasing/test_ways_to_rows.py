"""Every way to the rows gives the same release, to the last bit: tasks that open files, Spark's own scan, catalog tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpspark
from dpspark.errors import SourceError
from dpspark.releasing.direct import ThroughSpark, read_directly
from dpspark.releasing.opening import open_files, open_rows
from dpspark.spark.direct import DirectSource
from dpspark.spark.frames import FrameSource
from dpspark.spec.spec import load_spec
from tests.noises import NoNoiseFixedSecret

SCHEMA = "educ int, income double, sex string, tract bigint, who bigint, zone float"
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
    "people": {
        "privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "who", "max_rows": 2}},
        "where": "educ > 2",
    },
    "people by group": {
        "privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "who", "max_rows": 2}},
        "release": {"group_by": ["tract"], "groups": list(range(25))},
        "columns": {"older": {"expr": "age + educ", "lower": 18, "upper": 99}, "sex": {"categories": ["F", "M"]}},
    },
    "products": {"release": {"regressions": ["income ~ C(sex)*educ + C(sex):age"]}, "where": "age > 20"},
    "products, nulls at the middle": {
        "columns": {
            "educ": {"lower": 1, "upper": 16},
            "sex": {"categories": ["F", "M"]},
            "tract": {"categories": [1, 2, 3, 5]},
        },
        "nulls": "midpoint",
        "release": {"regressions": ["educ ~ sex*tract + sex:I(educ**2)"]},
    },
    "products by group": {
        "columns": {
            "educ": {"lower": 1, "upper": 16},
            "age": {"lower": 18, "upper": 99},
            "sex": {"categories": ["F", "M"]},
        },
        "release": {"regressions": ["educ ~ C(sex)*age"], "group_by": ["tract"], "groups": [1, 2, 30]},
    },
    "products of people, with private bounds": {
        "columns": {"income": {"bounds": "private", "search": [0, 1e6]}, "sex": {"categories": ["F", "M"]}},
        "privacy": {"epsilon": 1.0, "delta": 1e-9, "unit": {"column": "who", "max_rows": 2}},
        "release": {"regressions": ["income ~ sex:income"]},
    },
    "products weighted": {
        "weight": {"expr": "educ / 2", "upper": 8},
        "release": {"regressions": ["income ~ C(sex)*age"]},
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
            "who": pa.array(rng.integers(0, 400, n), mask=rng.random(n) < 0.01),
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
def test_a_table_of_the_catalog_is_read_by_tasks(
    spark: Any, conf: dict[str, Any], rows: Path, kind: str, tmp_path: Path
) -> None:
    """Kills: partitions, names or types of a table that tasks read otherwise than Spark."""
    name = f"ways_{uuid.uuid4().hex}"
    frame = spark.read.schema(f"AGE bigint, {SCHEMA}, region int").parquet(str(rows))  # files that say age
    frame.write.partitionBy("region").option("path", str(tmp_path / "table")).saveAsTable(name)
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


TABLES = {
    "a view with a filter": "create view {0} as select * from {1} where educ > 3",
    "a view of all": "create view {0} as select * from {1}",
    "padded text": "create table {0} (age bigint, sex char(3)) using parquet location '{2}'",
    "another format": "create table {0} using orc location '{2}' as select * from {1}",
    "lines of text": "create table {0} using csv location '{2}' as select * from {1}",
    "partitions by decimals": (
        "create table {0} using parquet partitioned by (part) location '{2}' as "
        "select *, cast(1 as decimal(5,1)) part from {1}"
    ),
}


@pytest.fixture
def table(spark: Any, rows: Path, tmp_path: Path) -> Iterator[str]:
    """The rows as a Parquet table of the catalog."""
    name = f"ways_{uuid.uuid4().hex}"
    spark.read.parquet(str(rows)).write.option("path", str(tmp_path / "table")).saveAsTable(name)
    yield name
    spark.sql(f"drop table {name}")


@pytest.mark.parametrize("made", TABLES.values(), ids=TABLES)
def test_what_is_more_than_files_is_left_to_spark(
    spark: Any, conf: dict[str, Any], table: str, made: str, tmp_path: Path
) -> None:
    """Kills: tasks that read the files below a view's filter, or text as it lies in files where Spark pads it."""
    other = f"{table}_other"
    spark.sql(made.format(other, table, tmp_path / "other"))
    try:
        changed = variant(conf, {"columns": {"age": {"lower": 18, "upper": 99}}}, "1", table=other)
        if "csv" in made:
            changed["columns"] = {"tract": {"lower": 0, "upper": 25}}
        found, judgement = open_rows(load_spec(changed), spark, None, None)
        assert isinstance(found, FrameSource)
        assert judgement.by == "plan"
    finally:
        spark.sql(f"drop {'view' if 'view' in made else 'table'} {other}")


def test_settings_that_change_what_names_mean(spark: Any, conf: dict[str, Any], table: str) -> None:
    changed = variant(conf, {}, "1", table=table)
    assert is_direct(changed, spark)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert not is_direct(changed, spark)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_table_that_is_overwritten_while_it_is_read(spark: Any, conf: dict[str, Any], table: str, rows: Path) -> None:
    """Kills: passes that see two states of a table."""
    spec = load_spec(variant(conf, {}, "1", table=table))
    found, _ = open_rows(spec, spark, None, None)
    found.check_unchanged()
    spark.sql(f"insert overwrite {table} select * from parquet.`{rows}` limit 10")
    with pytest.raises(SourceError, match=r"(?s)replaced while it was read\. Nothing was released"):
        found.check_unchanged()


@pytest.mark.parametrize("where", [None, "age > 30"])
def test_a_filter_makes_the_number_of_rows_private(
    spark: Any, conf: dict[str, Any], rows: Path, table: str, where: str | None
) -> None:
    """Kills: a filter in a task that nobody judges, and so an exact count of the rows behind it under replace_one."""
    changes: dict[str, Any] = {"privacy": {**conf["privacy"], "neighbours": "replace_one"}}
    changes |= {} if where is None else {"where": where}
    for version, source in (("1", {"parquet": str(rows)}), ("2", {"table": table})):
        made = dpspark.release(variant(conf, changes, version, **source), spark=spark)
        privacy = made.manifest["privacy"]
        assert privacy["its_rows_are"] == ("replaced" if where is None else "either")
        assert privacy["count_is_exact"] is (where is None)
        assert privacy["judged_by"] == ("files" if "parquet" in source else "plan")
        assert dpspark.verify(made.path).passed


def test_times_of_an_old_spark_are_left_to_spark(conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: a day that is another one in the calendar of an old Spark."""
    old = pa.schema([("age", pa.int64()), ("day", pa.date32())], {"org.apache.spark.version": "2.4.8"})
    table = pa.table({"age": [20, 30], "day": pa.array([1, 2], pa.int32()).cast(pa.date32())}, schema=old)
    pq.write_table(table, tmp_path / "old.parquet")
    changes = {"columns": {"age": {"lower": 18, "upper": 99}}, "where": "year(day) > 1500"}
    spec = load_spec(variant(conf, changes, "1", parquet=str(tmp_path / "old.parquet")))
    files = open_files(spec)
    assert files is not None
    with pytest.raises(ThroughSpark, match="'day' has dates or times of an older calendar"):
        read_directly(spec, files)


def test_row_groups_are_skipped_by_their_statistics(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """The damaged row group is never read, as its statistics say that the filter keeps none of its rows."""
    path = tmp_path / "sorted.parquet"
    table = pa.table({"age": np.repeat([20, 50, 80], 1000)})
    pq.write_table(table, path, row_group_size=1000, compression="none", use_dictionary=False)
    start = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 20] = b"\xff" * 20
    path.write_bytes(bytes(content))
    changes = {"columns": {"age": {"lower": 18, "upper": 99}}}
    kept = tables(variant(conf, {**changes, "where": "age > 30"}, "1", parquet=str(path)), spark)
    assert kept["second_moment.parquet"]["value"][0] == 2000
    with pytest.raises(SourceError):
        tables(variant(conf, {**changes, "where": "age > 10"}, "2", parquet=str(path)), spark)


def register_delta(spark: Any, name: str, place: Path) -> None:
    """Register a Delta table in Spark's catalog, as a Spark with Delta's jars does: these are not here."""
    spark.sql(f"create table {name} (age bigint) using parquet location '{place}'")
    state, scala = spark._jsparkSession.sessionState(), spark._jvm.scala
    found = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))
    parts = [getattr(found, f"copy$default${number}")() for number in range(1, found.productArity() + 1)]
    parts[4] = scala.Option.apply("delta")
    spark._jsparkSession.sharedState().externalCatalog().alterTable(found.copy(*parts))


@pytest.mark.parametrize("key", ["table", "delta"])
def test_a_delta_table_of_the_catalog(spark: Any, conf: dict[str, Any], tmp_path: Path, key: str) -> None:
    """Kills: files of a Delta table that were deleted, read because the catalog says where the table lies."""
    deltalake = pytest.importorskip("deltalake")
    place, name = tmp_path / "people", f"ways_{uuid.uuid4().hex}"
    deltalake.write_deltalake(str(place), pa.table({"age": [20, 30, 40]}))
    deltalake.DeltaTable(str(place)).delete("age = 20")
    changes = {"columns": {"age": {"lower": 18, "upper": 99}}}
    register_delta(spark, name, place)
    try:
        written = f"default.{name}" if key == "delta" else name
        made = dpspark.release(variant(conf, changes, "1", **{key: written}), spark=spark, noise=NoNoiseFixedSecret())
        assert made.manifest["source"]["snapshot"]["id"] == 1
        assert made.second_moment().iloc[0, 0] == 2
        assert dpspark.verify(made.path).passed
    finally:
        spark._jsparkSession.sharedState().externalCatalog().dropTable("default", name, True, False)


def test_a_delta_table_that_no_catalog_has(spark: Any, conf: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="Spark's catalog has no Delta table of that name"):
        dpspark.release(variant(conf, {}, "1", delta="default.nothing"), spark=spark)


@pytest.mark.parametrize("source", ["parquet", "reader", "table", "sql", "frame", "cached"])
def test_nan_behind_a_filter_does_not_depend_on_other_rows(
    spark: Any, conf: dict[str, Any], tmp_path: Path, source: str
) -> None:
    """Kills: row groups, or cached batches, that Spark skips by statistics, which leave NaN out.

    One record would bring back all rows with NaN.
    """
    counts = []
    for version, largest in (("a", 4.0), ("b", 6.0)):
        values = np.random.default_rng(1).uniform(0, 4, 2000)
        values[::2] = np.nan
        values[1] = largest
        path = str(tmp_path / f"{version}.parquet")
        pq.write_table(pa.table({"x": values, "age": np.full(2000, 20.0)}), path)
        changes = {"columns": {"age": {"lower": 18, "upper": 99}}, "where": "x > 5 and exp(age) > 0"}
        ways: dict[str, dict[str, Any]] = {
            "parquet": {"parquet": path},
            "reader": {"parquet": path, "reader": "spark"},
            "table": {"table": f"nan_{version}"},
            "sql": {"sql": f"select age, x from parquet.`{path}`"},
            "frame": {"dataframe": True, "rows_per_record": 1},
            "cached": {"dataframe": True},
        }
        if source == "table":
            spark.sql(f"create table nan_{version} using parquet location '{path}'")
        frame = spark.read.parquet(path).where("x > 5") if source == "frame" else None
        if source == "cached":
            frame = spark.read.parquet(path).cache()
            assert frame.count() == 2000
        try:
            made = variant(conf, changes, version, **ways[source])
            found = dpspark.release(made, frame, spark=spark, noise=NoNoiseFixedSecret())
        finally:
            spark.sql(f"drop table if exists nan_{version}")
        counts.append(found.second_moment().iloc[0, 0])
    assert counts == [1000, 1001]


def test_groups_without_any_listed_row(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: a pass that fails where no row is of a listed group, and so tells that there is none."""
    for name, key in (("a", "z"), ("b", "a")):
        (tmp_path / "data").mkdir(exist_ok=True)
        pq.write_table(pa.table({"age": [20.0] * 9, "g": [key] * 9}), tmp_path / "data" / f"{name}.parquet")
    changes = {"columns": {"age": {"lower": 18, "upper": 99}}}
    for version, listed in (("1", ["a"]), ("2", ["none"])):
        grouped = {**changes, "release": {"group_by": ["g"], "groups": listed}}
        for reader in ("auto", "spark"):
            source = {"parquet": str(tmp_path / "data"), "reader": reader}
            made = tables(variant(conf, grouped, version + reader, **source), spark)["second_moment.parquet"]
            assert made["value"][0] == (9 if listed == ["a"] else 0)


def test_defaults_of_columns_that_old_files_lack(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: null where a table says what rows from before a column was added have in it."""
    name = f"ways_{uuid.uuid4().hex}"
    spark.sql(f"create table {name} (age double) using parquet location '{tmp_path / 'table'}'")
    try:
        spark.sql(f"insert into {name} values (20), (30)")
        spark.sql(f"alter table {name} add columns (z double default 5.0)")
        spark.sql(f"insert into {name} values (40, 6)")
        changes = {"columns": {"age": {"lower": 18, "upper": 99}}, "where": "z = 5"}
        made = tables(variant(conf, changes, "1", table=name), spark)
        assert made["second_moment.parquet"]["value"][0] == 2
    finally:
        spark.sql(f"drop table {name}")


def test_views_of_text_behind_a_filter(spark: Any, conf: dict[str, Any], tmp_path: Path) -> None:
    """Kills: a filter of a column whose type pyarrow cannot take rows from."""
    text = pa.array(["F", "M", None, "F"]).cast(pa.string_view())
    pq.write_table(pa.table({"age": [20, 30, 40, 50], "sex": text, "who": text}), tmp_path / "views.parquet")
    changes: dict[str, Any] = {
        "columns": {"age": {"lower": 18, "upper": 99}, "sex": {"categories": ["F", "M"]}},
        "where": "age < 45",
        "nulls": "midpoint",
        "release": {"group_by": ["who"], "groups": ["F", "M"]},
    }
    made = tables(variant(conf, changes, "1", parquet=str(tmp_path / "views.parquet")), spark)
    assert made["second_moment.parquet"]["value"][0] == 1


@pytest.mark.parametrize("more", ["", " and exp(age) > 0"])
def test_other_letters_in_the_names_of_directories(spark: Any, conf: dict[str, Any], tmp_path: Path, more: str) -> None:
    """Kills: letters that mean something else as soon as Spark evaluates a filter."""
    table = pa.table({"age": [20.0, 30.0, 40.0], "place": ["süd", "nord", "süd"]})
    pq.write_to_dataset(table, tmp_path / "data", partition_cols=["place"])
    assert (tmp_path / "data" / "place=s%C3%BCd").is_dir()
    changes = {"columns": {"age": {"lower": 18, "upper": 99}}, "where": f"place = 'süd'{more}"}
    made = tables(variant(conf, changes, "1", parquet=str(tmp_path / "data")), spark)
    assert made["second_moment.parquet"]["value"][0] == 2


def test_a_column_that_spark_pads(spark: Any, conf: dict[str, Any], rows: Path) -> None:
    """Spark reads it, and its own padding is judged to be of one row. Kills: 'F' where the table says 'F  '."""
    spark.sql(f"create table padded (age bigint, sex char(3)) using parquet location '{rows.parent / 'padded'}'")
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
