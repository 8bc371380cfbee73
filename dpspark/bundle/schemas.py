"""The schemas of all tables of a release."""

from __future__ import annotations

import pyarrow as pa

# The names of rows and columns among the statistics of a regression that are not terms.
LEAST_EIGENVALUE = "(least eigenvalue)"
START, RESIDUAL, CLIP = "(start)", "(residual)", "(clip)"  # of a refined one

SECOND_MOMENT_SCHEMA = pa.schema(
    [("row", pa.string()), ("col", pa.string()), ("value", pa.float64()), ("noise_std", pa.float64())]
)
# Of one regression, in scaled coordinates: Σ x xᵀ, Σ x y, Σ y² and λ_min, under the names of their rows and columns.
STATISTICS_SCHEMA = SECOND_MOMENT_SCHEMA
COEFFICIENTS_SCHEMA = pa.schema(
    [
        ("term", pa.string()),
        ("estimate", pa.float64()),
        ("std_error", pa.float64()),
        ("ci_low", pa.float64()),
        ("ci_high", pa.float64()),
        ("status", pa.string()),
        ("errors", pa.string()),  # classical, hc1 or cluster: what the standard errors are
    ]
)
# Σ r²·x xᵀ of each regression whose standard errors were paid for.
MEAT_SCHEMA = pa.schema([("regression", pa.string()), *SECOND_MOMENT_SCHEMA])
DIAGNOSTICS_SCHEMA = pa.schema(
    [("column", pa.string()), ("side", pa.string()), ("clipped_share", pa.float64()), ("noise_std", pa.float64())]
)
# After the columns of the groups, in the types of the source.
PREDICTIONS_SCHEMA = pa.schema(
    [
        *((name, pa.float64()) for name in ("x", "estimate", "ci_low", "ci_high", "slope", "intercept")),
        ("status", pa.string()),
    ]
)
# After the columns of the groups: how many rows each has, with noise.
GROUP_COUNTS_SCHEMA = pa.schema([("rows", pa.float64()), ("noise_std", pa.float64())])
# How rows of all groups together lie around their lines, in units of the bounds: counts with noise.
LINE_CELLS_SCHEMA = pa.schema(
    [(name, pa.float64()) for name in ("x_low", "x_high", "residual_low", "residual_high", "rows", "noise_std")]
)
# Columns of smoothed groups, beside their keys.
SMOOTHED_NAMES = (
    *(
        "x",
        "term",
        "raw",
        "estimate",
        "std_error",
        "ci_low",
        "ci_high",
        "moe90",
        "cv",
        "shrinkage",
        "suppressed",
        "status",
    ),
    *("target", "expected", "noise_std"),
)
QUANTILES_SCHEMA = pa.schema(
    [
        ("column", pa.string()),
        ("probability", pa.float64()),
        ("estimate", pa.float64()),
        ("status", pa.string()),
        ("rank_error", pa.float64()),
    ]
)
SCHEMAS = {
    "second_moment": SECOND_MOMENT_SCHEMA,
    "scaled": SECOND_MOMENT_SCHEMA,
    "squared_weights": SECOND_MOMENT_SCHEMA,
    "statistics": STATISTICS_SCHEMA,
    "coefficients": COEFFICIENTS_SCHEMA,
    "meat": MEAT_SCHEMA,
    "scaled_meat": MEAT_SCHEMA,
    "diagnostics": DIAGNOSTICS_SCHEMA,
    "predictions": PREDICTIONS_SCHEMA,
    "quantiles": QUANTILES_SCHEMA,
    "group_counts": GROUP_COUNTS_SCHEMA,
    "line_cells": LINE_CELLS_SCHEMA,
}
# Tables that older versions wrote in another way.
EARLIER_SCHEMAS = {
    "quantiles": pa.schema(list(QUANTILES_SCHEMA)[:-1]),
    "coefficients": pa.schema(list(COEFFICIENTS_SCHEMA)[:-1]),
}
