"""The rows of a release on Spark: files that tasks read themselves, or a DataFrame. Passes ask both in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from dpspark.source.group_keys import ReleasedGroups

# Of one task: from record batches of the columns c0, c1, ... to record batches.
TaskFunction = Callable[[Iterator[Any]], Iterator[Any]]


class TableGuard(Protocol):
    """A lake table that Spark reads, at one state: see dpspark.spark.snapshots."""

    def check(self) -> None:
        """Refuse to go on if Spark may have read another state."""
        ...

    def explain(self) -> None:
        """After a pass that failed: say so if the table is the reason."""
        ...


class RowSource(Protocol):
    """The rows of a release, with just its columns, in order."""

    @property
    def groups(self) -> ReleasedGroups:
        """The public list of groups, in the types of the source's columns."""
        ...

    def take(self, positions: Sequence[int]) -> Self:
        """The same rows with some of the columns alone."""
        ...

    def check_unchanged(self) -> None:
        """Refuse to go on if a file is not the one that was listed: all passes must see the same rows."""
        ...

    def map_in_arrow(self, spark: Any, function: TaskFunction, schema: str) -> Any:
        """Make a frame of what the function makes of the rows; each task shows it all of its rows, batch by batch."""
        ...

    def tasks(self, spark: Any) -> int:
        """The most tasks that show rows."""
        ...

    def kept(self, passes: int) -> AbstractContextManager[None]:
        """Keep what was computed for so many passes, where that is faster than to compute it again."""
        ...
