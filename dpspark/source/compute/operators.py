"""What operators compile to."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial, reduce

from dpspark.source.compute.coercion import (
    FLOATING,
    VOID,
    WHOLE,
    arithmetic_types,
    as_decimal,
    cast_node,
    common_type,
    convert,
    decimal_of,
    decimal_type,
    is_number,
    literal_as_decimal,
    opaque,
)
from dpspark.source.compute.literals import moment
from dpspark.source.compute.program import Call, Literal, Node
from dpspark.source.compute.scope import Scope
from dpspark.source.compute.tokens import NotCompiled

LONG = 1 << 63
KERNELS = {"+": "add", "-": "subtract", "*": "multiply", "%": "remainder", "pmod": "pmod"}


def need_number(name: str, *nodes: Node) -> None:
    for node in nodes:
        if not is_number(node.type):
            raise NotCompiled(f"{name} of {node.type} is evaluated by Spark")


def arithmetic(sign: str, scope: Scope, one: Node, other: Node) -> Node:
    """Add, subtract, multiply or take the rest, in the common type."""
    need_number(sign, one, other)
    if (decimal_of(one.type) or decimal_of(other.type)) and not {one.type, other.type} & set(FLOATING):
        return _decimals(sign, one, other)
    kind = common_type(one.type, other.type)
    return Call(KERNELS[sign], (convert(one, kind), convert(other, kind)), kind)


def _decimals(sign: str, one: Node, other: Node) -> Node:
    """Add, subtract or multiply decimals, where the result holds all digits."""
    if sign not in "+-*":
        raise NotCompiled(f"{sign} of decimals is evaluated by Spark")
    one, other = literal_as_decimal(one), literal_as_decimal(other)
    left, right = as_decimal(one.type), as_decimal(other.type)
    inputs = convert(one, decimal_type(*left)), convert(other, decimal_type(*right))
    return Call(KERNELS[sign], inputs, arithmetic_types(sign, left, right))


def divide(scope: Scope, one: Node, other: Node) -> Node:
    need_number("/", one, other)
    if (decimal_of(one.type) or decimal_of(other.type)) and not {one.type, other.type} & set(FLOATING):
        return _divide_decimals(literal_as_decimal(one), literal_as_decimal(other))
    return Call("divide", (convert(one, "double"), convert(other, "double")), "double")


def _divide_decimals(one: Node, other: Node) -> Node:
    """Divide decimals where all that is computed with has at most 18 digits."""
    (p1, s1), (p2, s2) = as_decimal(one.type), as_decimal(other.type)
    scale = max(6, s1 + p2 + 1)
    precision = p1 - s1 + s2 + scale
    if max(p1, p2, p1 + scale - s1 + s2, precision) > 18:
        raise NotCompiled(f"{one.type} / {other.type} is evaluated by Spark")
    inputs = convert(one, decimal_type(p1, s1)), convert(other, decimal_type(p2, s2))
    return Call("divide_decimals", inputs, decimal_type(precision, scale))


def divide_whole(scope: Scope, one: Node, other: Node) -> Node:
    for node in (one, other):
        if node.type not in WHOLE:
            raise NotCompiled(f"div of {node.type} is evaluated by Spark")
    return Call("div", (convert(one, "bigint"), convert(other, "bigint")), "bigint")


def refuse_long_decimal(node: Node) -> None:
    """Spark turns the sign of a decimal with 34 digits, and rounds those that have more."""
    if (decimal_of(node.type) or (0, 0))[0] > 34:
        raise NotCompiled("decimals of more than 34 digits are turned by Spark")


def negative(scope: Scope, one: Node) -> Node:
    need_number("-", one)
    refuse_long_decimal(one)
    return Call("negate", (one,), one.type)


def positive(scope: Scope, one: Node) -> Node:
    need_number("+", one)
    return opaque(one)


def comparable(scope: Scope, one: Node, other: Node) -> tuple[Node, Node]:
    """Bring two values to the type that Spark compares them in."""
    one, other = _as_moment(scope, one, other), _as_moment(scope, other, one)
    one, other = _as_number(one, other), _as_number(other, one)
    for literal, value in ((one, other), (other, one)):
        if _is_beyond_long(literal) and value.type in WHOLE:
            raise NotCompiled("integers beside a decimal beyond them are compared by Spark")
    kind = common_type(one.type, other.type)
    if kind == VOID:
        raise NotCompiled("null beside null is evaluated by Spark")
    return convert(one, kind), convert(other, kind)


def _is_beyond_long(node: Node) -> bool:
    return isinstance(node, Literal) and decimal_of(node.type) is not None and not -LONG <= node.value <= LONG - 1


def _as_moment(scope: Scope, node: Node, beside: Node) -> Node:
    """Text, or a date, that is written out becomes what it is compared with."""
    if isinstance(node, Literal) and node.type == "string" and beside.type in ("date", "timestamp", "timestamp_ntz"):
        return moment(beside.type, node.value, scope.offset)
    if isinstance(node, Literal) and node.type == "date" and beside.type == "timestamp" and scope.offset is not None:
        return Literal((node.value * 86_400 - scope.offset) * 1_000_000, "timestamp")
    return node


def _as_number(node: Node, beside: Node) -> Node:
    """Text that is compared with a whole number or a double becomes one."""
    return cast_node(node, beside.type) if node.type == "string" and beside.type in (*WHOLE, "double") else node


def compare(sign: str, scope: Scope, one: Node, other: Node) -> Node:
    return Call("compare", comparable(scope, one, other), "boolean", (sign,))


def differ(scope: Scope, one: Node, other: Node) -> Node:
    return negate_condition(scope, compare("=", scope, one, other))


def equal_or_null(scope: Scope, one: Node, other: Node) -> Node:
    return Call("<=>", comparable(scope, one, other), "boolean")


def condition(node: Node) -> Node:
    if node.type not in ("boolean", VOID):
        raise NotCompiled(f"{node.type} as a condition is converted by Spark")
    return convert(node, "boolean")


def connect(word: str, scope: Scope, one: Node, other: Node) -> Node:
    return Call(word, (condition(one), condition(other)), "boolean")


def negate_condition(scope: Scope, one: Node) -> Node:
    return Call("not", (condition(one),), "boolean")


def is_in(scope: Scope, one: Node, *among: Node) -> Node:
    """Compare with each of a list, in the one type that all of it and the value have in common."""
    kind = reduce(common_type, (node.type for node in (one, *among)))
    if kind == VOID:
        raise NotCompiled("null in nulls is evaluated by Spark")
    value, items = convert(one, kind), [convert(item, kind) for item in among]
    plain = kind not in FLOATING and all(isinstance(item, Literal) and item.value is not None for item in items)
    if plain and len(items) > 1:
        return Call("in", (value,), "boolean", tuple(item.value for item in items if isinstance(item, Literal)))
    found: list[Node] = [Call("compare", (value, item), "boolean", ("=",)) for item in items]
    while len(found) > 1:
        pairs = [Call("or", (a, b), "boolean") for a, b in zip(found[::2], found[1::2], strict=False)]
        found = [*pairs, *found[len(pairs) * 2 :]]
    return found[0]


def is_null(scope: Scope, one: Node) -> Node:
    if one.type == VOID:
        raise NotCompiled("null is null is evaluated by Spark")
    return Call("is_null", (one,), "boolean")


def concatenate(scope: Scope, *parts: Node) -> Node:
    if not parts or any(part.type not in ("string", VOID) for part in parts):
        raise NotCompiled("concat of what is not text is evaluated by Spark")
    return Call("concat", tuple(convert(part, "string") for part in parts), "string")


def like(scope: Scope, one: Node, pattern: Node) -> Node:
    """Match a pattern that is written out: % is any text, _ any character."""
    if one.type != "string" or not isinstance(pattern, Literal) or pattern.type != "string":
        raise NotCompiled("like with a pattern that is not written out, or of what is not text, is evaluated by Spark")
    whole = pattern.value
    parts = [part for part in re.split("(%)", whole) if part]
    if "_" not in whole:
        texts = [part for part in parts if part != "%"]
        ends = whole[:1] == "%", whole[-1:] == "%"
        if len(texts) <= 1:
            text = "".join(texts)
            if not any(ends):
                return compare("=", scope, one, Literal(text, "string"))
            kernel = {(True, True): "contains", (True, False): "ends_with", (False, True): "starts_with"}[ends]
            return Call(kernel, (one,), "boolean", (text,))
    signs = {"%": ".*", "_": "."}
    expression = "".join(signs.get(one, re.escape(one) if one.isascii() else one) for one in whole)
    return Call("matches", (one,), "boolean", (rf"(?s)\A{expression}\z",))


OPERATORS: dict[str, Callable[..., Node]] = {
    **{sign: partial(arithmetic, sign) for sign in ("+", "-", "*", "%")},
    **{"/": divide, "div": divide_whole, "negative": negative, "positive": positive, "||": concatenate},
    **{sign: partial(compare, sign) for sign in ("=", "<", "<=", ">", ">=")},
    **{"==": partial(compare, "="), "<>": differ, "!=": differ, "<=>": equal_or_null},
    **{"and": partial(connect, "and"), "or": partial(connect, "or"), "not": negate_condition},
    **{"in": is_in, "isnull": is_null, "like": like},
}
