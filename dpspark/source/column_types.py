"""The types of a source's columns: which of them fit which columns of a conf, and how the others are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dpspark.core.domain import Categorical, ClusterKey, GroupKey, Numeric, PersonKey, Weight
from dpspark.core.suggest import did_you_mean
from dpspark.errors import SourceError

TEXTS = ("string", "large_string", "string_view")
Column = Numeric | Categorical | Weight | GroupKey | PersonKey | ClusterKey


def check_type(column: Column, kind: Any) -> None:
    """Refuse a column whose type does not fit its bounds or categories."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    shown = str(value)  # whether it is stored by a dictionary does not matter
    if isinstance(column, GroupKey):
        text = types.is_string(value) or types.is_large_string(value) or value == pa.string_view()
        float_or_double = value in (pa.float32(), pa.float64())
        refuse_type(column, shown, text or types.is_integer(value) or types.is_boolean(value) or float_or_double)
    elif isinstance(column, PersonKey):
        text = types.is_string(value) or types.is_large_string(value) or value == pa.string_view()
        whole = types.is_integer(value) or (types.is_decimal(value) and value.scale == 0)
        refuse_type(column, shown, text or whole or types.is_binary(value) or types.is_fixed_size_binary(value))
    elif isinstance(column, ClusterKey):
        text = types.is_string(value) or types.is_large_string(value) or value == pa.string_view()
        whole = types.is_integer(value) or (types.is_decimal(value) and value.scale == 0)
        refuse_type(column, shown, text or whole or types.is_date(value) or types.is_boolean(value))
    elif not isinstance(column, Categorical):
        numeric = types.is_integer(value) or types.is_floating(value) or types.is_decimal(value)
        refuse_type(column, shown, numeric or types.is_boolean(value))
    else:
        text = types.is_string(value) or types.is_large_string(value) or value == pa.string_view()
        fits = {str: text, int: types.is_integer(value), bool: types.is_boolean(value)}
        refuse_type(column, shown, fits[type(column.categories[0])])


def check_types(column: Column, kinds: Mapping[Any, str]) -> None:
    """Refuse a column whose type does not fit in every file. `kinds` has a file for each type."""
    refused: dict[Any, SourceError] = {}
    for kind in kinds:
        try:
            check_type(column, kind)
        except SourceError as error:
            refused[kind] = error
    fitting = [kind for kind in kinds if kind not in refused]
    for kind, problem in refused.items():
        if not fitting:
            raise problem
        fits, other = (f"{_describe_type(each)} in {kinds[each]}" for each in (fitting[0], kind))
        raise SourceError(
            f"{describe_column(column)}: its type is {fits}, and {other}.\n"
            "Write the files with one type for it, or leave it out."
        )


def _describe_type(kind: Any) -> str:
    """Name a type in plain words, however it is stored."""
    name = str(kind.value_type if pa.types.is_dictionary(kind) else kind)
    return "text" if name in TEXTS else name


def describe_column(column: Column) -> str:
    """Name a column by its key in the conf, for messages."""
    if isinstance(column, GroupKey):
        return f"release.group_by: {column.name}"
    if isinstance(column, PersonKey):
        return f"privacy.unit.column={column.name!r}"
    if isinstance(column, ClusterKey):
        return f"release.errors.cluster={column.name!r}"
    return f"weight.column={column.name!r}" if isinstance(column, Weight) else f"columns.{column.name}"


def missing_column(column: Column, names: Sequence[str], where: str) -> SourceError:
    """Say that a column of the conf is not there, and which ones are."""
    known = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    meant = did_you_mean(column.name, names)
    return SourceError(f"{describe_column(column)}: no such column in {where}.{meant}\nIt has: {known}")


def refuse_type(column: Column, kind: str, fits: bool) -> None:
    """Refuse a column of this type, unless it fits; say what would."""
    if fits:
        return
    kind = "text" if kind in TEXTS else kind
    if isinstance(column, GroupKey):
        raise SourceError(
            f"{describe_column(column)}: its type is {kind}; expected text, integers (or whole-numbered floats) or booleans.\n"
            f"Cast it in source.sql, or group by a column with an expr, such as cast({column.name} as "
            f"{'bigint' if kind.startswith('decimal') else 'string'})."
        )
    if isinstance(column, PersonKey):
        raise SourceError(
            f"{describe_column(column)}: its type is {kind}; expected text, integers or binary: ids that are equal or not."
        )
    if isinstance(column, ClusterKey):
        raise SourceError(
            f"{describe_column(column)}: its type is {kind}; expected text, integers, dates or booleans: keys that are equal "
            "or not."
        )
    if isinstance(column, Weight):
        raise SourceError(
            f"{describe_column(column)}: its type is {kind}; expected integers, floats, decimals or booleans."
        )
    if isinstance(column, Numeric):
        dated = kind.startswith(("date", "timestamp"))
        how = f'Use a number of it: a column with expr: "year({column.name})"' if dated else "Give it categories"
        raise SourceError(
            f"columns.{column.name} has bounds but its type is {kind}; expected integers, floats, decimals or booleans."
            f"\n{how}, or cast it in source.sql."
        )
    wanted = {str: "text", int: "integer", bool: "true/false"}[type(column.categories[0])]
    raise SourceError(
        f"columns.{column.name} has {wanted} categories but its type is {kind}.\n"
        "Write the categories as the column has them (quoted for text), or cast it in source.sql."
    )
