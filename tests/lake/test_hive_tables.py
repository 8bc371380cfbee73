"""Tables of a Hive metastore, over Thrift: those of Parquet files are read by the tasks, all others through Spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.errors import SourceError
from tests.lake.releases import PLAIN, WAYS, is_direct, numbers, plain_file, released

pytestmark = pytest.mark.lake
COLUMNS = "id bigint, person bigint, age bigint, educ int, income double, sex string, day date"


@pytest.fixture(scope="module", autouse=True)
def database(spark: Any, rows_file: Path) -> None:
    spark.sql("create database if not exists census")
    spark.read.parquet(str(rows_file)).createOrReplaceTempView("rows")


@pytest.fixture
def plain(spark: Any, conf: dict[str, Any], rows: pa.Table, tmp_path: Path) -> Callable[..., str]:
    """The numbers of a release of the same rows in a file, or of some of them."""

    def numbers_of(way: str = "plain", keep: np.ndarray | None = None) -> str:
        table = rows if keep is None else rows.filter(pa.array(keep))
        return numbers(released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", table)))

    return numbers_of


def both_ways(conf: dict[str, Any], spark: Any, table: str, expected: str, way: str = "plain") -> None:
    """Read by tasks, and by Spark: the same numbers."""
    assert is_direct(conf, spark, way, table=table)
    assert numbers(released(conf, spark, way, "tasks", table=table)) == expected
    assert numbers(released(conf, spark, way, "spark", table=table, reader="spark")) == expected


def test_it_is_the_server_s_catalog(spark: Any, tmp_path: Path) -> None:
    """Kills: tests on a catalog in Spark's memory, or in a database of its own."""
    assert spark.conf.get("spark.sql.catalogImplementation") == "hive"
    catalog = spark._jsparkSession.sharedState().externalCatalog().unwrapped()
    assert catalog.client().getConf("hive.metastore.uris", "").startswith("thrift://127.0.0.1:")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["using parquet", "stored as parquet"], ids=["spark", "hive"])
def test_partitioned_tables(spark: Any, conf: dict[str, Any], plain: Callable[..., str], kind: str, way: str) -> None:
    """Of Spark's own kind and of Hive's; partitioned by text with nulls, and by a date."""
    name = f"census.parts_{kind[0]}_{way}"
    spark.sql("set hive.exec.dynamic.partition.mode=nonstrict")
    if kind.startswith("using"):
        spark.sql(
            f"create table {name} {kind} partitioned by (sex, day) as select {order()} from rows where day < '2019-04-20'"
        )
    else:
        spark.sql(f"create table {name} ({COLUMNS.partition(', sex')[0]}) partitioned by (sex string, day date) {kind}")
        spark.sql(f"insert into {name} select {order()} from rows where day < '2019-04-20'")
    assert len(spark.sql(f"show partitions {name}").collect()) > 5
    expected = plain(way, day_before(spark))
    both_ways(conf, spark, name, expected, way)


def order() -> str:
    return "id, person, age, educ, income, sex, day"


def day_before(spark: Any) -> np.ndarray:
    return np.array([row.c for row in spark.sql("select day < '2019-04-20' c from rows order by id").collect()])


def test_an_external_table(
    spark: Any, conf: dict[str, Any], plain: Callable[..., str], rows: pa.Table, tmp_path: Path
) -> None:
    """Files of another tool, whose names are written in other letters; directories that the catalog does not list."""
    names = {"age": "AGE", "income": "Income"}
    home = tmp_path / "ext é%20+1"
    ids = rows["id"].to_numpy()
    for part, keep in {"year=1": ids < 2000, "year=2": (ids >= 2000) & (ids < 4000), "year=3": ids >= 4000}.items():
        (home / part).mkdir(parents=True)
        table = rows.filter(pa.array(keep))
        pq.write_table(table.rename_columns([names.get(n, n) for n in table.column_names]), home / part / "a.parquet")
    elsewhere = tmp_path / "elsewhere"
    shutil.move(home / "year=2", elsewhere)
    location = str(home).replace("'", "\\'")
    spark.sql(
        f"create external table census.ext ({COLUMNS}) partitioned by (year int) stored as parquet location '{location}'"
    )
    spark.sql("alter table census.ext add partition (year = 1)")
    spark.sql(f"alter table census.ext add partition (year = 2) location '{elsewhere}'")
    for number, table in enumerate(("census.ext", "CENSUS.Ext")):
        conf["release"] = {**conf["release"], "name": f"income{number}"}
        both_ways(conf, spark, table, plain(keep=ids < 4000))


def test_columns_that_were_added(spark: Any, conf: dict[str, Any], plain: Callable[..., str], rows: pa.Table) -> None:
    """Kills: a column that old files lack, read as anything but null."""
    spark.sql(
        "create table census.added stored as parquet as select id, person, age, income, sex, day from rows where id < 3000"
    )
    spark.sql("alter table census.added add columns (educ int)")
    spark.sql("insert into census.added select id, person, age, income, sex, day, educ from rows where id >= 3000")
    conf["nulls"] = "drop_row"
    expected = plain(keep=rows["id"].to_numpy() >= 3000)  # who has no educ is left out
    both_ways(conf, spark, "census.added", expected)


@pytest.mark.parametrize("kind", ["stored as orc", "stored as textfile", "using orc", "using csv"])
def test_other_formats(spark: Any, conf: dict[str, Any], plain: Callable[..., str], kind: str) -> None:
    name = f"census.other_{kind.replace(' ', '_')}"
    spark.sql(f"create table {name} {kind} as select {order()} from rows")
    assert not is_direct(conf, spark, "plain", table=name)
    assert numbers(released(conf, spark, "where", "2", table=name)) == plain("where")


def test_a_format_of_hive_s_own(spark: Any, conf: dict[str, Any]) -> None:
    """A class of Hive's reads it, which could do anything with a row."""
    spark.sql(f"create table census.avro stored as avro as select {order()} from rows")
    with pytest.raises(SourceError, match="a Hive table in a format of its own"):
        released(conf, spark, "plain", "1", table="census.avro")


def test_views(spark: Any, conf: dict[str, Any], plain: Callable[..., str], rows: pa.Table) -> None:
    """Spark reads them, and they are judged: a filter may drop a record, a join may count one several times."""
    spark.sql("create table census.base stored as parquet as select * from rows")
    spark.sql("create view census.some as select * from census.base where id >= 1000")
    spark.sql("create view census.twice as select a.* from census.base a join census.base b on a.sex = b.sex")
    assert not is_direct(conf, spark, "plain", table="census.some")
    found = released(conf, spark, "plain", "view", table="census.some")
    assert numbers(found) == plain(keep=rows["id"].to_numpy() >= 1000)
    assert found.manifest["privacy"]["judged_by"] == "plan"
    with pytest.raises(SourceError, match="one record"):
        released(conf, spark, "plain", "join", table="census.twice")


@pytest.mark.parametrize("kind", ["char(3)", "varchar(3)"])
def test_char_columns(spark: Any, conf: dict[str, Any], plain: Callable[..., str], rows: pa.Table, kind: str) -> None:
    """Spark pads char(n) when it reads: 'F' in a file is 'F  ' in the table, and so it must be in a release."""
    name = f"census.c_{kind[:4]}"
    columns = COLUMNS.replace("sex string", f"sex {kind}")
    spark.sql(f"create table {name} ({columns}) stored as parquet")
    spark.sql(f"insert into {name} select {order()} from rows")
    padded = ["F  ", "M  "] if kind.startswith("char") else ["F", "M"]
    conf["columns"] = {**PLAIN, "sex": {"categories": padded}}
    assert is_direct(conf, spark, "plain", table=name) is kind.startswith("var")
    found = released(conf, spark, "plain", "1", table=name)
    assert numbers(found).replace("F  ", "F").replace("M  ", "M") == numbers(
        released({**conf, "columns": {**PLAIN, "sex": {"categories": ["F", "M"]}}}, spark, "plain", "2", table="rows")
    )


def test_what_is_not_there(spark: Any, conf: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match=r"census\.nothing"):
        released(conf, spark, "plain", "1", table="census.nothing")
    with pytest.raises(SourceError, match=r"nowhere\.people"):
        released(conf, spark, "plain", "1", table="nowhere.people")


def test_a_partition_whose_files_are_gone(spark: Any, conf: dict[str, Any], rows: pa.Table, tmp_path: Path) -> None:
    """Spark takes a partition without a directory for an empty one, and so do tasks."""
    spark.sql(
        f"create table census.gone using parquet partitioned by (sex) location '{tmp_path / 'gone'}' as "
        f"select {order()} from rows"
    )
    shutil.rmtree(tmp_path / "gone" / "sex=F")
    spark.sql("refresh table census.gone")
    tasks = numbers(released(conf, spark, "plain", "tasks", table="census.gone"))
    assert tasks == numbers(released(conf, spark, "plain", "spark", table="census.gone", reader="spark"))
