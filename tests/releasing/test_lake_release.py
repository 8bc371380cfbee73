"""Releases of Delta and Iceberg tables, whose files the tasks read: one snapshot, in the manifest, in every pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import dpspark
from dpspark.cli.main import main
from dpspark.errors import ConfError, SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.releasing.opening import open_files, open_rows
from dpspark.spark.frames import FrameSource
from dpspark.spec.spec import load_spec
from dpspark.verifying.verification import verify
from tests.lake_tables import (
    commit_iceberg,
    delta_add,
    delta_field,
    delta_vector,
    iceberg_catalog,
    position_deletes,
    write_delta,
)
from tests.noises import SeededNoise
from tests.source.test_changed_sources import NeverDrawn

GONE = [0, 7, 11_999, 12_000, 39_999]


@pytest.fixture
def delta(tmp_path: Path, people: Path) -> Path:
    """The people as a Delta table with deleted rows, whose column `pay` is called income by now."""
    place = tmp_path / "delta"
    place.mkdir()
    table = pq.read_table(people).rename_columns(["age", "educ", "pay", "sex"])
    pq.write_table(table, place / "a.parquet", row_group_size=6000)
    kinds = {"age": "long", "educ": "integer", "income": "double", "sex": "string"}
    named = zip(kinds.items(), table.column_names, strict=True)
    fields = [delta_field(name, kind, i + 1, stored) for i, ((name, kind), stored) in enumerate(named)]
    entry = delta_add("a.parquet", 40_000, deletionVector=delta_vector(place, "u", GONE))
    features = ["columnMapping", "deletionVectors"]
    return write_delta(place, fields, [entry], features, (), {"delta.columnMapping.mode": "name"})


@pytest.fixture
def iceberg(tmp_path: Path, people: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same as an Iceberg table."""
    content = pq.read_table(people).rename_columns(["age", "educ", "pay", "sex"])
    table = iceberg_catalog(monkeypatch, tmp_path / "warehouse").create_table("db.people", schema=content.schema)
    table.append(content)
    with table.update_schema() as update:
        update.rename_column("pay", "income")
    path = next(iter(table.scan().plan_files())).file.file_path
    commit_iceberg(table, [position_deletes(table, {path: GONE})])
    return table


@pytest.fixture
def left(tmp_path: Path, people: Path) -> dict[str, Any]:
    """A plain file of the rows that are left, as a source."""
    table = pq.read_table(people)
    pq.write_table(table.filter(pa.array(~np.isin(np.arange(len(table)), GONE))), tmp_path / "left.parquet")
    return {"parquet": str(tmp_path / "left.parquet")}


def released(conf: dict[str, Any], spark: Any, version: str, **more: Any) -> Any:
    """A release whose noise is always the same, so that equal sums are equal releases."""
    conf = {**conf, **more, "release": {**conf["release"], **more.get("release", {}), "version": version}}
    return dpspark.release(conf, spark=spark, noise=SeededNoise(np.random.default_rng(5)))


GROUPS = {"group_by": ["sex"], "groups": [["F"], ["M"]]}
PLAIN = {name: {"lower": 0, "upper": 200_000} for name in ("age", "income")}
WAYS: list[dict[str, Any]] = [
    {},
    {"where": "age >= 30", "columns": {**PLAIN, "old": {"expr": "age * 2", "lower": 0, "upper": 200}}},
    {"columns": PLAIN, "release": GROUPS},
]


@pytest.mark.parametrize("more", WAYS, ids=["plain", "where", "groups"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_release(
    spark: Any, conf: dict[str, Any], request: pytest.FixtureRequest, left: Any, kind: str, more: dict[str, Any]
) -> None:
    """The same numbers as of a plain file of the rows that are left; the manifest has the snapshot, and verifies."""
    table = request.getfixturevalue(kind)
    source: dict[str, Any] = {"delta": str(table)} if kind == "delta" else {"iceberg": "lake.db.people"}
    found = released(conf, spark, kind, source=source, **more)
    plain = released(conf, spark, "plain", source=left, **more)
    for name in plain.content.tables:
        assert found.content.tables[name]["value"].equals(plain.content.tables[name]["value"])
    number = 0 if kind == "delta" else table.current_snapshot().snapshot_id
    own = DeltaTable(table).metadata().id if kind == "delta" else table.metadata.table_uuid
    assert found.manifest["source"]["snapshot"] == {"format": kind, "id": number, "table": str(own)}
    assert "snapshot" not in plain.manifest["source"]
    assert found.manifest["privacy"]["judged_by"] == plain.manifest["privacy"]["judged_by"]
    assert more.get("where") or found.manifest["privacy"]["judged_by"] == "files"
    assert found.manifest["spec"]["source"] == source
    assert verify(found.path).passed
    assert "income" in str(found.describe())


def test_a_version_that_is_asked_for(spark: Any, conf: dict[str, Any], people: Path, tmp_path: Path) -> None:
    """Also an empty table, a unit, and a table that is written to between two passes."""
    table = pq.read_table(people)
    for part in (table, table.slice(0, 30_000), table.slice(0, 0)):
        write_deltalake(tmp_path / "t", part, mode="overwrite")
    source = {"delta": str(tmp_path / "t")}
    counts = []
    for version in (0, 1, 2, None):
        asked = source if version is None else {**source, "version": version}
        found = released(conf, spark, f"v{version}", source=asked)
        assert found.manifest["source"]["snapshot"]["id"] == (2 if version is None else version)
        counts.append(found.second_moment(repair="none").iloc[0, 0])
    assert np.allclose(counts, [40_000, 30_000, 0, 0], atol=200)


def before_passes(act: Callable[[], None]) -> Callable[[str], None]:
    """Do something after the source was opened, each time before it is read."""
    return lambda step: act() if step.startswith(("finding bounds", "reading")) else None


def test_a_table_that_is_written_to(spark: Any, conf: dict[str, Any], people: Path, tmp_path: Path) -> None:
    """All passes read the snapshot that was opened, however often it is written to in between."""
    table, place = pq.read_table(people), tmp_path / "t"
    write_deltalake(place, table)
    conf["columns"] = {"age": {"bounds": "private", "search": [0, 1000]}, "educ": {"lower": 1, "upper": 16}}
    conf["source"] = {"delta": str(place)}
    report = before_passes(lambda: write_deltalake(place, table.slice(0, 9), mode="overwrite"))
    found = dpspark.release(conf, spark=spark, report=report)
    assert abs(found.second_moment(repair="none").iloc[0, 0] - 40_000) < 1000  # of a noise of 10 or so; else it is 9
    assert found.manifest["source"]["snapshot"]["id"] == 0
    assert DeltaTable(place).version() == 2  # of two passes


@pytest.mark.parametrize("more", WAYS[:2], ids=["plain", "where"])
def test_a_vacuumed_table(spark: Any, conf: dict[str, Any], people: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    """Nothing is drawn; the budget stays reserved, and the same release goes on with the table as it is then."""
    write_deltalake(tmp_path / "t", pq.read_table(people))
    spec = load_spec({**conf, "source": {"delta": str(tmp_path / "t")}, **more})
    ledger = Ledger(conf["ledger"]["url"])

    def vacuumed() -> None:
        write_deltalake(tmp_path / "t", pq.read_table(people), mode="overwrite")
        DeltaTable(tmp_path / "t").vacuum(0, dry_run=False, enforce_retention_duration=False)

    with pytest.raises(SourceError, match=r"was vacuumed or replaced while it was read. Nothing was released"):
        dpspark.release(spec, spark=spark, noise=NeverDrawn(), report=before_passes(vacuumed))
    entry = ledger.find("people", "income", "1")
    assert entry is not None
    assert entry.state == "reserved"
    assert dpspark.release(spec, spark=spark).manifest["source"]["snapshot"]["id"] > 0


def test_a_scan_of_spark_s_own(spark: Any, conf: dict[str, Any], people: Path, tmp_path: Path) -> None:
    """Kills: a reader that is asked for and not used."""
    plain = released(conf, spark, "auto")
    found = released(conf, spark, "spark", source={"parquet": str(people), "reader": "spark"})
    assert found.content.tables["second_moment"]["value"].equals(plain.content.tables["second_moment"]["value"])
    spec = load_spec({**conf, "source": {"parquet": str(people), "reader": "spark"}})
    assert isinstance(open_rows(spec, spark, None, open_files(spec))[0], FrameSource)
    (tmp_path / "two").mkdir()
    for name, kind in (("a", pa.int32()), ("b", pa.int64())):
        table = pq.read_table(people)
        pq.write_table(table.set_column(1, "educ", table["educ"].cast(kind)), tmp_path / "two" / f"{name}.parquet")
    spec = load_spec({**conf, "source": {"parquet": str(tmp_path / "two"), "reader": "spark"}})
    with pytest.raises(SourceError, match=r"source.reader=spark: Spark's own scan fails"):
        open_files(spec)


def test_check_says_what_it_would_read(
    conf: dict[str, Any], delta: Path, iceberg: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "conf.json"

    def checked(**source: Any) -> str:
        path.write_text(json.dumps({**conf, "source": source}))
        with pytest.raises(SystemExit) as left:
            main(["check", str(path)])
        captured = capsys.readouterr()
        return captured.out if left.value.code == 0 else f"{left.value.code}: {captured.err}"

    assert f"source     {delta}: Delta table, version 0, 1 file, every column fits" in checked(delta=str(delta))
    number = iceberg.current_snapshot().snapshot_id
    assert f"Iceberg table, snapshot {number}, 1 file, every column fits" in checked(iceberg="lake.db.people")
    assert "record     one row of a file" in checked(delta=str(delta))
    assert "db.people (not looked at from here)" in checked(delta="db.people")
    assert "not there as seen from here; a release would stop with exit code 4" in checked(delta=str(tmp_path / "no"))
    assert checked(iceberg="lake.db.people", snapshot=5).startswith("4: ")
    assert "it has no snapshot 5" in checked(iceberg="lake.db.people", snapshot=5)


def test_without_the_library(conf: dict[str, Any], delta: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "deltalake", None)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    for source in ({"delta": str(delta)}, {"iceberg": "lake.db.people"}):
        with pytest.raises(ConfError, match=r"pip install 'dpspark\[lake\]'"):
            open_files(load_spec({**conf, "source": source}))


def test_a_table_of_the_catalog(conf: dict[str, Any]) -> None:
    assert open_files(load_spec({**conf, "source": {"delta": "db.people", "version": 3}})) is None
