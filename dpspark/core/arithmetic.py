"""Arithmetic of columns, as formulas and computed columns have it: read, told apart, bounded, evaluated.

Two expressions are the same if they are the same polynomial of the same columns and functions: `a * b` and `b*a`,
`age * age`, `age**2` and `pow(age, 2)`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from dpspark.errors import ConfError

Interval: TypeAlias = tuple[float, float]
Monomial: TypeAlias = frozenset[tuple[Any, int]]  # names and functions, each with its power
Key: TypeAlias = frozenset[tuple[Monomial, float]]
MOST_POWER = 8
MOST_MONOMIALS = 200
# The functions, each with the least value that it takes and whether that value itself is allowed. All of them increase.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], float, bool]] = {
    "log": (np.log, 0.0, False),
    "log10": (np.log10, 0.0, False),
    "log2": (np.log2, 0.0, False),
    "log1p": (np.log1p, -1.0, False),
    "sqrt": (np.sqrt, 0.0, True),
    "exp": (np.exp, -math.inf, True),
    "expm1": (np.expm1, -math.inf, True),
}
SQL_NAMES = {"ln": "log", "power": "pow"}
_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*(?:\[[^\]]*\])?)|(?P<sign>\*\*|[-+*/^(),]))"
)


class NotArithmetic(Exception):
    """A text that is no arithmetic of columns."""


@dataclass(frozen=True)
class Expression:
    """A number, a name, or an operation: `+`, `*`, `**` (by a number), or a function's name."""

    op: str
    args: tuple[Any, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that it is made of, each once."""
        if self.op == "name":
            return (str(self.args[0]),)
        found = [name for part in self.args if isinstance(part, Expression) for name in part.names]
        return tuple(dict.fromkeys(found))

    def renamed(self, names: Mapping[str, str]) -> Expression:
        """The same expression of columns by other names."""
        if self.op == "name":
            return column(names[self.args[0]])
        args = (part.renamed(names) if isinstance(part, Expression) else part for part in self.args)
        return Expression(self.op, tuple(args))


def column(name: str) -> Expression:
    return Expression("name", (name,))


def number(value: float) -> Expression:
    return Expression("number", (float(value),))


def product(*parts: Expression) -> Expression:
    return parts[0] if len(parts) == 1 else Expression("*", parts)


def read_arithmetic(text: str, sql: bool = False) -> Expression:
    """Read an expression such as `exper**2`, `np.log(wage)` or `age * educ`; with `sql` as Spark has them."""
    reader = _Reader(_cut(text), sql)
    found = reader.sum()
    if reader.at < len(reader.tokens):
        raise NotArithmetic(text)
    return found


def _cut(text: str) -> list[tuple[str, str]]:
    tokens, at, whole = [], 0, text.rstrip()
    while at < len(whole):
        match = _TOKEN.match(whole, at)
        if match is None:
            raise NotArithmetic(text)
        kind = str(match.lastgroup)
        tokens.append(("name" if kind == "quoted" else kind, match[kind]))
        at = match.end()
    return tokens


class _Reader:
    def __init__(self, tokens: list[tuple[str, str]], sql: bool):
        self.tokens, self.at, self.sql = tokens, 0, sql

    def next(self, *signs: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "sign" and self.tokens[self.at][1] in signs:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def sum(self) -> Expression:
        parts = [self.product()]
        while sign := self.next("+", "-"):
            part = self.product()
            parts.append(part if sign == "+" else product(number(-1), part))
        return parts[0] if len(parts) == 1 else Expression("+", tuple(parts))

    def product(self) -> Expression:
        parts = [self.signed()]
        while sign := self.next("*", "/"):
            part = self.signed()
            parts.append(part if sign == "*" else Expression("**", (part, -1.0)))
        return product(*parts)

    def signed(self) -> Expression:
        if self.next("-"):
            return product(number(-1), self.signed())
        self.next("+")
        return self.power()

    def power(self) -> Expression:
        base = self.atom()
        if self.next(*(() if self.sql else ("**", "^"))):
            return _power(base, self.signed())
        return base

    def atom(self) -> Expression:
        if self.next("("):
            found = self.sum()
            self.close()
            return found
        if self.at >= len(self.tokens) or self.tokens[self.at][0] == "sign":
            raise NotArithmetic
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return number(float(text))
        return self.call(text) if self.next("(") else column(text)

    def call(self, name: str) -> Expression:
        function = name.lower() if self.sql else name.removeprefix("np.").removeprefix("numpy.")
        function = SQL_NAMES.get(function, function) if self.sql else function
        arguments = [self.sum()]
        while self.next(","):
            arguments.append(self.sum())
        self.close()
        if function in ("pow", "power") and len(arguments) == 2:
            return _power(*arguments)
        if function not in FUNCTIONS or len(arguments) != 1:
            raise NotArithmetic
        return Expression(function, tuple(arguments))

    def close(self) -> None:
        if not self.next(")"):
            raise NotArithmetic


def _power(base: Expression, exponent: Expression) -> Expression:
    """A power by a written number."""
    value = _constant(exponent)
    if value is None:
        raise NotArithmetic
    return base if value == 1 else Expression("**", (base, value))


def _constant(expression: Expression) -> float | None:
    found = polynomial(expression)
    if any(found):  # a monomial that is not empty
        return None
    return found.get(frozenset(), 0.0)


def key_of(expression: Expression) -> Key:
    """Say what an expression is, however it is written."""
    return frozenset((monomial, value) for monomial, value in polynomial(expression).items() if value)


def polynomial(expression: Expression) -> dict[Monomial, float]:
    """Expand an expression: the factor of each product of columns and functions."""
    op, args = expression.op, expression.args
    if op == "number":
        return {frozenset(): float(args[0])}
    if op == "name":
        return {frozenset({(args[0], 1)}): 1.0}
    if op == "+":
        found: dict[Monomial, float] = {}
        for part in args:
            for monomial, value in polynomial(part).items():
                found[monomial] = found.get(monomial, 0.0) + value
        return found
    if op == "*":
        found = {frozenset(): 1.0}
        for part in args:
            found = _times(found, polynomial(part))
        return found
    if op == "**":
        return _to_power(polynomial(args[0]), args[1])
    return {frozenset({((op, key_of(args[0])), 1)}): 1.0}


def _times(one: dict[Monomial, float], other: dict[Monomial, float]) -> dict[Monomial, float]:
    found: dict[Monomial, float] = {}
    for left, a in one.items():
        for right, b in other.items():
            powers = dict(left)
            for atom, power in right:
                powers[atom] = powers.get(atom, 0) + power
            monomial = frozenset((atom, power) for atom, power in powers.items() if power)
            found[monomial] = found.get(monomial, 0.0) + a * b
    if len(found) > MOST_MONOMIALS:
        raise NotArithmetic
    return found


def _to_power(base: dict[Monomial, float], exponent: float) -> dict[Monomial, float]:
    whole = float(exponent).is_integer() and abs(exponent) <= MOST_POWER
    if whole and exponent >= 0:
        found: dict[Monomial, float] = {frozenset(): 1.0}
        for _ in range(int(exponent)):
            found = _times(found, base)
        return found
    if whole and len(base) == 1:
        ((monomial, value),) = base.items()
        if value:
            return {frozenset((atom, power * int(exponent)) for atom, power in monomial): value**exponent}
    return {frozenset({(("**", frozenset(base.items()), float(exponent)), 1)}): 1.0}


def interval_of(expression: Expression, bounds: Mapping[str, Interval], shown: str) -> Interval:
    """Bound an expression of bounded columns; refuse it where it is not defined for all of their values.

    By its parts as it is written, and as a polynomial, where a product of equal factors is a power: the smaller of the two.
    """
    written = _written(expression, bounds, shown)
    expanded = _expanded(key_of(expression), bounds)
    found = written if expanded is None else (max(written[0], expanded[0]), min(written[1], expanded[1]))
    if not all(map(math.isfinite, found)):
        raise ConfError(f"{shown}: its values are too large for these bounds.")
    return found


def _written(expression: Expression, bounds: Mapping[str, Interval], shown: str) -> Interval:
    op, args = expression.op, expression.args
    if op == "number":
        return args[0], args[0]
    if op == "name":
        return bounds[args[0]]
    if op == "**":
        return _power_interval(_written(args[0], bounds, shown), args[1], shown)
    parts = [_written(part, bounds, shown) for part in args]
    if op == "+":
        return sum(low for low, _ in parts), sum(high for _, high in parts)
    if op == "*":
        found = parts[0]
        for part in parts[1:]:
            found = _product_interval(found, part)
        return found
    (low, high), (function, least, allowed) = parts[0], FUNCTIONS[op]
    if low < least or (low == least and not allowed):
        instead = " Use log1p, or a higher lower bound." if op == "log" and low >= 0 else " Give a higher lower bound."
        asked = f"{least:g} or more" if allowed else f"above {least:g}"
        raise ConfError(f"{shown}: {op}() needs values {asked}, and these go down to {low:g}.{instead}")
    with np.errstate(over="ignore"):
        return float(function(low)), float(function(high))


def _product_interval(one: Interval, other: Interval) -> Interval:
    ends = [a * b for a in one for b in other]
    return min(ends), max(ends)


def _power_interval(base: Interval, exponent: float, shown: str) -> Interval:
    low, high = base
    if not float(exponent).is_integer() and low < 0:
        raise ConfError(f"{shown}: a power of {exponent:g} needs values 0 or more, and these go down to {low:g}.")
    if exponent < 0 and low <= 0 <= high:
        raise ConfError(f"{shown}: it divides by values from {low:g} to {high:g}, and 0 is among them.")
    try:
        ends = [low**exponent, high**exponent]
    except OverflowError:
        return -math.inf, math.inf
    if low < 0 < high and exponent % 2 == 0:
        ends.append(0.0)
    return min(ends), max(ends)


def _expanded(key: Key, bounds: Mapping[str, Interval]) -> Interval | None:
    """Bound a polynomial of columns alone."""
    low = high = 0.0
    for monomial, value in key:
        found: Interval = (1.0, 1.0)
        for atom, power in monomial:
            if not isinstance(atom, str) or power < 0:
                return None
            found = _product_interval(found, _power_interval(bounds[atom], power, atom))
        ends = _product_interval(found, (value, value))
        low, high = low + ends[0], high + ends[1]
    return low, high


def evaluate(expression: Expression, values: Callable[[str], np.ndarray]) -> np.ndarray:
    """Compute an expression from the values of its columns."""
    op, args = expression.op, expression.args
    if op == "number":
        return np.asarray(args[0])
    if op == "name":
        return values(args[0])
    if op == "**":
        base = evaluate(args[0], values)
        return np.asarray(base * base if args[1] == 2 else np.power(base, args[1]))
    parts = [evaluate(part, values) for part in args]
    if op in ("+", "*"):
        found = parts[0]
        for part in parts[1:]:
            found = found + part if op == "+" else found * part
        return np.asarray(found)
    return np.asarray(FUNCTIONS[op][0](parts[0]))
