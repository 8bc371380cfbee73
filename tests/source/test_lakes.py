"""Files of lake tables are not read as plain Parquet: on disks, in stores, and where only Spark knows the file system."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_store import Bucket

import dpspark
from dpspark.cli.main import main
from dpspark.errors import SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.source.lakes import look_on_disk, refuse_lake_files
from dpspark.source.listing import find_files, find_objects
from dpspark.source.parquet import open_parquet
from dpspark.source.stores import parse_address
from dpspark.spark.frames import open_spark_parquet
from dpspark.spark.lake_tables import refuse_lake_paths

ROW = pa.table({"x": [0.5]})
# As the tables' own writers lay them out.
DELTA = ["_delta_log/00000000000000000000.json", "sex=F/part-0.parquet", "sex=F/part-1.parquet", "sex=M/part-0.parquet"]
TABLES = {
    "delta": DELTA,
    "delta, no entry yet": ["_delta_log/", *DELTA[1:]],
    "delta, a checkpoint": ["_delta_log/00000000000000000010.checkpoint.parquet", *DELTA[1:]],
    "iceberg": ["metadata/00001-5f.metadata.json", "data/part-0.parquet", "data/sex=F/part-1.parquet"],
    "iceberg, compressed": ["metadata/v2.gz.metadata.json", "data/sex=F/part-0.parquet"],
    "iceberg, compressed as before": ["metadata/v2.metadata.json.gz", "data/sex=F/part-0.parquet"],
    "iceberg of hadoop": ["metadata/version-hint.text", "data/sex=F/part-0.parquet"],
    "hudi": [".hoodie/hoodie.properties", "sex=F/part-0.parquet"],
    "paimon": ["manifest/manifest-list-3b-0", "bucket-0/data-0.parquet", "sex=F/bucket-0/part-0.parquet"],
    "a stream": ["_spark_metadata/0", "part-0.parquet", "sex=F/part-0.parquet"],
}
PLAIN = {
    "other metadata": ["metadata/people.json", "metadata/schema.txt", "part-0.parquet"],
    "a file called metadata": ["metadata", "part-0.parquet"],
    "names that only begin so": ["_delta_logs/0.json", ".hoodie2/a", "metadata2/v1.metadata.json", "part-0.parquet"],
    "a lake beside it, hidden": ["_old/_delta_log/0.json", "_old/part-0.parquet", "part-0.parquet"],
}


def names_of(files: list[str]) -> list[str]:
    return [name for name in files if name.endswith(".parquet") and not name.startswith("_")]


def build(folder: Path, files: list[str]) -> Path:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif name.endswith(".parquet"):
            pq.write_table(ROW, path)
        else:
            path.write_bytes(b"{}")
    return folder


def ways_in(files: list[str]) -> list[str]:
    """Every way to some of a table's files: itself, each directory, each file, and globs."""
    data = names_of(files)
    folders = {str(parent) for name in data for parent in Path(name).parents if str(parent) != "."}
    depth = max(name.count("/") for name in data)
    globs = ["/".join(["*"] * count + ["*.parquet"]) for count in range(depth + 1)]
    matching = [glob for glob in globs if any(name.count("/") == glob.count("/") for name in data)]
    return [
        "",
        *sorted(folders),
        *data,
        *matching,
        "**",
        "**/*.parquet",
        "*",
        "**/sex=*" if "sex=F" in str(folders) else "**",
        "[!_.]*",
    ]


@pytest.mark.parametrize("table", TABLES)
def test_no_way_leads_into_a_table(tmp_path: Path, table: str) -> None:
    """Fails on 0.2.0: all but the directory of a Delta table itself were read, with superseded and deleted files.

    Kills: looking for a log in the given directory alone.
    """
    lake = build(tmp_path / "lake", TABLES[table])
    for way in ways_in(TABLES[table]):
        with pytest.raises(SourceError, match=r"(Delta|Iceberg|Hudi|Paimon) table|streaming query") as refused:
            find_files(str(lake / way).rstrip("/"))
        assert refused.value.exit_code == 4
        assert "sex=F" not in str(refused.value).partition(": ")[2]
    build(tmp_path / "plain", ["a.parquet"])
    for way in ("", "**", "*", "*/**/*.parquet", "*/**"):  # one table among plain directories
        with pytest.raises(SourceError, match="its log"):
            find_files(str(tmp_path / way).rstrip("/"))
    assert len(find_files(str(tmp_path / "pl*" / "*.parquet"))[1]) == 1


@pytest.mark.parametrize("table", TABLES)
def test_no_way_leads_into_a_table_of_a_store(tmp_path: Path, bucket: Bucket, table: str) -> None:
    """Fails on 0.2.0: only `_delta_log` below the given address was seen."""
    build(tmp_path / "lake", TABLES[table])
    for path in (tmp_path / "lake").rglob("*"):
        if path.is_file():
            bucket.put(f"db/lake/{path.relative_to(tmp_path / 'lake')}", path)
        elif path.name == "_delta_log":
            bucket.files.create_dir(f"{bucket.name}/db/lake/_delta_log")
    bucket.put("db/plain/a.parquet", b"x")

    def objects(way: str) -> Any:
        address = parse_address(bucket.address(way))
        assert address is not None
        return find_objects(*address)

    for way in [*(f"db/lake/{way}".rstrip("/") for way in ways_in(TABLES[table])), "", "db", "db/*", "**"]:
        with pytest.raises(SourceError, match="its log says which files count"):
            objects(way)
    assert len(objects("db/plain")[1]) == len(objects("db/p*/*.parquet")[1]) == 1


@pytest.mark.parametrize("table", PLAIN)
def test_what_is_no_table(tmp_path: Path, bucket: Bucket, table: str) -> None:
    """Kills: refusing every directory that has one called metadata."""
    plain = build(tmp_path / "plain", PLAIN[table])
    for path in plain.rglob("*"):
        if path.is_file():
            bucket.put(f"plain/{path.relative_to(plain)}", path)
    address = parse_address(bucket.address("plain/*.parquet"))
    assert address is not None
    assert len(find_files(str(plain / "*.parquet"))[1]) == len(find_objects(*address)[1]) == 1
    assert str(plain / "part-0.parquet") in [file for file, _ in find_files(str(plain))[1]]


LINKS: dict[str, Callable[[Path], Path]] = {
    "a file": lambda lake: lake / "sex=F" / "part-0.parquet",
    "a directory": lambda lake: lake / "sex=F",
    "the table": lambda lake: lake,
}


@pytest.mark.parametrize("link", LINKS)
def test_links_into_a_table(tmp_path: Path, link: str) -> None:
    """Fails on 0.2.0. Kills: looking at the path as it is written alone, or at where it ends alone."""
    lake = build(tmp_path / "lake", DELTA)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a").symlink_to(os.path.relpath(LINKS[link](lake), tmp_path / "plain"))
    (tmp_path / "again").symlink_to(tmp_path / "plain" / "a")
    for way in ("plain", "plain/a", "again", "plain/*", "pl*", "**"):
        with pytest.raises(SourceError, match="Delta table"):
            find_files(str(tmp_path / way))


def test_links_out_of_a_table_and_through_it(tmp_path: Path) -> None:
    """A table whose directories are links elsewhere, and a link by way of one of these."""
    lake = build(tmp_path / "lake", DELTA[:1])
    build(tmp_path / "blobs", ["part-0.parquet"])
    (lake / "sex=F").symlink_to(tmp_path / "blobs")
    (tmp_path / "by").symlink_to(lake / "sex=F")
    for way in ("lake/*/*.parquet", "lake/sex=F", "by", "by/part-0.parquet"):
        with pytest.raises(SourceError, match="Delta table"):
            find_files(str(tmp_path / way))
    assert len(find_files(str(tmp_path / "blobs"))[1]) == 1


def test_a_directory_above_that_cannot_be_looked_at() -> None:
    """Kills: no answer taken for a no."""

    def look(directory: str, marks: Any) -> bool:
        if directory == "s3a://bucket/":
            raise PermissionError(13, "Permission denied")
        return False

    with pytest.raises(SourceError, match=r"cannot be told, as s3a://bucket/ cannot be looked at \(Permission denied"):
        refuse_lake_files("source", ["s3a://bucket/people/k=secret/a.parquet"], look)


def test_a_file_that_iceberg_wrote(tmp_path: Path) -> None:
    """Its table may keep data and metadata apart; the footer tells. Fails on 0.2.0."""
    pq.write_table(ROW.replace_schema_metadata({"iceberg.schema": "{}"}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet was written by Iceberg"):
        open_parquet(str(tmp_path), [])


def test_before_anything_is_charged(conf: dict[str, Any], people: Path, tmp_path: Path, capsys: Any) -> None:
    """`check` and `release` alike; by a filter, too. Fails on 0.2.0: 800 rows became 2,700."""
    build(tmp_path / "lake", ["_delta_log/0.json"])
    (tmp_path / "lake" / "sex=F").mkdir()
    people.rename(tmp_path / "lake" / "sex=F" / "a.parquet")
    del conf["columns"]["sex"]
    conf["source"] = {"parquet": f"{tmp_path}/lake/*/*.parquet"}
    for more in ({}, {"where": "age > 20"}):
        with pytest.raises(
            SourceError, match=r"Use source: \{delta: .*lake\}, or source\.table, so that Spark reads its log"
        ):
            dpspark.release({**conf, **more})
    assert Ledger(conf["ledger"]["url"]).find("people", "income", "1") is None
    path = tmp_path / "conf.json"
    path.write_text(json.dumps(conf))
    with pytest.raises(SystemExit) as left:
        main(["check", str(path)])
    assert left.value.code == 4
    assert "is a Delta table" in capsys.readouterr().err


def test_addresses_as_spark_shows_them(tmp_path: Path) -> None:
    lake = build(tmp_path / "lake", DELTA)
    asked = []

    def look(directory: str, marks: Any) -> bool:
        asked.append(directory)
        return directory.startswith("file:") and look_on_disk(directory.removeprefix("file:"), marks)

    for name in ("sex=F/part-0.parquet", "sex=F", ""):
        with pytest.raises(SourceError, match=r"the relation: file:/.*/lake is a Delta table"):
            refuse_lake_files("the relation", [f"file:{lake}/{name}"], look)
    refuse_lake_files("the relation", ["hdfs://host:8020/a/b.parquet", "hdfs://host:8020/a/c.parquet"], look)
    hdfs = [one for one in asked if one.startswith("hdfs")]
    assert hdfs == [
        "hdfs://host:8020/a/b.parquet",
        "hdfs://host:8020/a",
        "hdfs://host:8020/",
        "hdfs://host:8020/a/c.parquet",
    ]


def through_spark(spark: Any, path: str) -> Any:
    """As for an address that only Spark knows."""
    return open_spark_parquet(spark, path, None)[0]


@pytest.mark.spark35
@pytest.mark.parametrize("table", [name for name in TABLES if name != "a stream"])
def test_where_only_spark_knows_the_file_system(spark: Any, tmp_path: Path, table: str) -> None:
    """Fails on 0.2.0. Kills: a check of what this process can see alone."""
    lake = build(tmp_path / "la ke[1]", TABLES[table])
    build(tmp_path / "plain", ["k=a%20b/a.parquet", "k={c}/b.parquet"])
    data = names_of(TABLES[table])
    quoted = str(lake).replace("[1]", "\\[1\\]")
    for way in (
        f"{quoted}/{Path(data[0]).parent}",
        f"{quoted}/{data[0]}",
        f"file:{quoted}/{'*/' * data[0].count('/')}*.parquet",
    ):
        with pytest.raises(SourceError, match=r"source\.parquet=.*: file:/.*/la ke\[1\] is an? \w+ table"):
            through_spark(spark, way)
    assert through_spark(spark, f"file:{tmp_path}/plain").count() == 2
    (tmp_path / "link").symlink_to(lake / Path(data[0]).parent)
    with pytest.raises(SourceError, match=r"is an? \w+ table"):
        through_spark(spark, f"{tmp_path}/link")


def test_what_a_streaming_query_writes(spark: Any, tmp_path: Path) -> None:
    """Spark reads it by its log, if it is given the directory; a file that the log does not know is no row."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    out, seen = str(tmp_path / "out"), str(tmp_path / "seen")
    rows.writeStream.trigger(once=True).option("checkpointLocation", seen).format("parquet").start(
        out
    ).awaitTermination()
    expected = spark.read.parquet(out).count()
    (written,) = [path for path in (tmp_path / "out").glob("*.parquet") if pq.ParquetFile(path).metadata.num_rows][:1]
    shutil.copy(written, tmp_path / "out" / "left-over.parquet")
    assert through_spark(spark, out).count() == through_spark(spark, f"file:{out}/").count() == expected
    for way in (f"{out}/*.parquet", str(written)):
        with pytest.raises(SourceError, match="streaming query's output"):
            through_spark(spark, way)
    with pytest.raises(SourceError, match=r"select \* from parquet\.`"):
        find_files(out)


def test_a_file_system_that_gives_no_answer(spark: Any) -> None:
    with pytest.raises(SourceError, match=r"cannot be told, as nowhere://a/b cannot be looked at \(Unsupported"):
        refuse_lake_paths(spark, "the relation", ["nowhere://a/b"])
