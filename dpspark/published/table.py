"""A published table of results, lines or quantiles, in the hands of an analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from dpspark.analysis.content.table import TableContent
from dpspark.analysis.options import Asked
from dpspark.analysis.result import Result
from dpspark.published.notebook import content_parts
from dpspark.published.release import Release
from dpspark.show.tables import Part

if TYPE_CHECKING:
    import pandas as pd

TableT = TypeVar("TableT", bound=TableContent)


class TableRelease(Release[TableT, Result], Result):
    """A release that is its own result: it is shown as it was released, and `regress` returns it."""

    @property
    def title(self) -> str:
        return self.content.title

    @property
    def notes(self) -> list[str]:
        """Lines that a reader of the table should know."""
        return self.content.notes

    @property
    def group_by(self) -> tuple[str, ...]:
        """The columns of the groups."""
        return self.content.group_by

    def to_frame(self) -> pd.DataFrame:
        """The whole table, for pandas."""
        return self.content.table.to_pandas()

    def group(self, **keys: Any) -> pd.DataFrame:
        """The rows of one group, e.g. group(state="CA")."""
        return self.only(**keys).to_frame()

    def only(self, **keys: Any) -> Self:
        """The release of one group."""
        return type(self)(self.content.one(keys))

    def parts(self) -> list[Part]:
        return content_parts(self.content)

    def _regress(self, asked: Asked) -> Self:
        self.content.check(asked)
        return self
