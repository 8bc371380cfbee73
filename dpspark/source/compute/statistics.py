"""Tell from the statistics of a row group that a filter keeps none of its rows.

Values are taken for ranges and conditions for what they may be; whatever is not understood may be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpspark.source.compute.program import Call, Column, Literal, Node, Program

Bound = tuple[int, Any]  # numbers in the middle: (0, number)
BELOW: Bound = (-1, 0)
NAN: Bound = (1, 0)  # above every number, as in Spark
ABOVE: Bound = (2, 0)
WHOLE = ("tinyint", "smallint", "int", "bigint")
FLOATING = ("float", "double")
FLOATS = ("FLOAT", "DOUBLE")
SIGNED = ("NONE", "INT_8", "INT_16", "INT_32", "INT_64")  # Parquet's names for what an integer is


@dataclass(frozen=True)
class ColumnStatistics:
    """What a row group says of a column: the least and the largest value that is neither null nor NaN, if known."""

    rows: int
    nulls: int | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None


@dataclass(frozen=True)
class _Range:
    low: Bound
    high: Bound
    null: bool  # it may be null
    only_null: bool = False


@dataclass(frozen=True)
class _Truth:
    """What a condition may be in some row."""

    true: bool = True
    false: bool = True
    null: bool = True


UNKNOWN = _Range(BELOW, ABOVE, null=True)


def statistics_of(row_group: Any, names: Iterable[str]) -> dict[str, ColumnStatistics]:
    """Read the statistics of some columns from pyarrow's metadata of a row group."""
    wanted, found = {name for name in names if "." not in name}, {}
    for i in range(row_group.num_columns):
        column = row_group.column(i)
        if column.path_in_schema in wanted and column.is_stats_set:
            found[column.path_in_schema] = _read(column.statistics, row_group.num_rows)
    return found


def _read(statistics: Any, rows: int) -> ColumnStatistics:
    nulls = statistics.null_count if statistics.has_null_count else None
    plain = statistics.logical_type.type in ("NONE", "INT", "DATE") and statistics.converted_type in (*SIGNED, "DATE")
    whole = plain and statistics.physical_type in (
        "INT32",
        "INT64",
    )  # times may have units that no converted type names
    if not statistics.has_min_max or not (whole or (plain and statistics.physical_type in FLOATS)):
        return ColumnStatistics(rows, nulls)
    minimum, maximum = statistics.min_raw, statistics.max_raw
    if not minimum <= maximum:  # NaN among them, or no sense in them
        return ColumnStatistics(rows, nulls)
    return ColumnStatistics(rows, nulls, minimum, maximum)


def can_skip(program: Program, statistics: Mapping[str, ColumnStatistics]) -> bool:
    """Tell whether a filter surely keeps no row of a row group with these statistics."""
    return not _truth(program.root, statistics).true


def _truth(node: Node, known: Mapping[str, ColumnStatistics]) -> _Truth:
    if isinstance(node, Literal) and node.type == "boolean":
        return _Truth(node.value is True, node.value is False, node.value is None)
    if not isinstance(node, Call):
        return _Truth()
    if node.kernel in ("and", "or", "not"):
        return _connect(node.kernel, *(_truth(one, known) for one in node.inputs))
    if node.kernel not in ("compare", "<=>", "in", "is_null"):
        return _Truth()
    ranges = [_range(one, known) for one in node.inputs]
    if node.kernel == "is_null":
        return _Truth(ranges[0].null, not ranges[0].only_null, False)
    if node.kernel == "<=>":
        one, other = ranges
        return _Truth(_compare("=", one, other).true or (one.null and other.null), True, False)
    if node.kernel == "in":
        return _is_in(ranges[0], node)
    return _compare(node.options[0], *ranges)


def _connect(kernel: str, one: _Truth, other: _Truth | None = None) -> _Truth:
    if other is None:
        return _Truth(one.false, one.true, one.null)
    null = one.null or other.null
    if kernel == "and":
        return _Truth(one.true and other.true, one.false or other.false, null)
    return _Truth(one.true or other.true, one.false and other.false, null)


def _compare(sign: str, one: _Range, other: _Range) -> _Truth:
    null = one.null or other.null
    if one.only_null or other.only_null:
        return _Truth(False, False, True)
    if sign in (">", ">="):
        sign, one, other = sign.replace(">", "<"), other, one
    if sign == "<":
        return _Truth(one.low < other.high, one.high >= other.low, null)
    if sign == "<=":
        return _Truth(one.low <= other.high, one.high > other.low, null)
    return _Truth(one.low <= other.high and other.low <= one.high, True, null)


def _is_in(one: _Range, node: Call) -> _Truth:
    if one.only_null:
        return _Truth(False, False, True)
    if node.inputs[0].type not in (*WHOLE, "date"):
        return _Truth(null=one.null)
    return _Truth(any(one.low <= (0, value) <= one.high for value in node.options), True, one.null)


def _range(node: Node, known: Mapping[str, ColumnStatistics]) -> _Range:
    if isinstance(node, Column):
        return _column_range(node, known.get(node.name))
    if isinstance(node, Literal):
        if node.value is None:
            return _Range(BELOW, ABOVE, null=True, only_null=True)
        if node.type not in (*WHOLE, *FLOATING, "date"):
            return _Range(BELOW, ABOVE, null=False)
        return _Range((0, node.value), (0, node.value), null=False)
    if node.kernel == "cast" and node.inputs[0].type in (*WHOLE, "float") and node.type in (*WHOLE, *FLOATING):
        inner = _range(node.inputs[0], known)
        order = (*WHOLE, *FLOATING)
        if order.index(node.type) > order.index(node.inputs[0].type):  # to a wider type: larger stays larger
            return _Range(_as(node.type, inner.low), _as(node.type, inner.high), inner.null, inner.only_null)
    return UNKNOWN


def _column_range(column: Column, found: ColumnStatistics | None) -> _Range:
    if found is None:
        return UNKNOWN
    null, only_null = found.nulls != 0, found.nulls == found.rows
    if found.minimum is None or found.maximum is None or column.type not in (*WHOLE, *FLOATING, "date"):
        return _Range(BELOW, ABOVE, null, only_null)
    whole = isinstance(found.minimum, int) and isinstance(found.maximum, int)
    if column.type not in FLOATING and not whole:
        return _Range(BELOW, ABOVE, null, only_null)
    low, high = _as(column.type, (0, found.minimum)), _as(column.type, (0, found.maximum))
    return _Range(low, high if whole else NAN, null, only_null)


def _as(kind: str, bound: Bound) -> Bound:
    """Round a bound as its column is rounded."""
    if bound[0] != 0 or kind not in FLOATING:
        return bound
    return 0, float(bound[1]) if kind == "double" else float(np.float32(bound[1]))
