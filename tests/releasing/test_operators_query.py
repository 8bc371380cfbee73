"""A query is the operator's: what is published, printed or kept of it is its hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpspark.errors import SourceError
from dpspark.ledger.ledger import Ledger
from dpspark.releasing.run import release
from dpspark.verifying.verification import verify
from tests.manifests import conf_of

MARKER = "Quetzalcoatl"


def conf(tmp_path: Path, people: Path, sql: str) -> dict[str, Any]:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger(url).grant("people", epsilon=10.0, delta=1e-3)
    where = {"ledger/url": url, "output": {"path": str(tmp_path / "releases")}}
    return conf_of({"source": {"sql": sql.format(f"parquet.`{people}`")}, **where})


def test_a_query_leaves_its_hash_alone(
    spark: Any, people: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    steps: list[str] = []
    sql = "SELECT age, income, sex FROM {} WHERE sex <> '" + MARKER + "'"
    done = release(conf(tmp_path, people, sql), spark=spark, report=steps.append)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path != people]
    assert {"manifest.json", "ledger.db", "scaled.parquet"} <= {path.name for path in kept}
    for path in kept:
        assert MARKER.encode() not in path.read_bytes(), path
    said = capfd.readouterr()
    assert MARKER not in said.out + said.err + json.dumps(done.manifest) + " ".join(steps)
    assert MARKER not in spark.sparkContext.appName
    assert verify(done.path).passed


def test_a_query_that_cannot_be_planned_is_not_quoted(spark: Any, people: Path, tmp_path: Path) -> None:
    sql = "SELECT age, income, sex FROM {} WHERE " + MARKER + " = 1"
    with pytest.raises(SourceError) as caught:
        release(conf(tmp_path, people, sql), spark=spark)
    assert MARKER not in str(caught.value)
