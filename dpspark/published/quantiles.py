"""Published quantiles in the hands of an analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from dpspark.analysis.content.quantiles import QuantilesContent
from dpspark.analysis.options import Asked
from dpspark.analysis.remarks import line_remarks
from dpspark.analysis.result import without_nan
from dpspark.published.table import TableRelease

if TYPE_CHECKING:
    import pandas as pd


class QuantilesRelease(TableRelease[QuantilesContent]):
    """Published quantiles of columns."""

    _has = "quantiles(), summary()"

    def quantiles(self) -> pd.DataFrame:
        """A row for each group, column and probability, as a table."""
        return self.to_frame()

    def only(self, **keys: Any) -> Self:
        """The release of one group."""
        if not self.group_by:
            raise self._no_groups()
        return super().only(**keys)

    def summary(self) -> str:
        """All quantiles as text."""
        shown = self.quantiles().to_string(index=False)
        return "\n".join([self.title, "", shown, *self.notes, *line_remarks(self.manifest)])

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "quantiles": without_nan(self.content.table.to_pylist()),
            "definitions": self.content.definitions,
        }

    def _regress(self, asked: Asked) -> Self:
        super()._regress(asked)
        if asked.formula is not None:
            raise self._no_matrix()
        return self
