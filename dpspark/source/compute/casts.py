"""Casts as Spark does them without ANSI mode: integers wrap around, floats stop at the last integer, bad text is null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.source.compute.arithmetic import to_long
from dpspark.source.compute.arrays import decimal_words, null_where, nulls_of, values_of, wrap
from dpspark.source.compute.numbers_in_text import doubles_in, integers_in

EXACT = 1 << 53  # integers up to here are doubles
EXACT_POWER = 22  # of ten, that is a double


def cast(kind: Any, one: Any) -> Any:
    """Cast numbers and booleans to `kind`, one of them; text to whole numbers or doubles; whole numbers to text."""
    types = pa.types
    source = one.type
    if types.is_string(source):
        return doubles_in(one) if types.is_floating(kind) else integers_in(one, kind)
    if types.is_string(kind):
        return pc.cast(one, kind)
    if types.is_decimal(source):
        return _cast_decimals(one, kind)
    if types.is_boolean(kind):
        return wrap(kind, values_of(one) != 0, nulls_of(one))
    if types.is_decimal(kind):
        return _to_decimals(one, kind)
    if types.is_floating(source) and types.is_integer(kind):
        return wrap(kind, _to_whole(values_of(one), kind), nulls_of(one))
    with np.errstate(over="ignore"):  # a double beyond all floats is infinite
        return wrap(kind, values_of(one).astype(kind.to_pandas_dtype()), nulls_of(one))


def _to_whole(values: np.ndarray, kind: Any) -> np.ndarray:
    """Convert floats as Java does, which makes ints of them before it makes shorts and bytes."""
    whole = to_long(values.astype(np.float64))
    if kind == pa.int64():
        return whole
    return np.clip(whole, -(1 << 31), (1 << 31) - 1).astype(kind.to_pandas_dtype())


def _cast_decimals(one: Any, kind: Any) -> Any:
    if pa.types.is_decimal(kind):
        return pc.cast(one, kind)  # always to one that holds all values
    low, high = decimal_words(one)
    if pa.types.is_boolean(kind):
        return wrap(kind, (low != 0) | (high != 0), nulls_of(one))
    if pa.types.is_floating(kind):
        return wrap(kind, _decimals_to_doubles(one, low, high), nulls_of(one))
    power = 10**one.type.scale  # of at most 18 digits: the low word is all
    whole = np.where(low < 0, -(-low // power), low // power)
    return wrap(kind, whole.astype(kind.to_pandas_dtype()), nulls_of(one))


def _decimals_to_doubles(one: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Round decimals to the nearest double: by one division of two doubles where both are exact, or by Python's."""
    scale = one.type.scale
    small = (high == (low >> 63)) & (low < EXACT) & (low > -EXACT) & (scale <= EXACT_POWER)
    found = np.where(small, low, 0) / float(10 ** min(scale, EXACT_POWER))
    for i in np.flatnonzero(~small & ~np.asarray(nulls_of(one))):
        found[i] = ((int(high[i]) << 64) | (int(low[i]) & 0xFFFF_FFFF_FFFF_FFFF)) / 10**scale
    return found


def _to_decimals(one: Any, kind: Any) -> Any:
    """Make decimals of whole numbers or booleans; null where they have too many digits."""
    whole = pc.cast(one, pa.int64())
    digits = kind.precision - kind.scale
    if digits < 19:
        beyond = (values_of(whole) >= 10**digits) | (values_of(whole) <= -(10**digits))
        whole = null_where(pa.array(beyond), whole)
    return pc.cast(pc.cast(whole, pa.decimal128(19 + kind.scale, kind.scale)), kind)


KERNELS = {"cast": cast}
