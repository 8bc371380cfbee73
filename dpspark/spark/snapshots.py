"""The state of a lake table that Spark reads: one for all passes of a release, and for its manifest.

Spark is told the snapshot, or the version, that the table has at the start. Where that cannot be, the table is watched: a
release under which it changes ends, and nothing is released.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpspark.errors import SourceError
from dpspark.source.stamps import CHANGED, EXPIRED
from dpspark.source.table_rows import Snapshot
from dpspark.spark.catalog_files import IcebergTable, NotFiles, find_iceberg, list_iceberg_tables
from dpspark.spark.failures import condition
from dpspark.spark.frames import open_table
from dpspark.spark.session import is_connect
from dpspark.spark.table_sql import (
    NotPinned,
    TableState,
    find_provider,
    find_state,
    open_state,
    split_name,
    write_name,
)

LAKES = ("delta", "iceberg", "hudi", "paimon")


@dataclass(frozen=True)
class Watched:
    """A table that Spark reads as it is: its state at the start, and a way to ask for it again."""

    what: str
    before: str
    ask: Callable[[], str]

    def check(self) -> None:
        """Refuse to go on if the table is not what it was."""
        try:
            same = self.ask() == self.before
        except Exception as error:
            failed = SourceError(
                f"{self.what}: whether it changed cannot be told ({condition(error)}). Nothing was released."
            )
        else:
            if same:
                return
            failed = SourceError(f"{self.what} {CHANGED}")
        raise failed

    def explain(self) -> None:
        """After a pass that failed: say so if that is why."""
        self.check()


@dataclass(frozen=True)
class Told:
    """A table at a state that Spark is told, which may expire. It can be planned for as long as it is there."""

    what: str
    state: str  # snapshot 8123, or version 12
    plan: Callable[[], Any]

    def check(self) -> None:
        """Let it pass: Spark reads that state or fails."""

    def explain(self) -> None:
        try:
            self.plan()
            return
        except SourceError:
            failed = SourceError(f"{self.what}: {self.state} {EXPIRED}")
        raise failed


@dataclass(frozen=True)
class Pinned:
    """A frame of a table, and the state of the table that every pass reads, where that is known."""

    frame: Any
    snapshot: Snapshot | None = None
    tables: tuple[Watched | Told, ...] = ()


def pin_table(spark: Any, table: str, frame: Any, again: bool) -> Pinned:
    """Make Spark read one state of a table. `again`: the release reads its rows more than once."""
    what, parts = f"source.table={table!r}", split_name(table)
    if not is_connect(spark):
        try:
            found = find_iceberg(spark, frame)
        except NotFiles:
            found = None
        if found is not None:
            return _pin_iceberg(spark, table, frame, found)
    name = None if parts is None else write_name(parts)
    provider = None if name is None else find_provider(spark, name)
    try:
        if name is None and is_connect(spark):
            raise NotPinned("its name is not a plain one")
        if parts is not None and (provider == "delta" or (provider == "iceberg" and is_connect(spark))):
            return _pin_by_sql(spark, what, provider, parts, frame)
        if provider in LAKES and not list_iceberg_tables(spark, frame):
            raise NotPinned("it has no version that is known here")
    except NotPinned as why:
        if again:
            raise SourceError(
                f"{what}: Spark cannot be told which state of the table to read ({why}), and this release reads its rows more "
                "than once: it could mix two states.\nName one in source.sql (… VERSION AS OF …), or use source.delta or "
                "source.iceberg."
            ) from None
    return Pinned(frame, None, watch_tables(spark, frame, what) if again else ())


def watch_tables(spark: Any, frame: Any, what: str) -> tuple[Watched, ...]:
    """Watch the Iceberg tables that a frame reads as they are at the time. A server does not show them."""
    return tuple(_watch(what, table) for table in list_iceberg_tables(spark, frame))


def _watch(what: str, table: Any) -> Watched:
    # Every commit has a metadata file of its own.
    before = str(table.operations().current().metadataFileLocation())
    return Watched(what, before, lambda: str(table.operations().refresh().metadataFileLocation()))


def _pin_iceberg(spark: Any, table: str, frame: Any, found: IcebergTable) -> Pinned:
    """Tell Spark an Iceberg table's snapshot, where that has the table's columns; watch the table otherwise."""
    what, parts = f"source.table={table!r}", split_name(table)
    snapshot = Snapshot("iceberg", found.snapshot, found.own)
    if found.of_snapshot:
        return Pinned(frame, snapshot, (Told(what, f"snapshot {found.snapshot}", lambda: open_table(spark, table)),))
    if found.snapshot is None or not found.same_columns or parts is None:
        return Pinned(frame, snapshot, watch_tables(spark, frame, what))
    name = write_name(parts[:-1] if found.of_branch else parts)
    return _tell(spark, what, TableState("iceberg", found.snapshot, found.own, name))


def _pin_by_sql(spark: Any, what: str, provider: str, parts: list[str], frame: Any) -> Pinned:
    """Tell Spark a table's state in SQL, which every session and server takes; watch it where its columns may be newer."""
    state = find_state(spark, provider, parts)
    snapshot = Snapshot(state.format, state.id, state.own)
    if state.watched is not None:
        return Pinned(frame, snapshot, (Watched(what, state.watched(), state.watched),))
    pinned = _tell(spark, what, state)
    if pinned.frame.dtypes != frame.dtypes:
        raise NotPinned("its columns were changed after its rows")
    return pinned


def _tell(spark: Any, what: str, state: TableState) -> Pinned:
    told = Told(what, f"{state.noun} {state.id}", lambda: open_state(spark, what, state))
    return Pinned(open_state(spark, what, state), Snapshot(state.format, state.id, state.own), (told,))
