"""Published regressions or matrices by group, as a problem of smoothing: their coefficients have covariances already."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.keys import keys_in, keys_of_rows, rows_by_key
from dpspark.analysis.options import Asked
from dpspark.errors import ConfError
from dpspark.smoothing.covariates import ROWS, no_covariates, read_covariates
from dpspark.smoothing.model import Areas
from dpspark.smoothing.problem import Problem


def coefficients_problem(content: GroupedContent, covariates: Any, formula: str | None) -> Problem:
    """Fit the regression in each group; groups in which the noise drowns it have no values of their own."""
    fits = []
    for _, one in content.each():
        if formula is None and isinstance(one, GramContent):
            formula = one.example()
        fits.append(one.regress(Asked(formula=formula)))
    raw = np.array([list(fit.params.values()) for fit in fits])
    noise = np.array([fit._covariance() for fit in fits])
    by = list(content.group_by)
    first = next(table for table in content.tables.values() if keys_in(table, by))
    groups = first.take(pa.array([at[0] for at in rows_by_key(first, by).values()])).select(by)
    keys = keys_of_rows(groups, by)
    beside = no_covariates(len(keys)) if covariates is None else read_covariates(covariates, by, keys)
    if beside.rows is not None:
        raise ConfError(
            f"covariates: {ROWS} is for lines, and this release has covariances of its own. Leave the column out, or rename it."
        )
    return Problem(
        groups,
        Areas(np.where(np.isfinite(noise).all(axis=(1, 2))[:, None], raw, np.nan), noise, beside.design),
        raw,
        np.eye(raw.shape[1]),
        0.0,
        "term",
        list(fits[0].params),
        "least squares",
        beside.names,
        {"formula": str(getattr(fits[0], "formula", formula))},
    )
