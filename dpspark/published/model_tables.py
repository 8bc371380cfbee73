"""`dpspark.table`: regressions side by side, from one release or several."""

from __future__ import annotations

from collections.abc import Sequence

from dpspark.analysis.model_table import ModelTable, model_table
from dpspark.analysis.regression import Regression


def table(fits: Sequence[Regression], labels: Sequence[str] | None = None) -> ModelTable:
    """Put regressions side by side, as papers print them; print the table, or take its `to_dict()`."""
    return model_table(fits, labels)
