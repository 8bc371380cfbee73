"""What SQL tells of a lake table's state: on Spark Connect there is no other way to ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from dpspark.spark.failures import condition
from dpspark.spark.frames import make_frame

PART = re.compile(r"`(?:[^`]|``)+`|\w+")
SELECTED = re.compile(
    r"(branch|tag)_(.+)|snapshot_id_(\d+)|at_timestamp_\d+"
)  # in the last part of an Iceberg table's name
MAIN = "main"


class NotPinned(Exception):
    """Spark cannot be told a state of the table. The text says why."""


@dataclass(frozen=True)
class TableState:
    """A state of a table, by its number. `watched` asks for what changes with the table, where the number is not enough."""

    format: Literal["delta", "iceberg"]
    id: int | None
    own: str | None
    name: str  # of the table itself, in SQL
    watched: Callable[[], str] | None = None

    @property
    def noun(self) -> str:
        return "version" if self.format == "delta" else "snapshot"


def split_name(text: str) -> list[str] | None:
    """Split the name of a table into its parts; None if it has anything else in it, such as a comment."""
    parts = PART.findall(text)
    if ".".join(parts) != text.strip():
        return None
    return [part[1:-1].replace("``", "`") if part.startswith("`") else part for part in parts]


def write_name(parts: Sequence[str]) -> str:
    """Write a table's name in SQL."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def find_provider(spark: Any, name: str) -> str | None:
    """Find the format of a table, as Spark calls it; None if Spark does not tell."""
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except Exception:  # a server that has no such command, or a view that may not be described
        return None
    found = [str(row[1]).lower() for row in rows if row[0] == "Provider"]
    return found[-1] if found else None  # its columns come first


def open_state(spark: Any, what: str, state: TableState) -> Any:
    """Open a state of a table by its number."""
    return make_frame(what, lambda: spark.sql(f"SELECT * FROM {state.name} VERSION AS OF {state.id}"))


def find_state(spark: Any, provider: str, parts: Sequence[str]) -> TableState:
    """Find the state that a table has now. NotPinned if it does not tell."""
    try:
        return _find_delta(spark, parts) if provider == "delta" else _find_iceberg(spark, parts)
    except NotPinned:
        raise
    except Exception as error:
        failed = NotPinned(f"it does not tell its state: {condition(error)}")
    raise failed


def _find_delta(spark: Any, parts: Sequence[str]) -> TableState:
    name = write_name(parts)
    version = int(spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").select("version").collect()[0][0])
    own = str(spark.sql(f"DESCRIBE DETAIL {name}").select("id").collect()[0][0])
    return TableState("delta", version, own, name)


def _find_iceberg(spark: Any, parts: Sequence[str]) -> TableState:
    """Find a table's snapshot. A name may end in a branch, a tag or a snapshot: db.t.branch_audited, say.

    A snapshot that is told has the columns of its time. They may be others than the table's, unless the last commit made it.
    """
    selected = SELECTED.fullmatch(parts[-1])
    refs = _find_refs(spark, parts)
    if refs is not None:
        selected = None  # a table that is called so
    base = write_name(parts if selected is None else parts[:-1])
    if selected is None:
        return _state_of_branch(spark, base, (refs or {}).get(MAIN), last=True)
    if selected[3] is not None:
        return TableState("iceberg", int(selected[3]), None, base)
    if selected[1] is None:
        raise NotPinned("it is named by a time")
    number = (_find_refs(spark, parts[:-1]) or {})[selected[2]]
    if selected[1] == "tag":
        return TableState("iceberg", number, None, base)
    return _state_of_branch(spark, base, number, last=False)


def _find_refs(spark: Any, parts: Sequence[str]) -> dict[str, int] | None:
    """Find the snapshots of a table's branches and tags; None if there is no such table."""
    try:
        rows = spark.sql(f"SELECT name, snapshot_id FROM {write_name([*parts, 'refs'])}").collect()
    except Exception:
        return None
    return {str(row[0]): int(row[1]) for row in rows}


def _state_of_branch(spark: Any, base: str, number: int | None, last: bool) -> TableState:
    """Say how a branch's snapshot is read. `last`: it is the main one, of which the log of commits tells."""

    def commits() -> list[Any]:
        query = f"SELECT timestamp, file, latest_snapshot_id FROM {base}.metadata_log_entries"
        return sorted(tuple(row) for row in spark.sql(query).collect())

    def watched() -> str:
        return "\n".join(str(file) for _, file, _ in commits())

    log = [snapshot for _, _, snapshot in commits()]
    made_by_the_last = last and number is not None and log[-1:] == [number] and log[-2:-1] != [number]
    return TableState("iceberg", number, None, base, None if made_by_the_last else watched)
