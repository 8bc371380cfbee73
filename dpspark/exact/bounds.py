"""Arrow columns in, bounded rows on the integer grid out.

Stability: each output row depends on one input row and on public constants alone, so one record changes one row.
Every arithmetic step is elementwise IEEE arithmetic, so a row's integers do not depend on the batch it came in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.core.domain import Categorical, Domain, Numeric, Weight
from dpspark.core.products import Part


def grid_rows(domain: Domain, columns: Sequence[np.ndarray], out: np.ndarray) -> None:
    """Fill `out` (width × rows, float64) with whole numbers: one column of `out` a row.

    `columns` are numbers or category codes, from `plain_values`, in the order of `domain.columns`. A null, a NaN or an
    unknown category is a NaN at first; `settle_nulls` then drops its row (all zeros, intercept too) or puts it at the
    midpoint (zero). Without a row norm that is left to the caller, who can see from the product whether there is one.
    """
    one, steps = float(domain.one), _grid_steps(domain)
    own = out[: len(steps)]
    own[0] = one
    # Overflow is infinity, which is clipped; a warning about it would tell of an outlier.
    with np.errstate(over="ignore"):
        at = 1
        for column, values in zip(domain.columns, columns, strict=True):
            if isinstance(column, Numeric):
                np.subtract(values, column.middle, out=own[at])
                at += 1
            else:
                _one_hot(values, one, own[at : at + len(column.terms)], column.first_is_base)
                at += len(column.terms)
        np.multiply(own, steps, out=own)
    np.clip(own, -one, one, out=own)
    if domain.row_norm is not None:
        if domain.products:
            raise ValueError("products of columns are not for rows with a norm")
        settle_nulls(domain, out)
        _bound_row(domain, out)
    np.rint(own, out=own)
    for at, (first, second) in enumerate(_product_places(domain), len(own)):
        # A category is 0 or one: the product is the other column's whole number, or 0. A null of either is a NaN.
        np.multiply(own[first], own[second], out=out[at])
        out[at] /= one


@lru_cache(maxsize=8)
def _grid_steps(domain: Domain) -> np.ndarray:
    """Find the factor for each row of the block: grid steps in a unit of a number; 1 for what is on the grid already."""
    steps = [1.0]
    for column in domain.columns:
        steps += [domain.one / column.half] if isinstance(column, Numeric) else [1.0] * len(column.terms)
    return np.array(steps)[:, None]


@lru_cache(maxsize=8)
def _product_places(domain: Domain) -> tuple[tuple[int, int], ...]:
    """Find, for each term of a product, the places of the two terms that it is the product of."""
    places = {part: at for at, part in enumerate(domain.parts)}
    found = []
    for part in domain.parts[1 + sum(len(column.terms) for column in domain.columns) :]:
        cells = [Part((cell,)) for cell in part.cells]
        first, second = (*cells, *(Part(numbers=(number,)) for number in part.numbers))
        found.append((places[first], places[second]))
    return tuple(found)


def settle_nulls(domain: Domain, rows: np.ndarray) -> None:
    """Apply the null policy in place."""
    missing = np.isnan(rows)
    if domain.nulls == "drop_row":
        rows[:, missing.any(axis=0)] = 0.0
    else:
        rows[missing] = 0.0


def grid_weights(weight: Weight, values: np.ndarray) -> np.ndarray:
    """Put weights on the grid: whole numbers from 0 to `weight.steps`. A negative one, a null or a NaN is 0: no row."""
    with np.errstate(over="ignore"):
        steps = np.rint(np.clip(values, 0.0, weight.upper) * (weight.plain_steps / weight.upper))
    steps = np.where(np.isnan(steps), 0.0, np.minimum(steps, weight.plain_steps))
    return steps * steps if weight.squared else steps


def plain_values(column: Numeric | Categorical | Weight, values: Any) -> np.ndarray:
    """Convert an arrow array to numbers (null is NaN) or to category codes (-1 for a null or an unknown one)."""
    return _category_codes(column, values) if isinstance(column, Categorical) else _doubles(values)


def _doubles(values: Any) -> np.ndarray:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if not pa.types.is_float64(values.type):
        # A safe cast would refuse integers beyond 2^53 and quote them in its message.
        values = values.cast(pa.float64(), safe=False)
    return values.to_numpy(zero_copy_only=False)


def _category_codes(column: Categorical, values: Any) -> np.ndarray:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if values.type == pa.string_view():
        values = values.cast(pa.string())
    # A category that the column's type cannot hold (300 in an int8) is in no row.
    held = [(code, value) for code, value in enumerate(column.categories) if _holds(values.type, value)]
    positions = np.array([code for code, _ in held] + [-1])
    found = pc.index_in(values, value_set=pa.array([value for _, value in held], type=values.type))
    return positions[pc.fill_null(found, -1).to_numpy(zero_copy_only=False)]


def _holds(kind: Any, value: Any) -> bool:
    try:
        pa.scalar(value, type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True


def _one_hot(codes: np.ndarray, one: float, out: np.ndarray, first_is_base: bool) -> None:
    for at in range(len(out)):
        np.multiply(codes == at + first_is_base, one, out=out[at])
    out[:, codes < 0] = np.nan


def _bound_row(domain: Domain, rows: np.ndarray) -> None:
    """Apply the row norm in place to the regressors, or, with the response included, to the whole row."""
    bound, one = domain.row_norm, float(domain.one)
    assert bound is not None
    if domain.response is None:
        shorten(bound.mode, bound.radius * one, rows[1:])
    elif bound.include_response:
        factor = shorten(bound.mode, bound.longest * one, rows[:-1])
        np.clip(rows[-1] * factor, -one, one, out=rows[-1])
    else:
        shorten(bound.mode, bound.radius * one, rows[1:-1])


def shorten(mode: str, longest: float, rows: np.ndarray) -> np.ndarray:
    """Shrink (cap) or move (project) each row so that its integers' squared norm is at most longest²; return the factors."""
    # Rounding moves a row by at most √width/2 grid steps: leave room for it, so that it stays unbiased.
    room = math.sqrt(len(rows)) / 2
    target = max(longest - room, longest / 2)
    norm = np.sqrt(_squared_norm(rows))
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(norm > 0, target / norm, 0.0)
    if mode == "cap":
        factor = np.where(norm > target, factor, 1.0)
    np.multiply(rows, factor, out=rows)
    rounded = np.rint(rows)
    over = _squared_norm(rounded) > math.floor(longest * longest)
    # Truncation never lengthens a row; `target` is already inside the ball.
    rows[:, over] = np.trunc(rows[:, over])
    return factor


def _squared_norm(rows: np.ndarray) -> np.ndarray:
    """Add up squares column by column, in a fixed order: in another one the sum could round differently."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row * row
    return total
