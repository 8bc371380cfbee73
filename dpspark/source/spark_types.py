"""The types that Spark's own reader gives to Parquet columns, for frames whose files our tasks read."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ARROW = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
WIDENED = {pa.uint8(): "smallint", pa.uint16(): "int", pa.uint32(): "bigint", pa.uint64(): "decimal(20,0)"}
NAMES = {**{kind: name for name, kind in ARROW.items()}, **WIDENED}


def spark_type(kind: Any, int96: bool = False) -> str:
    """Name the type that Spark's reader gives to a column; Arrow's name, if Spark has none."""
    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if int96:
        return "timestamp"  # Spark's own, always in UTC
    if types.is_timestamp(kind) and kind.unit in ("ms", "us"):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    if types.is_decimal(kind) and kind.precision <= 38:
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_large_string(kind) or kind == pa.string_view():
        return "string"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return "binary"
    if kind == pa.binary_view():
        return "binary"
    if types.is_date(kind):
        return "date"
    if types.is_duration(kind):
        return "bigint"
    if types.is_nested(kind):
        return _nested_type(kind)
    return NAMES.get(kind, str(kind))


def _nested_type(kind: Any) -> str:
    """Name a nested type as Spark does; only its own reader reads it."""
    if pa.types.is_struct(kind):
        fields = ((one.name.replace("`", "``"), spark_type(one.type)) for one in kind)
        return f"struct<{', '.join(f'`{name}`: {inner}' for name, inner in fields)}>"
    if pa.types.is_map(kind):
        return f"map<{spark_type(kind.key_type)}, {spark_type(kind.item_type)}>"
    if pa.types.is_union(kind):
        return str(kind)
    return f"array<{spark_type(kind.value_type)}>"


def has_half_floats(schema: Any) -> bool:
    """Tell whether a file has half floats, at any depth: Spark 3.5 fails to read such a footer."""
    return any("halffloat" in str(field.type) for field in schema)


def arrow_type(name: str) -> Any:
    """Find the Arrow type that a task must give Spark, which does not cast; None if it cannot."""
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", name)
    return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else ARROW.get(name)


def convert(values: Any, kind: Any) -> Any:
    """Convert a file's values as Spark's reader would, or to a type that holds those of all files."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        values = pc.floor_temporal(values, unit="microsecond")  # Spark has no nanoseconds
    if pa.types.is_boolean(values.type) and not pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    # A safe cast of numbers to doubles would refuse integers beyond 2^53; the direct reader rounds them the same way.
    return values.cast(kind, safe=not pa.types.is_float64(kind))
