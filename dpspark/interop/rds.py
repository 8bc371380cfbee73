"""Files that R's readRDS() reads: R's own serialization, version 2, in XDR ("R Internals", 1.8).

Lists in lists, data frames and matrices in one file, which the libraries that write .rds without R cannot do.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

HEADER = b"X\n" + struct.pack(">iii", 2, 0x030500, 0x020300)  # version 2, as R 3.5 writes it and R 2.3 can read it
NULL = struct.pack(">i", 254)
SYMBOL, PAIR, CHARACTER, LOGICAL, INTEGER, REAL, STRINGS, LIST = 1, 2, 9, 10, 13, 14, 16, 19
IS_OBJECT, HAS_ATTRIBUTES, HAS_TAG, UTF8 = 1 << 8, 1 << 9, 1 << 10, 8 << 12
NA_INTEGER, NA_REAL = -(2**31), bytes.fromhex("7ff00000000007a2")


@dataclass(frozen=True)
class Matrix:
    """A matrix with names of its rows and columns."""

    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]


@dataclass(frozen=True)
class Classed:
    """A list with names that is an object of a class."""

    of: str
    items: Mapping[str, Any]


def rds(value: Any) -> bytes:
    """Write a value as a file's content: the same bytes for the same value."""
    return gzip.compress(HEADER + _item(value), mtime=0)


def _item(value: Any) -> bytes:
    if value is None:
        return NULL
    if isinstance(value, Mapping):
        return _named(value, [_item(each) for each in value.values()])
    if isinstance(value, Classed):
        attributes = {"names": _strings(value.items), "class": _strings([value.of])}
        return _with_attributes(_list([_item(each) for each in value.items.values()]), attributes, IS_OBJECT)
    if isinstance(value, pa.Table):
        return _data_frame(value)
    if isinstance(value, Matrix):
        dimensions = {
            "dim": _integers(value.values.shape),
            "dimnames": _list([*map(_item, (value.rows, value.columns))]),
        }
        return _with_attributes(_reals(value.values.T.ravel().tolist()), dimensions)
    if isinstance(value, list | tuple):
        kinds = {bool if isinstance(v, bool) else float if isinstance(v, int | float) else type(v) for v in value}
        atoms: dict[Any, Callable[[Iterable[Any]], bytes]] = {bool: _logicals, float: _reals, str: _strings}
        one_kind = kinds.pop() if len(kinds) == 1 else None
        return atoms[one_kind](value) if one_kind in atoms else _list([_item(each) for each in value])
    return _item([value])  # to R a single value is a vector of one


def _data_frame(table: pa.Table) -> bytes:
    columns = [_column(column) for column in table.columns]
    rows = _integers((NA_INTEGER, -table.num_rows))  # R's way to say 1 to n
    attributes = {"names": _strings(table.column_names), "row.names": rows, "class": _strings(["data.frame"])}
    return _with_attributes(_list(columns), attributes, IS_OBJECT)


def _column(column: Any) -> bytes:
    """Write a column. R has whole numbers of 32 bits, and those that a double holds; longer ones (keys) become text."""
    values = column.to_pylist()
    if pa.types.is_boolean(column.type):
        return _logicals(values)
    if not pa.types.is_integer(column.type):
        return _strings(values) if pa.types.is_string(column.type) else _reals(values)
    most = max(map(abs, values), default=0)
    if most < 2**31:
        return _integers(values)
    return _reals(values) if most <= 2**53 else _strings(map(str, values))


def _named(value: Mapping[str, Any], items: list[bytes]) -> bytes:
    return _with_attributes(_list(items), {"names": _strings(value)}) if items else _list([])


def _list(items: Sequence[bytes]) -> bytes:
    return struct.pack(">ii", LIST, len(items)) + b"".join(items)


def _strings(values: Iterable[str | None]) -> bytes:
    items = [_characters(value) for value in values]
    return struct.pack(">ii", STRINGS, len(items)) + b"".join(items)


def _characters(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">ii", CHARACTER, -1)  # NA
    if "\0" in text:
        raise ValueError("R has no text with a NUL")
    content = text.encode("utf-8")
    return struct.pack(">ii", CHARACTER | UTF8, len(content)) + content


def _reals(values: Iterable[float | None]) -> bytes:
    items = [NA_REAL if value is None else struct.pack(">d", float(value)) for value in values]
    return struct.pack(">ii", REAL, len(items)) + b"".join(items)


def _integers(values: Sequence[int]) -> bytes:
    return struct.pack(f">ii{len(values)}i", INTEGER, len(values), *values)


def _logicals(values: Iterable[bool]) -> bytes:
    items = list(values)
    return struct.pack(f">ii{len(items)}i", LOGICAL, len(items), *items)


def _with_attributes(item: bytes, attributes: Mapping[str, bytes], flags: int = 0) -> bytes:
    (kind,) = struct.unpack(">i", item[:4])
    pairs = [
        struct.pack(">ii", PAIR | HAS_TAG, SYMBOL) + _characters(name) + value for name, value in attributes.items()
    ]
    return struct.pack(">i", kind | HAS_ATTRIBUTES | flags) + item[4:] + b"".join(pairs) + NULL
