"""Spark's types and what it makes of two of them, without ANSI mode; pairs that are not listed are refused."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from dpspark.source.compute.program import Call, Literal, Node
from dpspark.source.compute.tokens import NotCompiled

WHOLE = ("tinyint", "smallint", "int", "bigint")
FLOATING = ("float", "double")
NUMBERS = (*WHOLE, *FLOATING)  # in Spark's order: the common type is the later one
DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
MOST_DIGITS = 38
EXACT_FLOAT = 1 << 24  # whole numbers up to here are floats
OTHERS = ("boolean", "string", "date", "timestamp", "timestamp_ntz")
VOID = "void"


def decimal_of(kind: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type."""
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None


def is_number(kind: str) -> bool:
    return kind in NUMBERS or decimal_of(kind) is not None


def is_known(kind: str) -> bool:
    return is_number(kind) or kind in OTHERS


def decimal_type(precision: int, scale: int) -> str:
    if precision > MOST_DIGITS:
        raise NotCompiled(f"decimals of more than {MOST_DIGITS} digits are evaluated by Spark")
    return f"decimal({precision},{scale})"


def as_decimal(kind: str) -> tuple[int, int]:
    """The decimal type that holds a whole number or a decimal."""
    return decimal_of(kind) or (DIGITS[kind], 0)


def common_type(one: str, other: str) -> str:
    """Find the type that Spark gives to branches, lists and comparisons of these two."""
    if one == other or other == VOID:
        return one
    if one == VOID:
        return other
    if one in NUMBERS and other in NUMBERS:
        return max(one, other, key=NUMBERS.index)
    if is_number(one) and is_number(other):
        if one in FLOATING or other in FLOATING:
            return "double"
        left, right = as_decimal(one), as_decimal(other)
        scale = max(left[1], right[1])
        return decimal_type(max(left[0] - left[1], right[0] - right[1]) + scale, scale)
    raise NotCompiled(f"{one} with {other} is converted by Spark")


def convert(node: Node, kind: str) -> Node:
    """Cast a node to the type that Spark converts it to by itself."""
    if node.type == kind:
        return node
    if node.type == VOID:
        return Literal(None, kind)
    if isinstance(node, Literal) and is_number(node.type):
        if kind == "double":
            return Literal(float(node.value), kind)  # to the nearest, as Java does
        if kind in WHOLE:
            return Literal(node.value, kind)
        if kind == "float" and abs(node.value) <= EXACT_FLOAT:
            return Literal(float(node.value), kind)
        if decimal_of(kind):
            return Literal(Decimal(node.value), kind)
    return cast_node(node, kind)


def opaque(node: Node) -> Node:
    """Keep a value, but not as a literal: Spark gives literals beside decimals a type of their own."""
    return Call("coalesce", (node,), node.type) if isinstance(node, Literal) else node


def cast_node(node: Node, kind: str) -> Node:
    """Cast a node as CAST does, where that is known to the last bit."""
    source = node.type
    if source == kind:
        return node
    if source == VOID and is_known(kind):
        return Literal(None, kind)
    if kind == "float" and source in ("int", "bigint"):
        # Spark's optimiser leaves out this cast, which rounds, where it finds one to doubles around it.
        raise NotCompiled(f"{source} is made float by Spark")
    if _casts_alike(source, kind):
        return Call("cast", (node,), kind)
    raise NotCompiled(f"{source} is cast to {kind} by Spark")


def _casts_alike(source: str, kind: str) -> bool:
    decimal, wanted = decimal_of(source), decimal_of(kind)
    if source == "string":
        return kind in (*WHOLE, "double")
    if kind == "string":
        return source in (*WHOLE, "boolean")
    if decimal and wanted:
        return wanted[1] >= decimal[1] and wanted[0] - wanted[1] >= decimal[0] - decimal[1]
    if decimal:
        return kind in ("double", "boolean") or (kind in WHOLE and decimal[0] <= 18)
    if wanted:
        return source in WHOLE and wanted[1] <= MOST_DIGITS - 19
    return source in (*NUMBERS, "boolean") and kind in (*NUMBERS, "boolean")


def literal_as_decimal(node: Node) -> Node:
    """A whole number that is written out becomes a decimal of just its digits, beside a decimal."""
    if isinstance(node, Literal) and node.type in ("smallint", "int", "bigint"):  # not tinyint: so is Spark
        return Literal(Decimal(node.value), decimal_type(len(str(abs(node.value))), 0))
    return node


def arithmetic_types(sign: str, one: Any, other: Any) -> str:
    """The type of a sum, a difference or a product of two decimals, if it holds every result."""
    (p1, s1), (p2, s2) = one, other
    if sign == "*":
        return decimal_type(p1 + p2 + 1, s1 + s2)
    scale = max(s1, s2)
    return decimal_type(max(p1 - s1, p2 - s2) + scale + 1, scale)
