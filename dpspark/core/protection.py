"""Whom a release protects. What a dataset promises holds for all its releases together: each must promise no less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpspark.errors import LedgerError

ROWS = "rows"  # what a steward writes for: each row is somebody else
_COLUMN = "column:"


@dataclass(frozen=True)
class Protection:
    """Whom a release protects. `unit` is the column that says who a row is about; None: each row is somebody else.

    `fixed` are the columns that a replaced record keeps: a release that needs them protects less.
    """

    neighbours: str
    unit: str | None = None
    fixed: tuple[str, ...] = ()

    def __str__(self) -> str:
        whom = "one row" if self.unit is None else f"all rows of one {self.unit}"
        change = {"replace_one": ", replaced", "add_remove": ", added or removed"}.get(self.neighbours, "")
        kept = f", which keeps its {' and '.join(self.fixed)}" if self.fixed else ""
        return f"{whom}{change}{kept}"


@dataclass(frozen=True)
class Promise:
    """The protection that a dataset promises so far; None where it is not decided yet."""

    neighbours: str | None = None
    unit: str | None = None  # as stored: "rows" or "column:NAME"
    fixed: tuple[str, ...] | None = None

    def or_else(self, other: Promise) -> Promise:
        """Take from another promise what this one leaves open."""
        return Promise(
            self.neighbours or other.neighbours,
            self.unit or other.unit,
            other.fixed if self.fixed is None else self.fixed,
        )

    def after(self, releases: Sequence[Protection]) -> Promise:
        """Add what releases decided and nobody stated. They were all accepted, so the weakest of them is the first's."""
        if not releases:
            return self
        units = {store_unit(release.unit) for release in releases}
        fixed = tuple(sorted({name for release in releases for name in release.fixed}))
        return self.or_else(Promise(releases[0].neighbours, ROWS if ROWS in units else min(units), fixed))

    def __str__(self) -> str:
        return str(Protection(self.neighbours or "", unit_column(self.unit), self.fixed or ()))


def parse_promise(neighbours: str | None, unit: str | None, fixed: tuple[str, ...]) -> Promise:
    """Read what a steward wrote: `rows`, or a column."""
    return Promise(neighbours, ROWS if unit == ROWS else unit and store_unit(unit), tuple(sorted(fixed)) or None)


def store_unit(column: str | None) -> str:
    """Write a unit as the ledger stores it."""
    return ROWS if column is None else f"{_COLUMN}{column}"


def unit_column(stored: str | None) -> str | None:
    """Read the column from a stored unit; None if each row is somebody else."""
    return None if stored in (None, ROWS) else str(stored).removeprefix(_COLUMN)


def check_protection(dataset: str, promise: Promise, release: Protection) -> None:
    """Refuse what protects less, or what cannot be compared.

    The relations do not imply each other at the same epsilon: to replace a record is to remove one and add one, which two
    steps of add_remove cover, at twice the epsilon; and a replace_one release may publish the number of rows, which adding a
    record changes. A release that protects persons is welcome where each row is somebody else: there a person is a row.
    """
    if promise.neighbours not in (None, release.neighbours):
        raise LedgerError(
            f"dataset {dataset}: its budget is for neighbours: {promise.neighbours}; this release has {release.neighbours}. "
            f"Neither implies the other at the same epsilon.\nSet privacy.neighbours: {promise.neighbours}."
        )
    if promise.unit not in (None, ROWS, store_unit(release.unit)):
        column = unit_column(promise.unit)
        has = "one row" if release.unit is None else f"one {release.unit}"
        raise LedgerError(
            f"dataset {dataset}: its budget protects all rows of one {column}; this release protects {has}.\n"
            f"Set privacy.unit with column: {column}."
        )
    less = [] if promise.fixed is None else [name for name in release.fixed if name not in promise.fixed]
    if less:
        raise LedgerError(
            f"dataset {dataset}: its budget protects records whose {less[0]} may change; this release does not "
            f"(privacy.fixed).\nRemove {less[0]} from privacy.fixed, or use another dataset of the ledger."
        )
