"""The history of a ledger: who did what, when and why. Rows are only ever added, each with the hash of all before it.

The row of an act holds the rows that it wrote to the other tables. So those can be rebuilt from history and compared, and an
edit of either is found. Whoever can rewrite the whole database can rewrite the whole chain: a hash of it kept elsewhere
(`dpspark ledger history --pinned`) shows that too.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from dpspark.errors import LedgerError
from dpspark.ledger.database import KEPT, history

START = "dpspark ledger"  # what the first row's hash follows

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Act:
    """One row of history."""

    sequence: int
    at: str
    who: str
    what: str
    dataset: str | None
    why: str
    rows: str
    hash: str

    def hash_after(self, before: str) -> str:
        content = asdict(self)
        del content["hash"]
        text = json.dumps(content, sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()


def append(
    connection: sa.Connection,
    what: str,
    dataset: str | None,
    written: Mapping[sa.Table, Sequence[Row]],
    why: str = "",
    who: str | None = None,
) -> Act:
    """Add an act to the chain, in the transaction that does it."""
    last = connection.execute(sa.select(history).order_by(history.c.sequence.desc()).limit(1)).one_or_none()
    rows = {table.name: [dict(row) for row in rows] for table, rows in written.items()}
    act = Act(
        sequence=1 if last is None else last.sequence + 1,
        at=now(),
        who=one_line(who) if who else current_user(),
        what=what,
        dataset=dataset,
        why=one_line(why),
        rows=json.dumps(rows, sort_keys=True, ensure_ascii=True, allow_nan=False),
        hash="",
    )
    act = Act(**{**asdict(act), "hash": act.hash_after(START if last is None else last.hash)})
    connection.execute(history.insert().values(**asdict(act)))
    return act


def read(connection: sa.Connection) -> list[Act]:
    return [Act(**row._mapping) for row in connection.execute(sa.select(history).order_by(history.c.sequence))]


def find_problem(connection: sa.Connection, pinned: str | None = None) -> str | None:
    """Say what shows that somebody changed the ledger past dpspark; None if nothing does."""
    acts, before = read(connection), START
    for place, act in enumerate(acts, start=1):
        if act.sequence != place:
            return f"row {place} of its history is missing"
        if act.hash != act.hash_after(before):
            return f"row {place} of its history was changed"
        before = act.hash
    if not acts:
        return "its history is empty"
    if pinned is not None and pinned not in {act.hash for act in acts}:
        return f"its history does not hold {pinned[:16]}..., which was pinned"
    rebuilt = _rebuild(acts)
    for table in KEPT:
        if rebuilt[table.name] != _rows_of(connection, table):
            return f"its table {table.name} is not what its history says"
    return None


def check_intact(connection: sa.Connection, shown_url: str, pinned: str | None = None) -> None:
    """Refuse to spend from a ledger that was tampered with."""
    found = find_problem(connection, pinned)
    if found is not None:
        raise LedgerError(
            f"ledger {shown_url}: {found}. Somebody changed it past dpspark.\n"
            "Compare it with a backup: dpspark ledger history --verify"
        )


def _rebuild(acts: Sequence[Act]) -> dict[str, dict[Any, Row]]:
    """Rebuild the other tables from history alone: an act's rows replace those with the same key."""
    found: dict[str, dict[Any, Row]] = {table.name: {} for table in KEPT}
    keys = {table.name: next(iter(table.primary_key.columns)).name for table in KEPT}
    for act in acts:
        for table, rows in json.loads(act.rows).items():
            found[table].update({row[keys[table]]: row for row in rows})
    return found


def _rows_of(connection: sa.Connection, table: sa.Table) -> dict[Any, Row]:
    key = next(iter(table.primary_key.columns)).name
    return {row._mapping[key]: dict(row._mapping) for row in connection.execute(sa.select(table))}


def snapshot(connection: sa.Connection) -> dict[sa.Table, list[Row]]:
    """Take all rows that are there: a history that begins late begins with them."""
    return {table: list(_rows_of(connection, table).values()) for table in KEPT}


def current_user() -> str:
    """Name who claims to be acting; the operating system and the environment can be told anything."""
    try:
        return one_line(getpass.getuser())
    except (OSError, KeyError, ImportError):
        return f"user {os.getuid()}"


def one_line(text: str) -> str:
    """Write a text on one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:1000]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
