"""Between pyarrow's arrays and numpy's: values apart from nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

WORDS = {32: np.int32, 64: np.int64}  # of dates and times, by their bits


def values_of(array: Any) -> np.ndarray:
    """View an array, or a scalar, as numpy's values; what stands in the place of a null means nothing."""
    if isinstance(array, pa.Scalar):
        array = pa.repeat(array, 1)
    if pa.types.is_boolean(array.type):
        return pc.fill_null(array, False).to_numpy(zero_copy_only=False)
    kind = array.type
    dtype = WORDS[kind.bit_width] if pa.types.is_temporal(kind) else kind.to_pandas_dtype()
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]


def decimal_words(array: Any) -> tuple[np.ndarray, np.ndarray]:
    """View the unscaled values of decimals as their low and high 64 bits, both signed."""
    if isinstance(array, pa.Scalar):
        array = pa.repeat(array, 1)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.int64), np.zeros(len(array), np.int64)
    pairs = np.frombuffer(buffer, np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    return pairs[:, 0], pairs[:, 1]


def nulls_of(array: Any) -> np.ndarray | bool:
    """Tell where an array, or a scalar, is null; False if nowhere."""
    if isinstance(array, pa.Scalar):
        return not array.is_valid
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else False


def wrap(kind: Any, values: np.ndarray, *nulls: np.ndarray | bool) -> Any:
    """Make an array of Arrow's type `kind` of numpy's values, null wherever one of `nulls` is."""
    null: Any = False
    for one in nulls:
        null = null | one
    if pa.types.is_temporal(kind):
        return wrap(pa.int32() if kind.bit_width == 32 else pa.int64(), values, null).view(kind)
    if null is False:
        return pa.array(values, kind)
    return pa.array(values, kind, mask=np.broadcast_to(null, values.shape))


def wrap_decimals(kind: Any, low: np.ndarray, *nulls: np.ndarray | bool) -> Any:
    """Make decimals of unscaled values that 64 bits hold."""
    words = np.column_stack([low, low >> 63])
    null = wrap(pa.bool_(), np.zeros(len(low), bool), *nulls)
    found = pa.Array.from_buffers(kind, len(low), [None, pa.py_buffer(words)])
    return null_where(pc.is_null(null), found) if null.null_count else found


def null_where(condition: Any, values: Any) -> Any:
    """Put a null wherever a condition without nulls holds."""
    return pc.if_else(condition, pa.scalar(None, values.type), values)
