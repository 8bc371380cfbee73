"""Arithmetic as Spark does it without ANSI mode: integers wrap around, a division by zero is null."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.source.compute.arrays import decimal_words, null_where, nulls_of, values_of, wrap, wrap_decimals

LONG = np.iinfo(np.int64)


def add(kind: Any, one: Any, other: Any) -> Any:
    return pc.add(one, other)  # unchecked: wraps


def subtract(kind: Any, one: Any, other: Any) -> Any:
    return pc.subtract(one, other)


def multiply(kind: Any, one: Any, other: Any) -> Any:
    return pc.multiply(one, other)


def negate(kind: Any, one: Any) -> Any:
    return pc.negate(one)


def absolute(kind: Any, one: Any) -> Any:
    return pc.abs(one)


def divide(kind: Any, one: Any, other: Any) -> Any:
    """Divide doubles; by either zero it is null."""
    found = pc.divide(one, other)
    if isinstance(other, pa.Scalar):
        return found if not other.is_valid or other.as_py() != 0 else pa.nulls(len(found), kind)
    return null_where(pc.fill_null(pc.equal(other, 0.0), False), found)


def divide_whole(kind: Any, one: Any, other: Any) -> Any:
    """Divide bigints towards zero. The least one divided by -1 wraps around to itself."""
    left, right, nulls = values_of(one), values_of(other), (nulls_of(one), nulls_of(other), values_of(other) == 0)
    safe = np.where((right == 0) | (right == -1), 1, right)
    down = left // safe
    towards_zero = down + ((left % safe != 0) & ((left < 0) != (safe < 0)))
    with np.errstate(over="ignore"):
        return wrap(kind, np.where(right == -1, 0 - left, towards_zero), *nulls)


def divide_decimals(kind: Any, one: Any, other: Any) -> Any:
    """Divide decimals of few digits, so that 64 bits hold all; halves are rounded away from zero."""
    left, right = decimal_words(one)[0], decimal_words(other)[0]
    left = left * 10 ** (kind.scale - one.type.scale + other.type.scale)
    size = np.maximum(np.abs(right), 1)
    found = (2 * np.abs(left) + size) // (2 * size)
    return wrap_decimals(
        kind, np.where((left < 0) != (right < 0), -found, found), nulls_of(one), nulls_of(other), right == 0
    )


def _rest(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rest of a division towards zero, with the sign of the dividend, as in Java and C; of a zero, anything."""
    if left.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            return np.fmod(left, right)
    return np.fmod(left, np.where((right == 0) | (right == -1), 1, right))


def remainder(kind: Any, one: Any, other: Any) -> Any:
    left, right = values_of(one), values_of(other)
    return wrap(kind, _rest(left, right), nulls_of(one), nulls_of(other), right == 0)


def positive_remainder(kind: Any, one: Any, other: Any) -> Any:
    """Compute pmod: the rest, moved once by the divisor if it is below zero."""
    left, right = values_of(one), values_of(other)
    nulls = nulls_of(one), nulls_of(other), right == 0
    if left.dtype.itemsize < 4:  # Java computes with bytes and shorts as ints
        left, right = left.astype(np.int32), right.astype(np.int32)
    rest = _rest(left, right)
    with np.errstate(over="ignore", invalid="ignore"):
        return wrap(kind, np.where(rest < 0, _rest(rest + right, right), rest).astype(kind.to_pandas_dtype()), *nulls)


def to_long(values: np.ndarray) -> np.ndarray:
    """Convert doubles as Java does: towards zero, NaN to 0, and what is too large to the last integer."""
    low, high = values <= float(LONG.min), values >= -float(LONG.min)
    usual = np.where(low | high | np.isnan(values), 0.0, values).astype(np.int64)
    return np.where(low, LONG.min, np.where(high, LONG.max, usual))


def floor(kind: Any, one: Any) -> Any:
    return wrap(kind, to_long(np.floor(values_of(one))), nulls_of(one))


def ceil(kind: Any, one: Any) -> Any:
    return wrap(kind, to_long(np.ceil(values_of(one))), nulls_of(one))


def sign(kind: Any, one: Any) -> Any:
    values = values_of(one)  # a zero keeps its own sign, NaN stays
    return wrap(kind, np.where(values > 0, 1.0, np.where(values < 0, -1.0, values)), nulls_of(one))


def square_root(kind: Any, one: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return wrap(kind, np.sqrt(values_of(one)), nulls_of(one))


def round_even(kind: Any, one: Any) -> Any:
    return wrap(kind, np.rint(values_of(one)), nulls_of(one))


def round_away(kind: Any, one: Any) -> Any:
    """Round to whole numbers, halves away from zero. Spark rounds in decimals, so that no zero has a sign."""
    values = values_of(one)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(values)
        moved = whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0.0).astype(values.dtype)
    finite = np.isfinite(values)
    return wrap(kind, np.where(finite, moved + values.dtype.type(0.0), values), nulls_of(one))


KERNELS: dict[str, Callable[..., Any]] = {
    **{"add": add, "subtract": subtract, "multiply": multiply, "negate": negate, "abs": absolute, "divide": divide},
    **{
        "divide_decimals": divide_decimals,
        "div": divide_whole,
        "remainder": remainder,
        "pmod": positive_remainder,
        "floor": floor,
        "ceil": ceil,
    },
    **{"sign": sign, "sqrt": square_root, "rint": round_even, "round": round_away},
}
