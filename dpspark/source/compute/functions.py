"""What functions compile to, by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, reduce, wraps

from dpspark.source.compute import operators
from dpspark.source.compute.coercion import FLOATING, VOID, WHOLE, common_type, convert, is_number, opaque
from dpspark.source.compute.operators import need_number
from dpspark.source.compute.program import Call, Literal, Node
from dpspark.source.compute.scope import Scope
from dpspark.source.compute.tokens import NotCompiled

INT = (1 << 31) - 1
TIME_PARTS = {"hour": (3600, 24), "minute": (60, 60), "second": (1, 60)}
DATE_PARTS = {
    **{"year": "year", "quarter": "quarter", "month": "month", "day": "day", "dayofmonth": "day"},
    **{"dayofweek": "dayofweek", "weekday": "weekday", "dayofyear": "dayofyear", "weekofyear": "week"},
}
# Of date_part and extract; seconds are decimals there.
FIELDS = {"year", "quarter", "month", "day", "hour", "minute"}


def need(name: str, kind: str, *nodes: Node) -> None:
    for node in nodes:
        if node.type != kind:
            raise NotCompiled(f"{name} of {node.type} is evaluated by Spark")


def constant(name: str, node: Node) -> int:
    """A whole number that is written out."""
    if isinstance(node, Literal) and node.type in ("tinyint", "smallint", "int") and node.value is not None:
        return int(node.value)
    raise NotCompiled(f"{name} with a number that is not written out is evaluated by Spark")


def written(name: str, node: Node) -> str:
    if isinstance(node, Literal) and node.type == "string":
        return str(node.value)
    raise NotCompiled(f"{name} with text that is not written out is evaluated by Spark")


def choose(scope: Scope, condition: Node, one: Node, other: Node) -> Node:
    need("if", "boolean", condition)
    kind = common_type(one.type, other.type)
    if kind == VOID:
        raise NotCompiled("a choice of nulls is evaluated by Spark")
    return Call("choose", (condition, convert(one, kind), convert(other, kind)), kind)


def coalesce(scope: Scope, *parts: Node) -> Node:
    return _all_of("coalesce", *parts)


def extreme(name: str, scope: Scope, one: Node, other: Node, *parts: Node) -> Node:
    return _all_of(name, one, other, *parts)


def _all_of(name: str, *parts: Node) -> Node:
    if not parts:
        raise NotCompiled(f"{name} of nothing is evaluated by Spark")
    kind = reduce(common_type, (part.type for part in parts))
    if kind == VOID:
        raise NotCompiled(f"{name} of nulls is evaluated by Spark")
    return Call(name, tuple(convert(part, kind) for part in parts), kind)


def null_if(scope: Scope, one: Node, other: Node) -> Node:
    if one.type == VOID:
        raise NotCompiled("nullif of null is evaluated by Spark")
    return Call("choose", (operators.compare("=", scope, one, other), Literal(None, one.type), one), one.type)


def replace_nan(scope: Scope, one: Node, other: Node) -> Node:
    if one.type not in FLOATING or not is_number(other.type):
        raise NotCompiled(f"nanvl of {one.type} and {other.type} is evaluated by Spark")
    kind = "float" if one.type == other.type == "float" else "double"
    return Call("nanvl", (convert(one, kind), convert(other, kind)), kind)


def is_not_null(scope: Scope, one: Node) -> Node:
    return operators.negate_condition(scope, operators.is_null(scope, one))


def is_nan(scope: Scope, one: Node) -> Node:
    need_number("isnan", one)
    return Call("is_nan", (one if one.type == "float" else convert(one, "double"),), "boolean")


def absolute(scope: Scope, one: Node) -> Node:
    need_number("abs", one)
    operators.refuse_long_decimal(one)
    return Call("abs", (one,), one.type)


def of_double(kernel: str, scope: Scope, one: Node) -> Node:
    need_number(kernel, one)
    return Call(kernel, (convert(one, "double"),), "double")


def to_whole(kernel: str, scope: Scope, one: Node) -> Node:
    if one.type in WHOLE:
        return opaque(convert(one, "bigint"))
    if one.type not in FLOATING:
        raise NotCompiled(f"{kernel} of {one.type} is evaluated by Spark")
    return Call(kernel, (convert(one, "double"),), "bigint")


def round_off(scope: Scope, one: Node, digits: Node | None = None) -> Node:
    """Round to whole numbers; digits after the point depend on how Java writes a double."""
    places = 0 if digits is None else constant("round", digits)
    if one.type in WHOLE and places >= 0:
        return opaque(one)
    if one.type not in FLOATING or places != 0:
        raise NotCompiled(f"round of {one.type} to {places} digits is evaluated by Spark")
    return Call("round", (one,), one.type)


def power(scope: Scope, one: Node, exponent: Node) -> Node:
    """Square: the one power for which Java's function is a product by its definition."""
    need_number("pow", one)
    if not isinstance(exponent, Literal) or exponent.value != 2 or not is_number(exponent.type):
        raise NotCompiled("pow with an exponent other than 2 is evaluated by Spark")
    base = convert(one, "double")
    return Call("multiply", (base, base), "double")


def length(scope: Scope, one: Node) -> Node:
    need("length", "string", one)
    return Call("length", (one,), "int")


def substring(scope: Scope, one: Node, position: Node, count: Node | None = None) -> Node:
    need("substring", "string", one)
    start = constant("substring", position)
    taken = INT if count is None else constant("substring", count)
    start -= start > 0
    if taken <= 0:
        return _cut(one, 0, 0)
    stop = start + taken
    return _cut(one, start, None if (start < 0 <= stop) or stop > INT else stop)


def left(scope: Scope, one: Node, count: Node) -> Node:
    need("left", "string", one)
    return _cut(one, 0, max(0, constant("left", count)))


def right(scope: Scope, one: Node, count: Node) -> Node:
    need("right", "string", one)
    taken = constant("right", count)
    return _cut(one, -taken, None) if taken > 0 else _cut(one, 0, 0)


def _cut(one: Node, start: int, stop: int | None) -> Node:
    return Call("cut", (one,), "string", (start, stop))


def trim(ends: str, scope: Scope, one: Node) -> Node:
    need("trim", "string", one)
    return Call("trim", (one,), "string", (ends,))


def search(kernel: str, scope: Scope, one: Node, part: Node) -> Node:
    need(kernel, "string", one)
    return Call(kernel, (one,), "boolean", (written(kernel, part),))


def replace(scope: Scope, one: Node, part: Node, by: Node) -> Node:
    need("replace", "string", one)
    if not written("replace", part):
        return one
    return Call("replace", (one,), "string", (written("replace", part), written("replace", by)))


def date_part(part: str, scope: Scope, one: Node) -> Node:
    return Call("date_part", (scope.to_date(one),), "int", (part,))


def time_part(name: str, scope: Scope, one: Node) -> Node:
    if one.type not in ("timestamp", "timestamp_ntz"):
        raise NotCompiled(f"{name} of {one.type} is evaluated by Spark")
    return Call("time_part", (one,), "int", (scope.offset_for(one.type), *TIME_PARTS[name]))


def field_of(scope: Scope, name: Node, one: Node) -> Node:
    field = written("date_part", name).lower()
    if field not in FIELDS:
        raise NotCompiled("date_part and extract of this field are evaluated by Spark")
    return time_part(field, scope, one) if field in TIME_PARTS else date_part(DATE_PARTS[field], scope, one)


def to_date(scope: Scope, one: Node) -> Node:
    return scope.to_date(one)


def add_days(sign: int, scope: Scope, one: Node, days: Node) -> Node:
    if days.type not in ("tinyint", "smallint", "int"):
        raise NotCompiled(f"dates are moved by {days.type} by Spark")
    return Call("add_days", (scope.to_date(one), days), "date", (sign,))


def days_between(scope: Scope, one: Node, other: Node) -> Node:
    return Call("days_between", (scope.to_date(one), scope.to_date(other)), "int")


def _takes(name: str, build: Callable[..., Node]) -> Callable[..., Node]:
    """Refuse another number of arguments than a builder takes."""
    signature = inspect.signature(build)

    @wraps(build)
    def checked(scope: Scope, *inputs: Node) -> Node:
        try:
            signature.bind(scope, *inputs)
        except TypeError:
            raise NotCompiled(f"{name} with {len(inputs)} arguments is evaluated by Spark") from None
        return build(scope, *inputs)

    return checked


BUILDERS: dict[str, Callable[..., Node]] = {
    **{"if": choose, "coalesce": coalesce, "nullif": null_if, "nanvl": replace_nan},
    **{name: lambda scope, one, other: coalesce(scope, one, other) for name in ("nvl", "ifnull")},
    **{"isnull": operators.is_null, "isnotnull": is_not_null, "isnan": is_nan},
    **{name: partial(extreme, name) for name in ("greatest", "least")},
    **{"abs": absolute, "negative": operators.negative, "mod": partial(operators.arithmetic, "%")},
    **{"pmod": partial(operators.arithmetic, "pmod"), "sign": partial(of_double, "sign")},
    **{"signum": partial(of_double, "sign"), "sqrt": partial(of_double, "sqrt"), "rint": partial(of_double, "rint")},
    **{"floor": partial(to_whole, "floor"), "ceil": partial(to_whole, "ceil"), "ceiling": partial(to_whole, "ceil")},
    **{"round": round_off, "pow": power, "power": power},
    **{"length": length, "char_length": length, "substring": substring, "substr": substring, "left": left},
    **{"right": right, "concat": operators.concatenate, "trim": partial(trim, "both"), "replace": replace},
    **{"ltrim": partial(trim, "left"), "rtrim": partial(trim, "right")},
    **{"startswith": partial(search, "starts_with"), "endswith": partial(search, "ends_with")},
    **{"contains": partial(search, "contains")},
    **{name: partial(date_part, part) for name, part in DATE_PARTS.items()},
    **{name: partial(time_part, name) for name in TIME_PARTS},
    **{"date_part": field_of, "to_date": to_date, "datediff": days_between, "date_diff": days_between},
    **{"date_add": partial(add_days, 1), "date_sub": partial(add_days, -1)},
}
FUNCTIONS = {name: _takes(name, build) for name, build in BUILDERS.items()}
