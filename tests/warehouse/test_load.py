"""Releases as tables: every kind, in Spark's catalog, in Delta and in Iceberg; once each, however often it is loaded."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyiceberg.catalog
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

import dpspark
from dpspark.bundle.table_address import parse_tables
from dpspark.cli.main import main
from dpspark.errors import ConfError, OutputError
from dpspark.ledger.ledger import Ledger
from dpspark.published.reading import read_release
from dpspark.warehouse.rows import rows_of
from dpspark.warehouse.shapes import RELEASES, RESULTS, SHAPES
from tests.kinds_of_release import BY, CONFS, published_kinds
from tests.report.bundles import conf_with, people, published

KINDS = ("gram", "gram by group", "gram_ridge by group", "lines by group, with interval", "quantiles by group")


class Tables:
    """Tables at one address, read back by another library than wrote them where that can be."""

    def __init__(self, kind: str, place: Path, spark: Any):
        self.kind, self.place, self.spark = kind, place, spark if kind == "spark" else None
        self.schema = f"results_{uuid.uuid4().hex[:8]}"
        if kind == "spark":
            spark.sql(f"CREATE SCHEMA {self.schema} LOCATION '{place / 'warehouse'}'")
        if kind == "iceberg":
            load_catalog("results").create_namespace(self.schema)
        shown = {"spark": self.schema, "delta": f"delta:{place / 'lake'}", "iceberg": f"iceberg:results.{self.schema}"}
        self.address = shown[kind]

    def load(self, release: Any, **more: Any) -> Any:
        return dpspark.load(release, self.address, self.spark, **more)

    def read(self, table: str) -> list[dict[str, Any]]:
        if self.kind == "spark":
            return [row.asDict() for row in self.spark.table(f"{self.schema}.{table}").collect()]
        if self.kind == "delta":
            found = DeltaTable(str(self.place / "lake" / table)).to_pyarrow_table()
        else:
            found = load_catalog("results").load_table((self.schema, table)).scan().to_arrow()
        rows = duckdb.from_arrow(found).to_arrow_table()
        return [{**row, "group_keys": dict(row["group_keys"])} for row in rows.to_pylist()]


@pytest.fixture(params=["spark", "delta", "iceberg"])
def tables(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    monkeypatch.setenv("PYICEBERG_CATALOG__RESULTS__URI", f"sqlite:///{tmp_path / 'catalog.db'}")
    monkeypatch.setenv("PYICEBERG_CATALOG__RESULTS__WAREHOUSE", f"file://{tmp_path / 'iceberg'}")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # which it reads once
    spark = request.getfixturevalue("spark") if request.param == "spark" else None
    found = Tables(request.param, tmp_path, spark)
    yield found
    if spark is not None:
        spark.sql(f"DROP SCHEMA {found.schema} CASCADE")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Releases with names of their own."""
    place, values = tmp_path_factory.mktemp("kinds"), people(4000)
    return {
        kind: published(place / str(i), {**CONFS[kind], "release": {**CONFS[kind]["release"], "name": f"r{i}"}}, values)
        for i, kind in enumerate(KINDS)
    }


def plain(rows: list[dict[str, Any]]) -> list[str]:
    """Rows in an order of their own; NaN is equal to itself."""
    return sorted(repr(sorted(row.items())) for row in rows)


def test_every_kind_once(tables: Tables, kinds: dict[str, Path]) -> None:
    """Kills: rows that differ from the bundle's; rows that are there twice; keys of groups that are lost or mixed."""
    assert all(tables.load(path).new for path in kinds.values())
    assert not tables.load(kinds["quantiles by group"]).new
    assert tables.load(kinds["gram by group"], replace=True).new
    for table in RESULTS:
        expected = [row for path in kinds.values() for row in rows_of(read_release(path)).tables[table].to_pylist()]
        expected = [{**row, "group_keys": dict(row["group_keys"])} for row in expected]
        assert plain(tables.read(table)) == plain(expected), table
    assert {row["release"] for row in tables.read("dpspark_second_moments")} == {"r0", "r1"}
    grouped = [row["group_keys"] for row in tables.read("dpspark_predictions")]
    assert {key["tract"] for key in grouped} == {"a", "b"}
    assert all(row["group_keys"] == {} for row in tables.read("dpspark_second_moments") if row["release"] == "r0")
    (row,) = [row for row in tables.read(RELEASES) if row["release"] == "r3"]
    manifest = read_release(kinds["lines by group, with interval"]).manifest
    assert (row["kind"], row["mechanism"], row["epsilon"]) == ("theil_sen", manifest["mechanism"]["name"], 8.0)
    assert row["guarantee"] == manifest["guarantee"]
    assert row["group_keys"] == {"tract": "string"}
    assert row["created_at"].isoformat()[:19] == manifest["created_at"][:19]


def test_another_version_and_another_release(tables: Tables, tmp_path: Path) -> None:
    """Kills: a version in place of another; a release of the same name and version, of other people, that is lost."""
    values = people(500)
    one, two = (published(tmp_path / v, conf_with(release={"version": v}), values) for v in ("1", "2"))
    for path in (one, two):
        tables.load(path)
    assert [row["version"] for row in tables.read(RELEASES)] in (["1", "2"], ["2", "1"])
    other = published(tmp_path / "other", conf_with(release={"version": "1", **BY}), values)
    with pytest.raises(OutputError, match=r"another release income 1, .*\n.*--replace"):
        tables.load(other)
    assert len(tables.read("dpspark_second_moments")) == 2 * 81
    assert tables.load(other, replace=True).new
    assert len(tables.read("dpspark_second_moments")) == 81 + 162
    assert len(tables.read(RELEASES)) == 2


def test_rows_that_were_lost_come_back(tables: Tables, kinds: dict[str, Path]) -> None:
    """Kills: a load that goes by the row of the release alone."""
    from dpspark.warehouse.load import find_address, table_store

    tables.load(kinds["gram"])
    table_store(find_address(tables.address), tables.spark).remove("dpspark_second_moments", "r0", "1")
    assert tables.read("dpspark_second_moments") == []
    assert tables.load(kinds["gram"]).new
    assert len(tables.read("dpspark_second_moments")) == 81


def test_many_at_once(tables: Tables, tmp_path: Path) -> None:
    """Kills: a load that is lost to another's commit; a table that two of them make at once."""
    values = people(300)
    paths = [published(tmp_path / str(i), conf_with(release={"name": f"n{i}"}), values) for i in range(4)]
    failed: list[BaseException] = []

    def load(path: Path) -> None:
        try:
            tables.load(path)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=load, args=(path,)) for path in paths for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(row["release"] for row in tables.read(RELEASES)) == ["n0", "n1", "n2", "n3"]
    assert len(tables.read("dpspark_second_moments")) == 4 * 81


def test_the_newest_by_time_and_not_by_text(spark: Any, tmp_path: Path) -> None:
    """Kills: a view that takes version 9 for newer than 10."""
    tables, values = Tables("spark", tmp_path, spark), people(300)
    for version, made in (("9", "2026-01-01T00:00:00+00:00"), ("10", "2026-02-01T01:00:00+02:00"), ("1", None)):
        path = published(tmp_path / version, conf_with(release={"version": version}), values)
        release = read_release(path)
        release.manifest["created_at"] = made  # a stranger's manifest may not say it
        tables.load(release)
    (newest,) = tables.read("dpspark_latest")
    assert newest["version"] == "10"
    joined = spark.sql(
        f"SELECT count(*) FROM {tables.schema}.dpspark_second_moments "
        f"JOIN {tables.schema}.dpspark_latest USING (release, version)"
    )
    assert joined.collect()[0][0] == 81
    written = str(tmp_path / "warehouse" / "dpspark_second_moments" / "*" / "*" / "*.parquet")
    assert duckdb.sql(f"select count(*) from read_parquet('{written}')").fetchall() == [(3 * 81,)]
    spark.sql(f"DROP SCHEMA {tables.schema} CASCADE")


OTHER_SHAPE = pa.schema([("release", pa.string()), ("version", pa.string()), ("value", pa.string())])


def make_other(tables: Tables) -> None:
    """A table of somebody else, under our name."""
    if tables.kind == "spark":
        tables.spark.sql(f"CREATE TABLE {tables.schema}.dpspark_quantiles (release string, value string) USING parquet")
    elif tables.kind == "delta":
        DeltaTable.create(str(tables.place / "lake" / "dpspark_quantiles"), OTHER_SHAPE)
    else:
        load_catalog("results").create_table((tables.schema, "dpspark_quantiles"), OTHER_SHAPE)


def test_a_table_of_another_shape(tables: Tables, kinds: dict[str, Path], conf: dict[str, Any], spark: Any) -> None:
    """Kills: a charge for a release that cannot be loaded; a table of somebody else that is written to."""
    make_other(tables)
    with pytest.raises(
        OutputError, match=r"dpspark_quantiles is there with other columns: value string; expected .*group_keys map"
    ):
        tables.load(kinds["gram"])
    spec = {**conf, "output": {**conf["output"], "tables": tables.address}}
    with pytest.raises(OutputError, match="other columns"):
        dpspark.release(spec, spark=spark)
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].spent_epsilon == 0
    assert len(tables.read("dpspark_quantiles")) == 0


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nowhere", "no schema 'spark_catalog.nowhere'"),
        ("nowhere.results", "no schema 'nowhere.results'"),
        ("iceberg:nowhere.results", "no catalog 'nowhere'"),
        ("delta:/proc/nowhere", "delta:/proc/nowhere"),
    ],
)
def test_tables_that_are_not_there(address: str, why: str, conf: dict[str, Any], spark: Any) -> None:
    """Kills: a charge for a release whose tables cannot be."""
    spec = {**conf, "output": {**conf["output"], "tables": address}}
    with pytest.raises(OutputError, match=why):
        dpspark.release(spec, spark=spark)
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].spent_epsilon == 0


def test_a_release_and_its_tables(tables: Tables, conf: dict[str, Any], spark: Any) -> None:
    """Published and then loaded; loaded when the conf asks for it later, and nothing more is spent."""
    dpspark.release(conf, spark=spark)
    spent = Ledger(conf["ledger"]["url"]).balances("people")[0].spent_epsilon
    spec = {**conf, "output": {**conf["output"], "tables": tables.address}}
    told: list[str] = []
    dpspark.release(spec, spark=spark, report=told.append)
    dpspark.release(spec, spark=spark, report=told.append)
    assert sum(text.startswith("loaded into tables") for text in told) == 1
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].spent_epsilon == spent
    dpspark.release({**spec, "release": {"name": "income", "version": "2"}}, spark=spark)
    found = {row["version"]: row["path"] for row in tables.read(RELEASES)}
    assert found == {v: str(Path(conf["output"]["path"]) / "income" / v) for v in ("1", "2")}
    # Another ledger, the same name and version: nothing is charged for what cannot be loaded.
    url = f"sqlite:///{tables.place / 'other.db'}"
    Ledger(url).grant("people", epsilon=1.0, delta=1e-9)
    elsewhere = {**spec, "ledger": {"url": url, "dataset": "people"}}
    elsewhere["output"] = {**spec["output"], "path": str(tables.place / "elsewhere")}
    with pytest.raises(OutputError, match="another release income 1"):
        dpspark.release(elsewhere, spark=spark)
    assert Ledger(url).balances("people")[0].spent_epsilon == 0


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def test_the_command(kinds: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a damaged release that is loaded; an address that means nothing; options that are ignored."""
    lake = f"delta:{tmp_path / 'lake'}"
    assert run("load", str(kinds["gram"]), "--tables", lake) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        f"{tmp_path}/lake/dpspark_second_moments: 81 rows",
        f"{tmp_path}/lake/dpspark_releases: 1 row",
    ]
    assert run("load", str(kinds["gram"]), "--tables", lake) == 0
    assert "there already" in capsys.readouterr().err
    assert run("load", str(kinds["gram"]), "--tables", lake, "--remote", "sc://h:1") == 2
    assert run("load", str(tmp_path / "nowhere"), "--tables", lake) == 2
    (path,) = published_kinds(tmp_path, ["gram"]).values()
    (path / "second_moment.parquet").write_bytes(b"PAR1")
    assert run("load", str(path), "--tables", lake) == 4
    assert "damaged" in capsys.readouterr().err


def test_a_check_names_the_tables(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a conf whose tables nobody sees before they are written."""
    assert run("check", conf_file, "--set", "output.tables=lake.results") == 0
    assert "tables     lake.results: once it is published, by Spark" in capsys.readouterr().out
    assert run("check", conf_file, "--set", "output.tables=lake results") == 2
    assert "expected catalog.schema of Spark" in capsys.readouterr().err


def test_a_catalog_that_forgets(kinds: dict[str, Path], spark: Any) -> None:
    """Kills: tables in the memory of a Spark that ends with the command. (The session of the tests is one of our own.)"""
    with pytest.raises(OutputError, match="keeps its catalog in memory"):
        dpspark.load(kinds["gram"], "default")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("results", ("spark", "results")),
        ("lake.db.results", ("spark", "lake", "db", "results")),
        ("delta:/a/b", ("delta", "/a/b")),
        ("delta:s3a://bucket/a", ("delta", "s3://bucket/a")),
        ("iceberg:lake.results", ("iceberg", "lake", "results")),
    ],
)
def test_addresses(text: str, parts: tuple[str, ...]) -> None:
    found = parse_tables(text)
    assert (found.kind, *found.parts) == parts


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "a..b",
            "a.b;drop table x",
            "a.`b`",
            "/a/b",
            "s3://bucket/a",
            "delta:",
            "delta:a/../b",
            "iceberg:lake",
            "a b",
        ),
        *("delta:s3://AKID:wJalr@bucket/a", "hive:a.b", "delta:s3://bucket/a?secret_key=wJalr"),
    ],
)
def test_what_is_no_address(text: str, conf: dict[str, Any]) -> None:
    """Kills: SQL in a name; a secret in a message."""
    if text:
        with pytest.raises(ConfError) as refused:
            dpspark.load_spec({**conf, "output": {"tables": text}})
        assert "wJalr" not in str(refused.value)
    with pytest.raises(ConfError) as refused:
        dpspark.load("nowhere", text)
    assert "wJalr" not in str(refused.value)


def test_delta_in_a_store(kinds: dict[str, Path], bucket: Any) -> None:
    """On a server of the S3 API."""
    address = "delta:" + bucket.address("results").replace("s3://", "s3a://")
    for _ in range(2):
        found = dpspark.load(kinds["gram"], address)
    assert not found.new
    assert found.tables == {
        f"s3://{bucket.name}/results/dpspark_second_moments": 81,
        f"s3://{bucket.name}/results/{RELEASES}": 1,
    }


def test_shapes_are_those_of_the_contract() -> None:
    """Kills: a table without the columns that all of them have."""
    assert set(SHAPES) == {
        *(
            "dpspark_releases",
            "dpspark_second_moments",
            "dpspark_coefficients",
            "dpspark_predictions",
            "dpspark_quantiles",
        )
    }
    for shape in SHAPES.values():
        assert shape.names[:3] == ["release", "version", "group_keys"]
