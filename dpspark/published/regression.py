"""One published regression in the hands of an analyst."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpspark.analysis.content.regression import RegressionContent
from dpspark.analysis.fit import RegressionFit
from dpspark.analysis.options import Asked
from dpspark.published.release import Release

if TYPE_CHECKING:
    import pandas as pd


class RegressionRelease(Release[RegressionContent, RegressionFit]):
    """One published regression."""

    _has = "coefficients(), regress()"

    def fit(
        self,
        level: float | None = None,
        *,
        repair: str | None = None,
        interval: str | None = None,
        errors: str | None = None,
    ) -> RegressionFit:
        """The regression, with intervals at a level, by default 95%; what its mechanism does not give is refused."""
        return self.regress(level=level, repair=repair, interval=interval, errors=errors)

    def coefficients(self, level: float | None = None) -> pd.DataFrame:
        """The coefficients as a table, with intervals at a level."""
        return self.fit(level).to_frame()

    def _regress(self, asked: Asked) -> RegressionFit:
        return self.content.regress(asked)
