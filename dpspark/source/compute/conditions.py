"""Comparisons, logic with nulls, and choices among values.

As in Spark, NaN equals NaN and is above every other number, both zeros are one, and texts are compared by their bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def compare(kind: Any, one: Any, other: Any, sign: str) -> Any:
    """Compare values of one type; null if either is."""
    if sign in ("<", "<="):
        return compare(kind, other, one, ">" if sign == "<" else ">=")
    if pa.types.is_floating(one.type):
        return _compare_floats(one, other, sign)
    function = {"=": pc.equal, ">": pc.greater, ">=": pc.greater_equal}[sign]
    return function(one, other)


def _compare_floats(one: Any, other: Any, sign: str) -> Any:
    if _is_number(other):
        return {
            "=": lambda: pc.equal(one, other),
            ">=": lambda: pc.invert(pc.less(one, other)),  # NaN is above
            ">": lambda: pc.invert(pc.less_equal(one, other)),
        }[sign]()
    if sign == "=":
        same = pc.equal(one, other)
        return same if _is_number(one) else pc.or_(same, pc.and_(pc.is_nan(one), pc.is_nan(other)))
    if sign == ">=":
        return pc.or_(pc.greater_equal(one, other), pc.is_nan(one))
    return pc.and_not(pc.invert(pc.less_equal(one, other)), pc.is_nan(other))


def _is_number(value: Any) -> bool:
    """Tell whether it is a constant, and not NaN."""
    return isinstance(value, pa.Scalar) and value.is_valid and value.as_py() == value.as_py()


def equal_or_null(kind: Any, one: Any, other: Any) -> Any:
    """Compare with <=>, which is never null."""
    equal = pc.fill_null(compare(kind, one, other, "="), False)
    return pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other)))


def is_in(kind: Any, one: Any, *among: Any) -> Any:
    """Tell whether a value, no float, is one of some constants without nulls; null if it is null."""
    found = pc.is_in(one, value_set=pa.array(among, one.type))
    return pc.if_else(pc.is_valid(one), found, pa.scalar(None, pa.bool_()))


def both(kind: Any, one: Any, other: Any) -> Any:
    return pc.and_kleene(one, other)


def either(kind: Any, one: Any, other: Any) -> Any:
    return pc.or_kleene(one, other)


def invert(kind: Any, one: Any) -> Any:
    return pc.invert(one)


def is_null(kind: Any, one: Any) -> Any:
    return pc.is_null(one)


def is_nan(kind: Any, one: Any) -> Any:
    return pc.fill_null(pc.is_nan(one), False)


def choose(kind: Any, *parts: Any) -> Any:
    """Take the value after the first condition that is true, or the last part of all."""
    found = parts[-1]
    for i in range(len(parts) - 3, -1, -2):
        found = pc.if_else(pc.fill_null(parts[i], False), parts[i + 1], found)
    return found


def coalesce(kind: Any, *parts: Any) -> Any:
    return pc.coalesce(*parts)


def extreme(kind: Any, *parts: Any, sign: str) -> Any:
    """Take the first of the largest (">") or smallest ("<") values that are not null."""
    found = parts[0]
    for part in parts[1:]:
        beyond = pc.fill_null(compare(pa.bool_(), part, found, sign), False)
        found = pc.if_else(pc.or_(beyond, pc.is_null(found)), part, found)
    return found


def largest(kind: Any, *parts: Any) -> Any:
    return extreme(kind, *parts, sign=">")


def smallest(kind: Any, *parts: Any) -> Any:
    return extreme(kind, *parts, sign="<")


def replace_nan(kind: Any, one: Any, other: Any) -> Any:
    """Take the second where the first is NaN; null stays null."""
    return pc.if_else(pc.fill_null(pc.is_nan(one), False), other, one)


KERNELS: dict[str, Callable[..., Any]] = {
    **{"compare": compare, "<=>": equal_or_null, "in": is_in, "and": both, "or": either, "not": invert},
    **{"is_null": is_null, "is_nan": is_nan, "choose": choose, "coalesce": coalesce, "nanvl": replace_nan},
    **{"greatest": largest, "least": smallest},
}
