"""The rows that one protected record can change: said once, read from a spec and from a manifest by the same code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Change = Literal["added", "replaced", "either"]


@dataclass(frozen=True)
class Records:
    """The rows that one protected record can change, in which way, and in how many groups.

    The rows of one record may be spread over groups; privacy.sensitivity says why a mechanism that is calibrated for all of
    them in one group is enough.
    """

    change: Change
    rows: int = 1
    moves: bool = False  # a replaced record may turn up in another group
    grouped: bool = False  # rows of one record may be in several groups

    @property
    def groups(self) -> int:
        """The most groups that change: for each row one, or the one that it leaves and the one that it enters."""
        return (self.rows if self.grouped else 1) * (2 if self.moves else 1)

    @property
    def replaced(self) -> bool:
        """Whether a row may be replaced by another: two changes of one added row each."""
        return self.change != "added"

    @property
    def public_rows(self) -> bool:
        """Whether every group's number of rows stays as it is."""
        return self.change == "replaced" and not self.moves

    @property
    def composition(self) -> str:
        """The way in which the mechanisms of groups add up, in words, for a manifest."""
        if self.rows == 1:
            return "parallel: a record is in one group" + (
                "; it may move to another, so that two change" if self.moves else ""
            )
        rows = (
            f"parallel: a row is in one group, and the noise is for {self.rows} rows of one record, in whichever groups"
        )
        return rows + ("; they may move to others, so that twice as many change" if self.moves else "")


@dataclass(frozen=True)
class Clusters:
    """The clusters of rows that one protected record can change.

    A cluster may be a person: then the person's rows are all of it (`whole`). Otherwise the rows of one record may be in as
    many clusters as there are rows, with rows of others, and a replaced one may leave one cluster and enter another.
    """

    records: Records
    people: int = 1  # who may change with the record, each with some of its rows
    whole: bool = False  # a cluster is a person

    @property
    def replaced(self) -> bool:
        """Whether rows may go and others come in their place."""
        return self.records.replaced

    @property
    def count(self) -> int:
        """The most clusters that there are more, or fewer, with one record: as many may go as come."""
        return self.people if self.whole else self.records.rows


@dataclass(frozen=True)
class Statements:
    """The statements of a conf or a manifest that decide what a record can change."""

    neighbours: str
    stated_rows: int | None  # source.rows_per_record: the operator's word for it
    max_rows: int | None  # of a person, where a unit is protected
    group_by: tuple[str, ...]
    fixed: tuple[str, ...]  # columns that a replaced record keeps
    drops: bool  # a value of a record can make its row go: a filter, a weight of 0, Spark's plan if it was judged so

    @property
    def records(self) -> Records:
        return Records(self._change, self._rows, self._moves, grouped=bool(self.group_by))

    def clusters(self, by: str, unit: str | None) -> Clusters:
        """Say what a record can change of the clusters by a column, where a person's id is in the column `unit`."""
        return Clusters(self.records, self.stated_rows or 1, whole=self.max_rows is not None and by == unit)

    @property
    def _rows(self) -> int:
        """The number of the release's rows that one protected record can change.

        With a unit the operator's number is of people, the protected one among them: rows of so many may change, and of each
        at most max_rows are kept. A number of rows would not do: a person may have any number of records.
        """
        return (self.stated_rows or 1) * (self.max_rows or 1)

    @property
    def _moves(self) -> bool:
        """Whether a replaced record may turn up in another group.

        A person who is only added or removed moves nothing: the rows may be in several groups, but each is added to its own.
        """
        if not self.group_by:
            return False
        if self.stated_rows is not None:
            return True  # a joined or aggregated row may turn up in another group where a record is only added
        return self.neighbours == "replace_one" and not set(self.group_by) <= set(self.fixed)

    @property
    def _change(self) -> Change:
        """The change that one record makes to the rows that are read."""
        if self.stated_rows is not None:
            # A joined or aggregated row may change where its record is only added: protect against all of it.
            return "either"
        if self.neighbours == "add_remove":
            return "added"
        # Another person may have more rows, or fewer.
        return "either" if self.drops or self.max_rows is not None else "replaced"
