"""A release and the ledger of a team: what is charged, warned of and refused, and what stays out of the bundle."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from postgres import PASSWORD

import dpspark
from dpspark.core.protection import Protection
from dpspark.errors import LedgerError
from dpspark.ledger.ledger import Ledger
from dpspark.privacy.events import Exponential, Gaussian
from dpspark.releasing import rows as reading


def test_a_release_on_postgresql(spark: Any, conf: dict[str, Any], postgres_database: str) -> None:
    """Kills: a URL in the bundle; a release that leaves its events or its protection out; a warning nobody hears."""
    ledger = Ledger(postgres_database)
    ledger.grant("people", 1.0, 1e-9)
    conf["ledger"]["url"] = postgres_database
    conf["columns"]["income"] = {"bounds": "private", "search": [0, 1e6]}
    steps: list[str] = []
    rel = dpspark.release(conf, spark=spark, report=steps.append)
    assert [step for step in steps if step.startswith("little budget is left: people has ")]
    (entry,) = ledger.balances("people")[0].entries
    bounds, matrix = entry.events
    assert isinstance(bounds, Exponential)
    assert isinstance(matrix, Gaussian)
    assert matrix.mu == pytest.approx(rel.manifest["mechanism"]["mu"])
    assert entry.protection == Protection("add_remove")
    assert [act.what for act in ledger.history()] == ["create", "grant", "reserve", "stage", "commit"]
    ledger.verify()
    written = b"".join(path.read_bytes() for path in Path(conf["output"]["path"]).rglob("*") if path.is_file())
    assert rel.manifest["ledger"]["id"].encode() in written
    for secret in (PASSWORD, postgres_database.split("/")[-1]):
        assert secret.encode() not in written
    ledger.grant("people", 9.0, 1e-9)
    other = {**conf["privacy"], "neighbours": "replace_one"}
    with pytest.raises(LedgerError, match="neighbours: add_remove; this release has replace_one"):
        dpspark.release({**conf, "privacy": other, "release": {"name": "income", "version": "2"}}, spark=spark)


def test_a_budget_given_back_while_the_driver_runs(
    spark: Any, conf: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kills: a result that is written, or published, though nothing pays for it any more."""
    real = reading.exact_gram

    def read_slowly(*arguments: Any) -> Any:
        Ledger(conf["ledger"]["url"]).give_back("people", "income", "1", "it hangs")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(reading, "exact_gram", read_slowly)
        with pytest.raises(LedgerError, match="given back while it ran"):
            dpspark.release(conf, spark=spark)
    assert [name for _, _, files in os.walk(conf["output"]["path"]) for name in files] == []
    with pytest.raises(LedgerError, match="stay used"):
        dpspark.release(conf, spark=spark)
