"""The tables of a pool: sums of its parts' tables, and the noise of these sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.gram import GramContent
from dpspark.errors import ConfError
from dpspark.pooling.alike import Part

SUMMED = ("second_moment", "scaled", "squared_weights")  # whose values add up
NUMBERS = ("value", "noise_std")


def sum_tables(parts: Sequence[Part]) -> dict[str, pa.Table]:
    """Add up every table that all parts have and that adds up. Shares of clipped values are averaged by rows."""
    names = [name for name in SUMMED if all(name in part.content.tables for part in parts)]
    found = {name: sum_alike([part.content.tables[name] for part in parts]) for name in names}
    contents = [part.content for part in parts if isinstance(part.content, GramContent)]
    if len(contents) == len(parts) and all("diagnostics" in content.tables for content in contents):
        found["diagnostics"] = _mean_shares(contents)
    return found


def sum_alike(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up values, and the variances of their noise. Rows are of the same entries, of the same groups in one order."""
    labels = [name for name in tables[0].schema.names if name not in NUMBERS]
    first = tables[0].select(labels).combine_chunks()
    if any(table.schema != tables[0].schema or table.select(labels).combine_chunks() != first for table in tables):
        raise ConfError(
            "pool: the releases do not have the same groups in the same order. Release all parts with one list of groups."
        )
    values, stds = (np.array([table[name].to_numpy() for table in tables]) for name in NUMBERS)
    total = np.array([math.fsum(column) for column in values.T])
    numbers = {"value": total, "noise_std": np.sqrt(np.square(stds).sum(axis=0))}
    columns = [pa.array(numbers[name]) if name in numbers else first[name] for name in tables[0].schema.names]
    return pa.table(columns, schema=tables[0].schema)


def _mean_shares(contents: Sequence[GramContent]) -> pa.Table:
    """Average shares of values beyond bounds, each part by its rows."""
    rows = np.array([max(content.moments.rows, 0.0) for content in contents])
    shares = rows / rows.sum() if rows.sum() > 0 else np.full(len(rows), 1 / len(rows))
    tables = [content.tables["diagnostics"] for content in contents]
    values, stds = (np.array([t[name].to_numpy() for t in tables]) for name in ("clipped_share", "noise_std"))
    found = {"clipped_share": shares @ values, "noise_std": np.sqrt(np.square(shares) @ np.square(stds))}
    schema = tables[0].schema
    return pa.table([pa.array(found[n]) if n in found else tables[0][n] for n in schema.names], schema=schema)
