"""Regressions for R: a list with an object for each, of the class that the package modelsummary takes as a model."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from dpspark.analysis.model_table import ModelTable
from dpspark.analysis.regression import ROWS, Regression
from dpspark.interop.rds import Classed, rds

# Our names, and those that R's package broom has for the same.
TIDY = {
    "term": "term",
    "estimate": "estimate",
    "std_error": "std.error",
    "statistic": "statistic",
    "p_value": "p.value",
    "ci_low": "conf.low",
    "ci_high": "conf.high",
}
GLANCE = {
    "nobs": "nobs",
    "r_squared": "r.squared",
    "adj_r_squared": "adj.r.squared",
    "sigma": "sigma",
    "df_residual": "df.residual",
    "errors": "vcov.type",
    "status": "status",
}


def as_rds(table: ModelTable) -> bytes:
    """Write all models, by their labels, and the notes that belong below a table of them."""
    models = {label: _model(fit) for label, fit in zip(table.labels, table.fits, strict=True)}
    return rds({"models": models, "notes": table.notes})


def _model(fit: Regression) -> Classed:
    whole = fit.glance()
    # A number with noise in it; R prints it as one of rows, which a sum of weights is not.
    whole["nobs"] = whole["nobs"].clip(lower=0).round().where(whole["nobs_is"] == ROWS)
    return Classed("modelsummary_list", {"tidy": _named(fit.tidy(), TIDY), "glance": _named(whole, GLANCE)})


def _named(frame: pd.DataFrame, names: dict[str, str]) -> pa.Table:
    """Take these columns, with numbers as doubles; no number is NA."""
    found = {theirs: frame[ours] for ours, theirs in names.items()}
    columns = {
        name: pa.array([str(value) for value in values]) if values.dtype == object else pa.array(values.astype(float))
        for name, values in found.items()
    }
    return pa.table(columns)
