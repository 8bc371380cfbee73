"""Published lines in the hands of an analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.remarks import line_remarks
from dpspark.analysis.result import without_nan
from dpspark.published.table import TableRelease

if TYPE_CHECKING:
    import pandas as pd


class LinesRelease(TableRelease[LinesContent]):
    """Published lines, one for each group."""

    _has = "predictions(), summary()"

    @property
    def target(self) -> str | None:
        """The line that is aimed at: median or mean; None if its kernel is unknown here."""
        return self.content.target

    @property
    def aim(self) -> str:
        """The same in a sentence."""
        return self.content.aim

    @property
    def level(self) -> float | None:
        """The confidence level of the intervals; None if none were paid for."""
        return self.content.level

    def predictions(self) -> pd.DataFrame:
        """A row for each group and cut, as a table."""
        return self.to_frame()

    def summary(self, shown: int = 10) -> str:
        """The first predictions as text."""
        release, mechanism = self.manifest["release"], self.manifest["mechanism"]
        table = self.predictions()
        groups = len(table) // max(1, table["x"].nunique())
        count = f"{groups:,} line{'s' if groups != 1 else ''}"
        head = [
            f"{release['y']} at {release['x']}, by {', '.join(self.group_by) or 'one line'}: {count}",
            f"{self.title}; {mechanism['kernel']}",
            self.aim,
            *([f"Chosen because {mechanism['chosen']}"] if "chosen" in mechanism else []),
        ]
        more = [f"... {len(table) - shown:,} more rows in predictions.parquet"] if len(table) > shown else []
        notes = [*more, *self.notes, *line_remarks(self.manifest)]
        return "\n".join([*head, "", table.head(shown).to_string(index=False), *notes])

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "target": self.target,
            "level": self.level,
            "predictions": without_nan(self.content.table.to_pylist()),
            "definitions": self.content.definitions,
        }
