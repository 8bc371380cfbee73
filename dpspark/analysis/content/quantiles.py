"""The content of a release of kind quantiles: quantiles of columns, for each group if there are groups."""

from __future__ import annotations

from dpspark.analysis.content.table import TableContent
from dpspark.mechanisms.quantiles.published import MEANING, RANK_ERROR


class QuantilesContent(TableContent):
    """A row for each group, column and probability."""

    needed = "quantiles"

    @property
    def notes(self) -> list[str]:
        """The meaning of the columns of the table."""
        if "rank_error" not in self.table.column_names:  # of version 0.2
            return []
        said = sorted({*self.table["status"].to_pylist()} & {*MEANING})
        return [RANK_ERROR, *(f"{status}: {MEANING[status]}" for status in said)]
