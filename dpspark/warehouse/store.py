"""What every place of result tables does: look for a release, replace its rows, and never those of another."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa

from dpspark.bundle.table_address import TableAddress
from dpspark.errors import DpsparkError, OutputError
from dpspark.warehouse.rows import ReleaseRows
from dpspark.warehouse.shapes import RELEASES, SHAPES

TRIES = 20
LONGEST_WAIT = 2.0  # seconds between two tries
Found = TypeVar("Found")


class TableStore(ABC):
    """The result tables at one address. Readers see the rows of one release in one table change at once."""

    def __init__(self, address: TableAddress):
        self.address = address

    @abstractmethod
    def prepare(self) -> None:
        """Refuse a place that is not there, and tables of another shape; make those that are missing."""

    @abstractmethod
    def digest(self, release: str, version: str) -> str | None:
        """Find the digest of the manifest that is there under this name and version; None: nothing is."""

    @abstractmethod
    def count(self, table: str, release: str, version: str) -> int:
        """Count the rows of one release."""

    @abstractmethod
    def replace(self, table: str, rows: pa.Table, release: str, version: str) -> None:
        """Put rows in place of all that the release has in the table."""

    @abstractmethod
    def remove(self, table: str, release: str, version: str) -> None:
        """Take away what a release has in a table."""

    def name(self, table: str) -> str:
        """Name a table for messages."""
        return f"{self.address}.{table}"

    def check_free(self, release: str, version: str, digest: str | None) -> bool:
        """Tell whether this very release is there; refuse if another of its name and version is.

        `digest` is that of its manifest; None: it is yet to be made.
        """
        found = self.digest(release, version)
        if found is not None and found != digest:
            raise OutputError(
                f"{self.name(RELEASES)} has another release {release} {version}, from another ledger or output.\n"
                "Give this one another release.version or other tables; or replace it: dpspark load RELEASE --tables "
                f"{self.address} --replace."
            )
        return found is not None

    def load(self, rows: ReleaseRows, replace: bool = False) -> bool:
        """Put a release into the tables; False if it is there already. Its row among the releases comes last."""
        self.prepare()
        named = rows.release, rows.version
        there = self.check_free(*named, rows.digest) if not replace else self.digest(*named) is not None
        if there and not replace and self._is_whole(rows):
            return False
        if there:  # so that a run that is killed here does not leave a row that says "all there"
            self.remove(RELEASES, *named)
        for table, content in rows.results.items():
            if content.num_rows:
                self.replace(table, content, *named)
            else:
                self.clear(table, *named)
        self.replace(RELEASES, rows.tables[RELEASES], *named)
        return True

    def clear(self, table: str, release: str, version: str) -> None:
        """Take away what there may be of a release, such as another of its name had."""
        if self.count(table, release, version):
            self.remove(table, release, version)

    def _is_whole(self, rows: ReleaseRows) -> bool:
        held = {table: content.num_rows for table, content in rows.tables.items() if content.num_rows}
        return all(self.count(table, rows.release, rows.version) == number for table, number in held.items())

    def refuse_shape(self, table: str, found: dict[str, str], expected: dict[str, str]) -> None:
        """Refuse a table that has other columns, or other types."""
        if found == expected:
            return
        missing = [f"{name} {kind}" for name, kind in expected.items() if found.get(name) != kind]
        other = [f"{name} {kind}" for name, kind in found.items() if expected.get(name) != kind]
        raise OutputError(
            f"{self.name(table)} is there with other columns: {_shown(other) or 'too few'}; "
            f"expected {_shown(missing) or 'no more'}.\n"
            "Drop or rename that table, or choose other tables: dpspark load puts any published release back."
        )

    @contextmanager
    def saying_where(self, doing: str, named: Callable[[Exception], str]) -> Iterator[None]:
        """Raise whatever a library raises as an error of the output, in names alone."""
        try:
            yield
        except DpsparkError:
            raise
        except Exception as error:
            failed = OutputError(
                f"tables {str(self.address)!r}: {doing} failed ({named(error)}). Check the address, and who may write there."
            )
        else:
            return
        raise failed


def _shown(columns: list[str]) -> str:
    return ", ".join(columns[:5]) + (" and more" if len(columns) > 5 else "")


def retrying(work: Callable[[], Found], conflicts: tuple[type[Exception], ...]) -> Found:
    """Do the work, again if another writer came first."""
    for attempt in range(TRIES):
        try:
            return work()
        except conflicts:
            if attempt == TRIES - 1:
                raise
        time.sleep(random.uniform(0.2, 1.0) * min(LONGEST_WAIT, 0.05 * 2**attempt))
    raise AssertionError


def columns_of(table: str) -> list[str]:
    return list(SHAPES[table].names)
