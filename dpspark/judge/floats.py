"""Filters on floats, which some readers apply by statistics that leave NaN out, and caches that were filled behind one.

To Spark NaN is above every number, and statistics of files and of cached batches know nothing of it. Whether rows with NaN pass
such a filter depends on the largest value of other rows there: one record could bring back any number of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpspark.spark.plan_nodes import class_of, find_plan, to_list

FLOATS = ("float", "double")


def has_floats(part: Any) -> bool:
    """Tell whether an expression has a float or a double in it."""
    return _is_float(part) or any(map(has_floats, to_list(part.children())))


def _is_float(part: Any) -> bool:
    try:
        return str(part.dataType().typeName()) in FLOATS
    except Exception:  # a window's frame has no type
        return False


def tells_of_floats(node: Any) -> bool:
    """Tell whether a step makes something else of floats, such as x > 5: Spark moves a filter on that below the step."""
    return any(map(_makes_another, to_list(node.expressions())))


def _makes_another(part: Any) -> bool:
    children = to_list(part.children())
    return (not _is_float(part) and any(map(has_floats, children))) or any(map(_makes_another, children))


class _Counts(NamedTuple):
    filters: int
    on_floats: int


def is_cached_behind_filter(frame: Any) -> bool:
    """Tell whether rows come from a cache that was filled behind a filter on floats, when statistics were used."""
    below = _count(find_plan(frame))
    if not below.filters or not below.on_floats:
        return False
    above = _count(frame._jdf.queryExecution().withCachedData())  # what is cached is a leaf there
    return above.filters < below.filters and above.on_floats < below.on_floats


def _count(plan: Any) -> _Counts:
    filters = on_floats = 0
    left = [plan]
    while left:
        node = left.pop()
        if class_of(node) == "Filter":
            filters += 1
            on_floats += has_floats(node.condition())
        elif node.children().size():
            on_floats += tells_of_floats(node)
        left += to_list(node.children())
    return _Counts(filters, on_floats)
