"""OpenLineage events of releases, as a real server on the loopback gets them."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import dpspark
from dpspark.errors import LedgerError, SourceError
from dpspark.releasing import run as pipeline
from dpspark.releasing.lineage import dataset_of, is_wanted, table_of
from dpspark.show.logs import LOGGER

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    found: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/api/v1/lineage"
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "office")
    yield found
    server.shutdown()
    server.server_close()


def states(events: list[dict[str, Any]]) -> list[str]:
    return [event["eventType"] for event in events]


def test_a_release(events: list[dict[str, Any]], conf: dict[str, Any], spark: Any, tmp_path: Path) -> None:
    """Kills: an event without its dataset, columns or output; anything exact in one."""
    conf["output"]["tables"] = f"delta:{tmp_path / 'lake'}"
    conf["where"] = "age >= 18"
    done = dpspark.release(conf, spark=spark)
    assert states(events) == ["START", "COMPLETE"]
    start, complete = events
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert start["run"]["runId"][14] == "7"  # of UUIDs: by time
    assert (complete["job"]["namespace"], complete["job"]["name"]) == ("office", "income")
    (source,) = complete["inputs"]
    assert (source["namespace"], source["name"]) == ("file", conf["source"]["parquet"])
    columns = {one["name"]: one.get("type") for one in source["facets"]["schema"]["fields"]}
    assert columns == {"age": "bigint", "educ": "int", "income": "double", "sex": "string"}
    assert [(one["namespace"], one["name"]) for one in complete["outputs"]] == [
        ("file", str(done.path)),
        ("file", f"{tmp_path}/lake/dpspark_second_moments"),
        ("file", f"{tmp_path}/lake/dpspark_releases"),
    ]
    privacy = complete["run"]["facets"]["dpspark_privacy"]
    assert {key: privacy[key] for key in ("epsilon", "delta", "neighbours", "kind", "mechanism", "version")} == {
        "epsilon": 1.0,
        "delta": 1e-9,
        "neighbours": "add_remove",
        "kind": "gram",
        "mechanism": "gaussian",
        "version": "1",
    }
    text = json.dumps(events)
    assert not re.search(r"(?i)statistics|rowCount|bytes|size|40000|40,000", text)

    events.clear()
    Path(conf["source"]["parquet"]).unlink()
    dpspark.release(conf, spark=spark)  # published already
    assert states(events) == ["START", "COMPLETE"]
    assert events[1]["outputs"][0]["name"] == str(done.path)


def test_failures(
    events: list[dict[str, Any]], conf: dict[str, Any], spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the charge, after it, and where the error is not ours. Kills: a text of Spark's, or of a library, in an event."""
    refused = {**conf, "ledger": {**conf["ledger"], "dataset": "nobody"}}
    with pytest.raises(LedgerError) as error:
        dpspark.release(refused, spark=spark)
    assert states(events) == ["START", "FAIL"]
    assert events[1]["run"]["facets"]["errorMessage"]["message"] == str(error.value)
    assert not [name for name in os.environ if name.startswith("OPENLINEAGE__")]  # a key would be among them
    assert "stackTrace" not in events[1]["run"]["facets"]["errorMessage"]

    events.clear()
    people = Path(conf["source"]["parquet"])
    whole = people.read_bytes()
    people.write_bytes(whole[:100] + bytes(4000) + whole[4100:])  # its footer is as it was
    with pytest.raises(SourceError, match="budget stays reserved") as error:
        dpspark.release(conf, spark=spark)
    assert states(events) == ["START", "FAIL"]
    assert events[1]["run"]["facets"]["errorMessage"]["message"] == str(error.value)
    people.write_bytes(whole)

    events.clear()

    def fail(*arguments: Any) -> Any:
        raise RuntimeError("income 123456.78")

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "make", fail)
        with pytest.raises(RuntimeError):
            dpspark.release(conf, spark=spark)
    assert states(events) == ["START", "FAIL"]
    assert events[1]["run"]["facets"]["errorMessage"]["message"] == "unexpected RuntimeError"
    assert "123456" not in json.dumps(events)

    events.clear()
    dpspark.release(conf, spark=spark)  # goes on with what was charged
    assert states(events) == ["START", "COMPLETE"]


@pytest.mark.parametrize("silent", [False, True], ids=["nobody listens", "nobody answers"])
def test_a_dead_endpoint(
    silent: bool, conf: dict[str, Any], spark: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Kills: a release that fails, or waits, for its lineage."""
    LOGGER.setLevel("INFO")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if silent:
            listening.listen()
        monkeypatch.setenv("OPENLINEAGE_URL", f"http://127.0.0.1:{listening.getsockname()[1]}")
        began = time.monotonic()
        done = dpspark.release(conf, spark=spark)
        assert time.monotonic() - began < 30
    assert done.path.is_dir()
    assert "lineage: the events of income 1 were not all sent" in caplog.text
    LOGGER.setLevel("NOTSET")


def test_when_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: events on the console of a run that nobody set up for them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert not is_wanted()
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "console")
    assert is_wanted()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not is_wanted()
    monkeypatch.delenv("OPENLINEAGE__TRANSPORT__TYPE")
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "")
    (tmp_path / "openlineage.yml").write_text("transport: {type: console}\n")
    assert is_wanted()


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/data/people", "file", "/data/people"),
        ("file:///data/a%20b", "file", "/data/a b"),
        ("s3a://bucket/people/x?region=eu", "s3://bucket", "people/x"),
        ("gs://bucket", "gs://bucket", "/"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net", "x"),
        ("hdfs://name-node:8020/x/y", "hdfs://name-node:8020", "x/y"),
    ],
)
def test_names_of_files(path: str, namespace: str, name: str) -> None:
    found = dataset_of(path)
    assert (found.namespace, found.name) == (namespace, name)


def test_names_of_tables() -> None:
    found = {
        name: (table_of(name).namespace, table_of(name).name) for name in ("people", "db.people", "lake.db.people")
    }
    assert found == {
        "people": ("spark_catalog", "default.people"),
        "db.people": ("spark_catalog", "db.people"),
        "lake.db.people": ("lake", "db.people"),
    }
