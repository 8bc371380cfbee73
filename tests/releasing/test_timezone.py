"""Expressions on timestamps do not depend on the machine's time zone, nor on the session's."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import dpspark
from dpspark.errors import ConfError
from dpspark.spark.settings import TIME_ZONE
from dpspark.spec.spec import load_spec
from dpspark.verifying.verification import verify

ZONES = ["UTC", "America/New_York", "Asia/Kolkata"]
MANY = 500  # rows of each: the noise is far below a shift of one day, or hour
FAR = 3000
HOURS = [0, 3, 22]  # UTC; in other zones another day, before and after


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    """Departures at 0, 3 and 22 o'clock UTC of the first 20 days of a month, and text in a zone that it does not say."""
    at = [datetime(2026, 3, day, hour, tzinfo=UTC) for day in range(1, 21) for hour in HOURS] * MANY
    said = [f"{when + timedelta(hours=1):%Y-%m-%d %H:%M:%S}" for when in at]
    table = pa.table({"sched": pa.array(at, pa.timestamp("us", "UTC")), "said": said})
    pq.write_table(table, tmp_path / "flights.parquet")
    return tmp_path / "flights.parquet"


def days(conf: dict[str, Any], source: dict[str, Any], version: str) -> dict[str, Any]:
    """Days of the month and hours since its first, of flights after a time that is said as text; next to no noise."""
    return {
        **conf,
        "source": source,
        "columns": {
            "day": {"expr": "day(sched)", "lower": 0, "upper": 32},
            "hour": {"expr": "(cast(cast(said as timestamp) as bigint) - 1772323200) / 3600", "lower": 0, "upper": 500},
            "late": {"expr": "if(cast(said as timestamp) > sched, 1, 0)", "lower": 0, "upper": 1},
        },
        "where": "sched >= '2026-03-02 00:00:00'",
        "privacy": {"epsilon": 20.0, "delta": 1e-5},
        "release": {"name": "days", "version": version},
    }


def means(rel: Any) -> list[float]:
    matrix = rel.second_moment(repair="none")
    return [matrix.loc["(intercept)", name] for name in ("(intercept)", "day", "hour", "late")]


@pytest.mark.spark35
@pytest.mark.parametrize("kind", ["parquet", "sql", "table", "dataframe"])
def test_the_session_s_zone_does_not_matter(
    spark: Any, conf: dict[str, Any], flights: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answer in every zone, and the session is as it was. Fails on 0.2.0: day(sched) is of the session's zone."""
    before, found = spark.conf.get(TIME_ZONE), {}
    spark.read.parquet(str(flights)).createOrReplaceTempView("flights")
    source = {
        "parquet": {"parquet": str(flights)},
        "sql": {"sql": "SELECT sched, said FROM flights"},
        "table": {"table": "flights"},
        "dataframe": {"dataframe": True},
    }[kind]
    try:
        for zone in ZONES:
            spark.conf.set(TIME_ZONE, zone)
            frame = spark.read.parquet(str(flights)) if kind == "dataframe" else None
            rel = dpspark.release(days(conf, source, zone.replace("/", "-")), frame, spark)
            assert spark.conf.get(TIME_ZONE) == zone
            assert rel.manifest["source"]["timezone"] == "UTC"
            found[zone] = means(rel)
    finally:
        spark.conf.set(TIME_ZONE, before)
        spark.catalog.dropTempView("flights")
    rows, whole = MANY * 19 * len(HOURS), MANY * 3 * sum(range(2, 21))
    hours = MANY * sum(24 * (day - 1) + hour + 1 for day in range(2, 21) for hour in HOURS)  # since the first of March
    assert found["UTC"] == pytest.approx([rows, whole, hours, rows], abs=FAR)
    assert found["America/New_York"] == pytest.approx(found["UTC"], abs=FAR)
    assert found["Asia/Kolkata"] == pytest.approx(found["UTC"], abs=FAR)


def test_a_frame_s_own_expressions_are_in_no_zone_that_is_known(
    spark: Any, conf: dict[str, Any], flights: Path
) -> None:
    """Fails on 0.2.0, which named no zone at all. Kills: UTC for days that the session of a frame made in its own."""
    frame = spark.read.parquet(str(flights)).selectExpr("day(sched) as day")
    asked = {**days(conf, {"dataframe": True}, "own"), "columns": {"day": {"lower": 0, "upper": 32}}}
    del asked["where"]
    rel = dpspark.release(asked, frame)
    assert rel.manifest["source"] == {"timezone": None}
    assert not [check for check in verify(rel.path).checks if check.result == "failed"]
    filtered = {**asked, "where": "day > 3", "release": {"name": "days", "version": "filtered"}}
    assert dpspark.release(filtered, frame).manifest["source"] == {"timezone": "UTC"}


def test_a_zone_that_is_asked_for(spark: Any, conf: dict[str, Any], flights: Path) -> None:
    """In New York two of three flights are a day earlier. Fails on 0.2.0: no such key."""
    asked = days(conf, {"parquet": str(flights), "timezone": "America/New_York"}, "1")
    asked["where"] = "sched is not null"
    rel = dpspark.release(asked, spark=spark)
    assert rel.manifest["source"]["timezone"] == rel.manifest["spec"]["source"]["timezone"] == "America/New_York"
    shifted = MANY * (3 * sum(range(1, 21)) - 2 * 20 + 2 * 28)  # the first of March is the last of February
    assert means(rel)[1] == pytest.approx(shifted, abs=FAR)
    with_frame = {**asked, "release": {"name": "days", "version": "2"}}
    again = dpspark.release(with_frame, spark.read.parquet(str(flights)))
    assert again.manifest["spec"]["source"] == {"dataframe": True, "timezone": "America/New_York"}
    assert means(again)[1] == pytest.approx(shifted, abs=FAR)


def test_the_session_is_as_it_was_after_an_error(spark: Any, conf: dict[str, Any], flights: Path) -> None:
    before = spark.conf.get(TIME_ZONE)
    asked = days(conf, {"parquet": str(flights), "timezone": "Asia/Kolkata"}, "1")
    asked["columns"]["day"]["expr"] = "day(said, said)"
    with pytest.raises(dpspark.DpsparkError):
        dpspark.release(asked, spark=spark)
    assert spark.conf.get(TIME_ZONE) == before


@pytest.mark.slow
def test_the_machine_s_zone_does_not_matter(conf: dict[str, Any], flights: Path, tmp_path: Path) -> None:
    """TZ of Java and of Python's workers. Fails on 0.2.0: the slopes differ."""
    import os

    found = []
    for zone in ("America/New_York", "Asia/Kolkata"):
        path = tmp_path / f"{zone[:4]}.yaml"
        path.write_text(yaml.safe_dump(days(conf, {"parquet": str(flights)}, zone[:4])))
        command = [sys.executable, "-c", "from dpspark.cli.main import main; main()", "release", str(path)]
        subprocess.run(command, env={**os.environ, "TZ": zone}, check=True, cwd=tmp_path)
        found.append(means(dpspark.read_release(tmp_path / "releases" / "days" / zone[:4])))
    assert found[0] == pytest.approx(found[1], abs=FAR)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Etc/GMT+5", "+02:00", "-09:30", "+18:00", "US/Pacific"])
def test_zones(conf: dict[str, Any], zone: str) -> None:
    """In the hash if it is said, UTC too; the hash of a conf without it is what it was."""
    path = conf["source"]["parquet"]
    spec = load_spec({**conf, "source": {"parquet": path, "timezone": zone}})
    assert spec.timezone == zone
    assert spec.hash != load_spec(conf).hash
    assert load_spec(conf).timezone == "UTC"
    assert "timezone" not in load_spec(conf).public()["source"]


@pytest.mark.parametrize(
    "zone",
    ["Mars/Olympus", "EST", "localtime", "CET ", "+2", "+19:00", "+02:60", "europe/berlin", "../etc/passwd", "PST"],
)
def test_no_zones(conf: dict[str, Any], zone: str) -> None:
    """Kills: a zone that depends on the machine, or that Java and Python understand differently."""
    with pytest.raises(ConfError, match="timezone"):
        load_spec({**conf, "source": {**conf["source"], "timezone": zone}})
