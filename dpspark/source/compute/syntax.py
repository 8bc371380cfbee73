"""The tree of an expression, as it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Number:
    text: str  # with its sign


@dataclass(frozen=True)
class Text:
    value: str


@dataclass(frozen=True)
class Constant:
    value: bool | None


@dataclass(frozen=True)
class Moment:
    """A date or a time written as a typed literal."""

    kind: str
    text: str


@dataclass(frozen=True)
class Operation:
    """An operator, a predicate or a function, by its name in small letters, on its operands."""

    name: str
    inputs: tuple[Syntax, ...]
    is_function: bool = False


@dataclass(frozen=True)
class CastTo:
    input: Syntax
    type: str


@dataclass(frozen=True)
class Case:
    branches: tuple[tuple[Syntax, Syntax], ...]
    otherwise: Syntax


Syntax: TypeAlias = Name | Number | Text | Constant | Moment | Operation | CastTo | Case
