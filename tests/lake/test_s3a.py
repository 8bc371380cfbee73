"""S3A, Hadoop's own connector, on Spark 3.5: paths, tables of a catalog, Iceberg."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_store import Bucket

from dpspark.errors import SourceError
from dpspark.ledger.ledger import Ledger
from tests.lake.conftest import ICEBERG
from tests.lake.releases import WAYS, is_direct, numbers, plain_file, released

pytestmark = pytest.mark.lake


@pytest.fixture
def filled(bucket: Bucket, rows: pa.Table, tmp_path: Path) -> Bucket:
    """The rows in two files of a bucket, in directories of their own."""
    for number, part in enumerate((rows.slice(0, 2500), rows.slice(2500))):
        pq.write_table(part, tmp_path / "part.parquet", row_group_size=1000)
        bucket.put(f"people/year={number}/a b.parquet", tmp_path / "part.parquet")
    return bucket


@pytest.mark.parametrize("way", WAYS)
def test_paths(spark: Any, conf: dict[str, Any], filled: Bucket, rows: pa.Table, tmp_path: Path, way: str) -> None:
    """Spark reads s3a://, tasks read s3://: the same objects, the same numbers as of a file on a disk."""
    plain = numbers(released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", rows)))
    through = {"parquet": f"s3a://{filled.name}/people"}
    direct = {"parquet": filled.address("people")}
    assert not is_direct(conf, spark, way, **through)
    assert numbers(released(conf, spark, way, "spark", **through)) == plain
    assert numbers(released(conf, spark, way, "tasks", **direct)) == plain
    if way == "plain":
        globbed = f"s3a://{filled.name}/people/year=*/*.parquet"
        assert numbers(released(conf, spark, way, "glob", parquet=globbed)) == plain


def test_bad_paths(spark: Any, conf: dict[str, Any], filled: Bucket) -> None:
    """Nothing there, and a lake table: refused before anything is charged."""
    with pytest.raises(SourceError):
        released(conf, spark, "plain", "1", parquet=f"s3a://{filled.name}/nobody")
    filled.put("people/_delta_log/00000000000000000000.json", b"{}")
    with pytest.raises(SourceError, match="is a Delta table"):
        released(conf, spark, "plain", "1", parquet=f"s3a://{filled.name}/people/year=0")
    assert Ledger(conf["ledger"]["url"]).find("people", "income", "1") is None


@pytest.mark.parametrize("way", ["plain", "where", "groups"])
@pytest.mark.parametrize("elsewhere", [False, True], ids=["s3a endpoint", "also in the environment"])
def test_a_table_of_the_catalog(
    spark: Any,
    conf: dict[str, Any],
    filled: Bucket,
    rows: pa.Table,
    tmp_path: Path,
    way: str,
    elsewhere: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks read its objects from where Spark's connector would. Kills: to ask Amazon for the bucket of that name."""
    if elsewhere:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")  # where nobody is
    plain = numbers(released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", rows)))
    name = f"default.s3_{filled.name.replace('-', '_')}"
    spark.sql(f"create table {name} using parquet location 's3a://{filled.name}/people'")
    spark.sql(f"msck repair table {name}")
    assert is_direct(conf, spark, way, table=name)
    assert numbers(released(conf, spark, way, "tasks", table=name)) == plain
    assert numbers(released(conf, spark, way, "spark", table=name, reader="spark")) == plain
    spark.sql(f"drop table {name}")


def test_a_bucket_that_is_amazon_s_to_spark(
    spark: Any, conf: dict[str, Any], filled: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: tasks that read a bucket of the same name elsewhere."""
    from dpspark.spark.catalog_files import NotFiles, find_store

    address = f"s3a://{filled.name}/people"
    found = find_store(spark, address)
    assert found is not None
    assert dict(found.options) == {"endpoint_override": filled.endpoint, "scheme": "http"}
    assert find_store(spark, f"s3://{filled.name}/people") is None  # of another connector
    setting = f"spark.hadoop.fs.s3a.bucket.{filled.name}.endpoint"
    spark.conf.set(setting.removeprefix("spark.hadoop."), "s3.eu-west-1.amazonaws.com")
    assert find_store(spark, address) is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{filled.endpoint}")
    with pytest.raises(NotFiles):
        find_store(spark, address)


@pytest.mark.parametrize("way", ["plain", "where"])
def test_iceberg(
    spark: Any, conf: dict[str, Any], bucket: Bucket, rows: pa.Table, rows_file: Path, tmp_path: Path, way: str
) -> None:
    """By its name, through Spark, and by its metadata at s3://."""
    catalog = f"c{bucket.name.replace('-', '')}"
    spark.conf.set(f"spark.sql.catalog.{catalog}", f"{ICEBERG}.SparkCatalog")
    spark.conf.set(f"spark.sql.catalog.{catalog}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{catalog}.warehouse", f"s3a://{bucket.name}/lake")
    name = f"{catalog}.db.people"
    spark.sql(
        f"create table {name} using iceberg tblproperties ('format-version'='2', 'write.delete.mode'='merge-on-read') "
        f"as select * from parquet.`{rows_file}`"
    )
    spark.sql(f"delete from {name} where id % 3 = 0")
    left = rows.filter(pa.array(rows["id"].to_numpy() % 3 != 0))
    plain = numbers(released(conf, spark, way, "plain", **plain_file(tmp_path / "plain.parquet", left)))
    assert is_direct(conf, spark, way, table=name)
    assert numbers(released(conf, spark, way, "name", table=name)) == plain
    assert numbers(released(conf, spark, way, "spark", table=name, reader="spark")) == plain
    path = {"iceberg": bucket.address("lake/db/people/metadata/v2.metadata.json")}
    assert numbers(released(conf, spark, way, "path", **path)) == plain
