"""Ledgers of other versions of their tables: older ones are migrated in place, newer ones refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa

from dpspark.errors import LedgerError
from dpspark.ledger.database import SCHEMA, _postgres, _sqlite
from dpspark.ledger.ledger import Ledger
from dpspark.privacy.budget import Budget

# What dpspark wrote before tables had a version, as SQLite and PostgreSQL show it.
VERSION_1 = (
    """CREATE TABLE grants (
        id {serial} NOT NULL, dataset TEXT NOT NULL, epsilon FLOAT NOT NULL, delta FLOAT NOT NULL,
        granted_at TEXT NOT NULL, PRIMARY KEY (id))""",
    "CREATE INDEX ix_grants_dataset ON grants (dataset)",
    """CREATE TABLE releases (
        id TEXT NOT NULL, dataset TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, spec_hash TEXT NOT NULL,
        epsilon FLOAT, delta FLOAT, rho FLOAT, state TEXT NOT NULL, path TEXT NOT NULL, reserved_at TEXT NOT NULL,
        committed_at TEXT, PRIMARY KEY (id), UNIQUE (dataset, name, version))""",
    "INSERT INTO grants (dataset, epsilon, delta, granted_at) VALUES ('d', 2.0, 1e-6, '2026-01-01T00:00:00+00:00')",
    "INSERT INTO grants (dataset, epsilon, delta, granted_at) VALUES ('d', 0.1, 0.0, '2026-01-02T00:00:00+00:00')",
    "INSERT INTO releases VALUES ('a', 'd', 'r', '1', 'h', 0.3, 1e-9, NULL, 'committed', '/out/r/1', "
    "'2026-01-03T00:00:00+00:00', '2026-01-03T00:01:00+00:00')",
    "INSERT INTO releases VALUES ('b', 'd', 'r', '2', 'h', NULL, NULL, 0.01, 'reserved', '/out/r/2', "
    "'2026-01-04T00:00:00+00:00', NULL)",
)


def run(url: str, *statements: str) -> None:
    parsed = sa.make_url(url)
    sqlite = parsed.drivername == "sqlite"
    engine = _sqlite(parsed, True, "d") if sqlite else _postgres(parsed)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement.replace("{serial}", "INTEGER" if sqlite else "SERIAL"))


def test_version_1_is_migrated_in_place(ledger_url: str) -> None:
    """Kills: a charge lost or changed on the way; tables that history does not cover."""
    run(ledger_url, *VERSION_1)
    ledger = Ledger(ledger_url, create=False)
    acts = ledger.history()
    assert [(act.what, act.why) for act in acts] == [("migrate", "tables of version 1")]
    ledger.verify()
    (balance,) = ledger.balances("d")
    assert (float(balance.granted_epsilon), float(balance.granted_delta)) == (2.1, 1e-6)
    assert [entry.budget for entry in balance.entries] == [Budget(0.3, 1e-9), Budget(rho=0.01)]
    assert balance.promise.neighbours is None
    entry = ledger.find("d", "r", "2")
    assert entry is not None
    ledger.stage(entry, "digest")  # an unfinished release goes on
    assert ledger.reserve("d", "r", "2", "h", Budget(rho=0.01), "/out/r/2").id == "b"
    with pytest.raises(LedgerError, match="overspend"):
        ledger.reserve("d", "r", "3", "h", Budget(1.9, 1e-9), "/out")
    ledger.grant("d", 0.5, 0.0)
    assert [act.what for act in Ledger(ledger_url).history()] == ["migrate", "stage", "grant"]
    ledger.verify()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: tables altered outside the transaction."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    run(url, *VERSION_1)
    before = dump(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("dpspark.ledger.ledger.history.snapshot", None)
        with pytest.raises(TypeError):
            Ledger(url)
    assert dump(tmp_path) == before
    Ledger(url).verify()


def dump(home: Path) -> list[str]:
    connection = sqlite3.connect(home / "ledger.db")
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_a_newer_ledger_is_refused(ledger_url: str) -> None:
    Ledger(ledger_url).grant("d", 1.0, 0.0)
    run(ledger_url, f"UPDATE ledger_version SET version = {SCHEMA + 1}")
    with pytest.raises(LedgerError, match=f"version {SCHEMA + 1}; this dpspark knows up to {SCHEMA}"):
        Ledger(ledger_url)
