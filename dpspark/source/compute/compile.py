"""Compile an expression of `where` or `expr` to a program, where its meaning is Spark's to the last bit.

Types, conversions and nulls are those of Spark without ANSI mode. What is not known to be the same is not compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from dpspark.source.compute.coercion import (
    VOID,
    cast_node,
    common_type,
    convert,
    decimal_of,
    is_known,
    opaque,
)
from dpspark.source.compute.functions import FUNCTIONS
from dpspark.source.compute.literals import moment, number, offset_of
from dpspark.source.compute.operators import OPERATORS
from dpspark.source.compute.parser import parse
from dpspark.source.compute.program import Call, Column, Literal, Node, Program
from dpspark.source.compute.scope import Scope
from dpspark.source.compute.syntax import Case, CastTo, Constant, Moment, Name, Number, Operation, Syntax, Text
from dpspark.source.compute.tokens import NotCompiled as NotCompiled

DEEPEST = 200  # kernels one inside the other
TYPES = {
    **{"boolean": "boolean", "byte": "tinyint", "tinyint": "tinyint", "short": "smallint", "smallint": "smallint"},
    **{"int": "int", "integer": "int", "bigint": "bigint", "long": "bigint", "float": "float", "real": "float"},
    **{"double": "double", "string": "string", "date": "date"},
}
# Beside functions by their own names; `extract` is date_part.
SPECIAL = frozenset({"case", "cast", "extract"})


def compiled_functions() -> frozenset[str]:
    """Name the functions that compile, for some of their arguments at least."""
    return SPECIAL | FUNCTIONS.keys()


def compile_expression(text: str, types: Mapping[str, str], timezone: str) -> Program:
    """Compile an expression over columns of Spark's `types`; `NotCompiled` says why Spark must evaluate it."""
    try:
        return compile_syntax(parse(text), types, timezone)
    except RecursionError:
        raise NotCompiled("it is nested deeply") from None


def compile_syntax(syntax: Syntax, types: Mapping[str, str], timezone: str) -> Program:
    """Compile an expression that was read already."""
    try:
        root = _Compiler(types, Scope(offset_of(timezone))).compile(syntax)
        if root.type == VOID:
            raise NotCompiled("it is always null")
        if _depth(root) > DEEPEST:
            raise NotCompiled("it is nested deeply")
    except RecursionError:
        raise NotCompiled("it is nested deeply") from None
    return Program(root)


def compile_filter(text: str, types: Mapping[str, str], timezone: str) -> Program:
    """Compile a condition, for `keep_mask`."""
    program = compile_expression(text, types, timezone)
    if program.type != "boolean":
        raise NotCompiled(f"{program.type} as a condition is converted by Spark")
    return program


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.inputs), default=0) if isinstance(node, Call) else 1


@dataclass(frozen=True)
class _Compiler:
    types: Mapping[str, str]
    scope: Scope

    def compile(self, syntax: Syntax) -> Node:
        if isinstance(syntax, Name):
            return self.column(syntax.name)
        if isinstance(syntax, Number):
            return number(syntax.text)
        if isinstance(syntax, Text):
            return Literal(syntax.value, "string")
        if isinstance(syntax, Constant):
            return Literal(syntax.value, VOID if syntax.value is None else "boolean")
        if isinstance(syntax, Moment):
            return moment(syntax.kind, syntax.text, self.scope.offset)
        if isinstance(syntax, CastTo):
            return self.cast(self.compile(syntax.input), syntax.type)
        if isinstance(syntax, Case):
            return self.case(syntax)
        return self.operation(syntax)

    def column(self, name: str) -> Node:
        """Find a column; letters A to Z count as a to z, and no other column may be alike to Spark."""
        found = [one for one in self.types if one.casefold() == name.casefold()]
        if len(found) != 1 or (found[0] != name and not (found[0].isascii() and name.isascii())):
            raise NotCompiled(f"column {name!r} is looked up by Spark")
        kind = self.types[found[0]]
        if not is_known(kind):
            raise NotCompiled(f"{kind} columns are evaluated by Spark")
        return Column(found[0], kind)

    def cast(self, node: Node, kind: str) -> Node:
        wanted = TYPES.get(kind) or _written_decimal(kind)
        if wanted is None:
            raise NotCompiled(f"casts to {kind} are done by Spark")
        if wanted == "date":
            return self.scope.to_date(node)
        return opaque(cast_node(node, wanted))

    def case(self, syntax: Case) -> Node:
        conditions = [self.compile(condition) for condition, _ in syntax.branches]
        values = [self.compile(value) for _, value in syntax.branches] + [self.compile(syntax.otherwise)]
        if any(one.type != "boolean" for one in conditions):
            raise NotCompiled("conditions that are not booleans are converted by Spark")
        kind = reduce(common_type, (one.type for one in values))
        if kind == VOID:
            raise NotCompiled("a CASE of nulls is evaluated by Spark")
        parts: list[Node] = []
        for condition, value in zip(conditions, values, strict=False):
            parts += [condition, convert(value, kind)]
        return Call("choose", (*parts, convert(values[-1], kind)), kind)

    def operation(self, syntax: Operation) -> Node:
        inputs = [self.compile(one) for one in syntax.inputs]
        build = (FUNCTIONS if syntax.is_function else OPERATORS).get(syntax.name)
        if build is None:
            raise NotCompiled(f"{syntax.name} is evaluated by Spark")
        return build(self.scope, *inputs)


def _written_decimal(kind: str) -> str | None:
    name, _, digits = kind.partition("(")
    if name not in ("decimal", "dec", "numeric"):
        return None
    precision, _, scale = (digits.rstrip(")") or "10").partition(",")
    found = f"decimal({int(precision)},{int(scale or 0)})"
    p, s = decimal_of(found) or (0, 0)
    return found if 0 < p <= 38 and s <= p else None
