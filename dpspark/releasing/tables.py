"""The tables of a release, made of what was drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dpspark.analysis.fit import RegressionFit
from dpspark.bundle.schemas import (
    COEFFICIENTS_SCHEMA,
    DIAGNOSTICS_SCHEMA,
    GROUP_COUNTS_SCHEMA,
    LINE_CELLS_SCHEMA,
    PREDICTIONS_SCHEMA,
    QUANTILES_SCHEMA,
    SECOND_MOMENT_SCHEMA,
)
from dpspark.exact.line_cells import LineCells
from dpspark.mechanisms.counts.clipped import NoisyShares
from dpspark.mechanisms.counts.groups import NoisyGroupCounts
from dpspark.mechanisms.gram.noisy import NoisyGram
from dpspark.mechanisms.lines.plane import SimpleFit
from dpspark.mechanisms.quantiles.published import QuantileRow
from dpspark.source.group_keys import ReleasedGroups
from dpspark.source.hierarchy import Hierarchy


def second_moment_table(noisy: NoisyGram) -> pa.Table:
    matrix, noise_std = noisy.second_moment()
    terms = noisy.domain.terms
    rows = [term for term in terms for _ in terms]
    return pa.table([rows, list(terms) * len(terms), matrix.ravel(), noise_std.ravel()], schema=SECOND_MOMENT_SCHEMA)


def scaled_table(noisy: NoisyGram) -> pa.Table:
    """The same in scaled coordinates, where columns far from 0 keep their digits."""
    terms, width = noisy.domain.terms, noisy.domain.width
    matrix = scaled_matrix_of(noisy)
    rows = [term for term in terms for _ in terms]
    noise = np.full(width * width, np.nan)
    return pa.table([rows, list(terms) * width, matrix.ravel(), noise], schema=SECOND_MOMENT_SCHEMA)


def scaled_matrix_of(noisy: NoisyGram) -> np.ndarray:
    """The matrix in scaled coordinates."""
    width, steps = noisy.domain.width, noisy.domain.steps_per_row
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = [value / steps for value in noisy.upper]
    return np.triu(matrix, 1) + matrix.T


def grouped_table(groups: ReleasedGroups, tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of one shape, one after the other, each row with its group's keys."""
    stacked = pa.concat_tables(tables)
    fields, columns = _key_columns(groups, tables[0].num_rows)
    return pa.table([*columns, *stacked.columns], schema=pa.schema([*fields, *stacked.schema]))


def _key_columns(groups: ReleasedGroups, rows: int) -> tuple[list[pa.Field], list[pa.Array]]:
    """The first columns of a table by group, in their types; every group has so many rows."""
    fields = [pa.field(name, kind) for name, kind in zip(groups.names, groups.types, strict=True)]
    columns = [
        pa.array([key[i] for key in groups.values for _ in range(rows)], field.type) for i, field in enumerate(fields)
    ]
    return fields, columns


def coefficients_table(fit: RegressionFit) -> pa.Table:
    whole = {"status": fit.status, "errors": fit.errors}
    rows = [{**{name: row.get(name) for name in COEFFICIENTS_SCHEMA.names}, **whole} for row in fit.rows()]
    return pa.Table.from_pylist(rows, schema=COEFFICIENTS_SCHEMA)


def predictions_table(groups: ReleasedGroups, fits: Sequence[SimpleFit]) -> pa.Table:
    """A row for each group and cut, in the order of the list."""
    cuts = len(fits[0].x)
    fields, columns = _key_columns(groups, cuts)
    each = [[value for fit in fits for value in getattr(fit, name)] for name in ("x", "estimate", "ci_low", "ci_high")]
    whole = [[getattr(fit, name) for fit in fits for _ in range(cuts)] for name in ("slope", "intercept", "status")]
    return pa.table([*columns, *each, *whole], schema=pa.schema([*fields, *PREDICTIONS_SCHEMA]))


def group_counts_table(groups: ReleasedGroups, noisy: NoisyGroupCounts) -> pa.Table:
    """A row for each group, in the order of the list."""
    fields, columns = _key_columns(groups, 1)
    numbers = [pa.array(noisy.rows, pa.float64()), pa.array([noisy.noise_std] * len(noisy.rows), pa.float64())]
    return pa.table([*columns, *numbers], schema=pa.schema([*fields, *GROUP_COUNTS_SCHEMA]))


def line_cells_table(cells: LineCells, noisy: NoisyGroupCounts) -> pa.Table:
    """A row for each cell of x and residual."""
    numbers = [list(map(float, noisy.cells)), [noisy.cells_std] * len(noisy.cells)]
    return pa.table([*cells.columns().values(), *numbers], schema=LINE_CELLS_SCHEMA)


def hierarchy_table(levels: Hierarchy, groups: ReleasedGroups) -> pa.Table:
    """A row for each group, in the order of the list, with its keys on all levels. All of it is public."""
    types = {**levels.types(), **dict(zip(groups.names, groups.types, strict=True))}
    return levels.table([key[0] for key in groups.values], types)


def quantiles_table(found: Sequence[QuantileRow]) -> pa.Table:
    columns = [[getattr(row, name) for row in found] for name in QUANTILES_SCHEMA.names]
    return pa.table(columns, schema=QUANTILES_SCHEMA)


def diagnostics_table(noisy: NoisyShares) -> pa.Table:
    columns = [list(values) for values in (noisy.column, noisy.side, noisy.share, noisy.noise_std)]
    return pa.table(columns, schema=DIAGNOSTICS_SCHEMA)
