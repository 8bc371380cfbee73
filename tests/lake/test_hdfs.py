"""HDFS, with a real NameNode and DataNode, through Spark's reader: Hadoop's `libhdfs` is not here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dpspark
from dpspark.errors import ConfError, SourceError
from dpspark.ledger.ledger import Ledger
from tests.lake.releases import WAYS, is_direct, numbers, plain_file, released
from tests.lake.servers import hdfs

pytestmark = pytest.mark.lake


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as address:
        yield address


@pytest.fixture(scope="module")
def people(server: str, spark: Any, rows_file: Path) -> str:
    """The rows in a directory there, partitioned by a part of the day."""
    frame = spark.read.parquet(str(rows_file)).selectExpr("*", "month(day) as month")
    frame.write.partitionBy("month").parquet(f"{server}/lake é/people")
    return f"{server}/lake é/people"


@pytest.mark.parametrize("way", WAYS)
def test_a_release(spark: Any, conf: dict[str, Any], people: str, rows: pa.Table, tmp_path: Path, way: str) -> None:
    """The same numbers as of a file on a disk."""
    plain = numbers(released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", rows)))
    assert not is_direct(conf, spark, way, parquet=people)
    assert numbers(released(conf, spark, way, "hdfs", parquet=people)) == plain
    if way == "plain":
        assert numbers(released(conf, spark, way, "glob", parquet=f"{people}/month=*/*.parquet")) == plain


@pytest.mark.parametrize("way", ["plain", "where"])
def test_a_table_of_the_catalog(
    spark: Any, conf: dict[str, Any], people: str, rows: pa.Table, tmp_path: Path, way: str
) -> None:
    """Spark reads it, as the tasks cannot."""
    plain = numbers(released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", rows)))
    name = f"default.hdfs_{way}"
    spark.sql(f"create table {name} using parquet location '{people}'")
    spark.sql(f"msck repair table {name}")
    assert not is_direct(conf, spark, way, table=name)
    assert numbers(released(conf, spark, way, "name", table=name)) == plain


def test_values_in_directories_names(
    spark: Any, conf: dict[str, Any], people: str, rows: pa.Table, tmp_path: Path
) -> None:
    """They are read as the numbers that the conf says they are, like those of directories on a disk."""
    months = pc.month(rows["day"])
    path = plain_file(tmp_path / "plain.parquet", rows.append_column("month", months.cast(pa.int32())))
    conf["release"] |= {"group_by": ["month"], "groups": [4, 5, 6, 12]}
    conf["columns"] = {"age": {"lower": 18, "upper": 99}}
    plain = released(conf, spark, "plain", "plain", **path)
    assert numbers(released(conf, spark, "plain", "hdfs", parquet=people)) == numbers(plain)
    del conf["release"]["group_by"], conf["release"]["groups"]
    conf["columns"] |= {"month": {"lower": 1, "upper": 12}}
    plain = released(conf, spark, "plain", "plain2", **path)
    assert numbers(released(conf, spark, "plain", "hdfs2", parquet=people)) == numbers(plain)


@pytest.mark.parametrize(
    "log", ["_delta_log/00000000000000000000.json", ".hoodie/hoodie.properties", "metadata/v1.metadata.json"]
)
def test_lake_directories_are_refused(spark: Any, conf: dict[str, Any], server: str, rows_file: Path, log: str) -> None:
    """Hadoop's own listing finds the log above the files, before anything is charged."""
    place = f"{server}/{log.partition('/')[0]}-table"
    spark.read.parquet(str(rows_file)).write.parquet(f"{place}/data/year=1")
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs.Path(f"{place}/{log}")
    files = hadoop.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    files.create(hadoop).close()
    with pytest.raises(SourceError, match=r"is an? (Delta|Hudi|Iceberg) table"):
        released(conf, spark, "plain", "1", parquet=f"{place}/data/year=1")
    assert Ledger(conf["ledger"]["url"]).find("people", "income", "1") is None


def test_what_is_not_there(spark: Any, conf: dict[str, Any], server: str) -> None:
    """No such path; no server; an output, which needs libhdfs."""
    for place in (f"{server}/nobody", "hdfs://127.0.0.1:1/people"):
        with pytest.raises(SourceError):
            released(conf, spark, "plain", "1", parquet=place)
    with pytest.raises(ConfError, match="pyarrow cannot open hdfs://"):
        dpspark.release(conf, out=f"{server}/releases", spark=spark)
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].entries == ()
