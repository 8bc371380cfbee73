"""The ledger's history: append-only, and an edit past dpspark is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import sqlalchemy as sa

from dpspark.cli.ledger_text import show_ledger
from dpspark.errors import LedgerError
from dpspark.ledger import history
from dpspark.ledger.database import _postgres, _sqlite
from dpspark.ledger.ledger import Ledger
from dpspark.privacy.budget import Budget

TRIGGERS = [f"{t}_no_{a}" for t in ("history", "grants") for a in ("update", "delete")] + ["releases_no_delete"]


@pytest.fixture
def url(ledger_url: str) -> str:
    """A ledger with some life in it."""
    ledger = Ledger(ledger_url)
    ledger.grant("d", 1.0, 1e-6, why="the office's decision of May", who="steward@example.org")
    for version in "12":
        ledger.reserve("d", "r", version, "h", Budget(0.1, 1e-9), "/out")
    entry = ledger.find("d", "r", "1")
    assert entry is not None
    ledger.stage(entry, "digest")
    ledger.stage(entry, "digest")  # nothing changes, nothing is written
    ledger.commit(entry)
    ledger.give_back("d", "r", "2", "typo\nin the conf")
    return ledger_url


def engine_of(url: str) -> sa.Engine:
    parsed = sa.make_url(url)
    return _sqlite(parsed, True, "d") if parsed.drivername == "sqlite" else _postgres(parsed)


def edit(url: str, *statements: str, past_triggers: bool = True) -> None:
    """As somebody with the database's password would."""
    with engine_of(url).begin() as connection:
        for name in TRIGGERS if past_triggers else ():
            on = f" ON {name.split('_no_')[0]}" if connection.dialect.name == "postgresql" else ""
            connection.execute(sa.text(f"DROP TRIGGER {name}{on}"))
        for statement in statements:
            connection.execute(sa.text(statement))


def test_every_act_is_a_row(url: str) -> None:
    acts = Ledger(url).history()
    assert [act.what for act in acts] == ["create", "grant", "reserve", "reserve", "stage", "commit", "give back"]
    assert [act.sequence for act in acts] == list(range(1, 8))
    assert (acts[1].who, acts[1].why) == ("steward@example.org", "the office's decision of May")
    assert acts[-1].why == "typo in the conf"
    assert all(act.who and act.at.endswith("+00:00") for act in acts)
    assert Ledger(url).verify() == acts[-1].hash
    assert [act.what for act in Ledger(url).history("other")] == ["create"]


@pytest.mark.parametrize(
    ("edits", "found"),
    [
        (["UPDATE history SET why = 'another reason' WHERE sequence = 2"], "row 2 of its history was changed"),
        (
            ["UPDATE history SET at = '2020-01-01T00:00:00+00:00' WHERE sequence = 3"],
            "row 3 of its history was changed",
        ),
        (["DELETE FROM history WHERE sequence = 3"], "row 3 of its history is missing"),
        (["DELETE FROM history WHERE sequence = 1"], "row 1 of its history is missing"),
        (
            [
                "UPDATE history SET sequence = 99 WHERE sequence = 3",
                "UPDATE history SET sequence = 3 WHERE sequence = 4",
                "UPDATE history SET sequence = 4 WHERE sequence = 99",
            ],
            "row 3 of its history was changed",
        ),
        (["DELETE FROM history WHERE sequence = 7"], "its table releases is not what its history says"),
        (["UPDATE grants SET epsilon = 100"], "its table grants is not what its history says"),
        (["DELETE FROM releases WHERE version = '1'"], "its table releases is not what its history says"),
        (["UPDATE releases SET epsilon = 0.01 WHERE version = '1'"], "its table releases"),
        (["UPDATE releases SET state = 'given_back'"], "its table releases"),
        (["UPDATE releases SET events = '[]'"], "its table releases"),
        (["UPDATE datasets SET unit = 'rows'"], "its table datasets"),
        (["INSERT INTO grants (dataset, epsilon, delta, granted_at) VALUES ('d', 9, 0, 'now')"], "its table grants"),
    ],
)
def test_tampering_is_found_and_nothing_more_is_spent(url: str, edits: list[str], found: str) -> None:
    """Kills: a chain that leaves out a field, tables that are not compared, a reservation from tables that do not add up."""
    edit(url, *edits)
    ledger = Ledger(url)
    for act in (
        ledger.verify,
        lambda: ledger.reserve("d", "r", "3", "h", Budget(0.1, 1e-9), "/out"),
        lambda: ledger.check("d", "r", "3", Budget(0.1, 1e-9)),
        lambda: ledger.grant("d", 1.0, 0.0),
    ):
        with pytest.raises(LedgerError, match=found):
            act()
    assert len(ledger.balances("d")[0].entries) <= 2
    assert show_ledger(None, url, False).startswith("WARNING: ledger")
    assert json.loads(show_ledger(None, url, True))[0]["intact"] is False


def test_a_row_with_a_hash_of_its_own_is_found(url: str) -> None:
    """Kills the mutant that leaves the hash before out of a row's: then each row could be rewritten by itself."""
    acts = Ledger(url).history()
    forged = replace(acts[1], why="another reason")
    edit(
        url, f"UPDATE history SET why = 'another reason', hash = '{forged.hash_after(acts[0].hash)}' WHERE sequence = 2"
    )
    with pytest.raises(LedgerError, match="row 3 of its history was changed"):
        Ledger(url).verify()


def test_a_pin_finds_what_the_chain_cannot(url: str) -> None:
    """Whoever rewrites all of it from the start has a chain that is whole, but not the one that was pinned."""
    pinned = Ledger(url).verify()
    Ledger(url).grant("d", 1.0, 0.0)
    Ledger(url).verify(pinned)  # it has only grown
    edit(url, *(f"DELETE FROM {table}" for table in ("history", "grants", "releases", "datasets")))
    with pytest.raises(LedgerError, match="its history is empty"):
        Ledger(url).verify()
    with engine_of(url).begin() as connection:
        history.append(connection, "create", None, {})
    forged = Ledger(url)
    forged.grant("d", 100.0, 0.0)
    forged.verify()
    with pytest.raises(LedgerError, match="which was pinned"):
        forged.verify(pinned)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE history SET why = ''",
        "DELETE FROM history",
        "UPDATE grants SET epsilon = 100",
        "DELETE FROM grants",
        "DELETE FROM releases",
    ],
)
def test_the_database_refuses_to_change_what_was_written(url: str, statement: str) -> None:
    with pytest.raises(sa.exc.DBAPIError, match="append-only"):
        edit(url, statement, past_triggers=False)
    Ledger(url).verify()


def test_postgresql_refuses_to_truncate(postgres_database: str) -> None:
    Ledger(postgres_database).grant("d", 1.0, 0.0)
    with pytest.raises(sa.exc.DBAPIError, match="append-only"):
        edit(postgres_database, "TRUNCATE history", past_triggers=False)
