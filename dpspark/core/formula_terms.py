"""The grammar of formulas: what is written, as terms of factors.

`a + b`, `a:b` (a product), `a*b` (both and their product), `(a + b)^2`, `- b`, `.` (everything), `0` or `- 1` (no intercept);
factors are names, names in backticks, `sex[F]`, `C(sex, Treatment("M"))`, `I(a**2)`, `log(a)`, `poly(a, 2, raw=True)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dpspark.core.arithmetic import (
    FUNCTIONS,
    MOST_POWER,
    Expression,
    Key,
    NotArithmetic,
    column,
    key_of,
    number,
    product,
    read_arithmetic,
)
from dpspark.core.domain import INTERCEPT
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError

_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<call>[^\W\d][\w.]*)\s*\(|(?P<name>[^\W\d][\w.]*(?:\[[^\]]*\])?)"
    r"|(?P<number>\d+)|(?P<sign>\*\*|[~+.:*^()/-]))"
)
_TREATMENT = re.compile(
    r"(?:Treatment|contr\.treatment)\(\s*(?:(?:reference|base)\s*=\s*)?(?P<label>\"[^\"]*\"|'[^']*'|[-\w]+)\s*\)"
)
QUOTES = "\"'"
_POLY = re.compile(r"(?P<of>.+?),\s*(?:degree\s*=\s*)?(?P<degree>\d+)\s*(?P<raw>,\s*raw\s*=\s*(?:True|TRUE))?\s*")


@dataclass(frozen=True)
class Quantity:
    """A factor that is a number."""

    expression: Expression
    shown: str | None = None
    poly: str = ""  # the call of poly() that it is one column of: such a call is one factor, as in R

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and key_of(self.expression) == key_of(other.expression)

    def __hash__(self) -> int:
        return hash(key_of(self.expression))

    @property
    def name(self) -> str:
        if self.shown is not None:
            return self.shown
        assert self.expression.op == "name"
        return str(self.expression.args[0])


@dataclass(frozen=True)
class Category:
    """A factor that is a categorical column, and the category that the others are compared with."""

    name: str
    reference: str | None = field(default=None, compare=False)


Factor: TypeAlias = Quantity | Category
Term: TypeAlias = tuple[Factor, ...]
Token: TypeAlias = tuple[str, str]


def quoted(name: str) -> str:
    """Put a name in backticks, if it cannot be read without."""
    match = _TOKEN.fullmatch(name)
    plain = match is not None and match["name"] == name
    return name if plain or _is_term_name(name) else f"`{name}`"


def _is_term_name(name: str) -> bool:
    """Tell whether a name is written as the term that it is, such as `educ:exper`."""
    if ":" not in name and "(" not in name:
        return False
    try:
        read_term_name(name)
    except (NotArithmetic, ConfError):
        return False
    return True


def term_name(factors: Sequence[Factor]) -> str:
    """Name the column of a product: that of its factor, or theirs with `:` between them."""
    if len(factors) == 1:
        return factors[0].name
    return ":".join(quoted(factor.name) for factor in factors)


def read_term_name(name: str) -> Expression:
    """Read the name of a column that a formula asked for, as the product that it says."""
    parts: list[Expression] = []
    expect = True
    for kind, value in cut(name):
        if kind == "sign" and value == ":" and not expect:
            expect = True
            continue
        if not expect or kind not in ("name", "call"):
            raise NotArithmetic(name)
        parts.append(column(value) if kind == "name" else read_call(value))
        expect = False
    if expect:
        raise NotArithmetic(name)
    return product(*parts)


def read_call(text: str) -> Expression:
    """Read `I(...)`, whose inside is arithmetic, or a function."""
    name, _, inside = text.partition("(")
    return read_arithmetic(inside[:-1]) if name == "I" else read_arithmetic(text)


def cut(text: str) -> list[Token]:
    """Cut a formula into tokens; a call is one, with all that is in its parentheses."""
    tokens: list[Token] = []
    at, stripped = 0, text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise ConfError(
                f"formula {text!r}: cannot read it from {stripped[at:][:20]!r} on.\nPut odd names in backticks."
            )
        kind, end = str(match.lastgroup), match.end()
        if kind == "call":
            end = _closed(stripped, end, text)
            tokens.append(("call", stripped[match.start("call") : end]))
        else:
            tokens.append(("name" if kind == "quoted" else kind, match[kind]))
        at = end
    return tokens


def _closed(text: str, start: int, shown: str) -> int:
    """Find the end of a call: quotes and backticks may have parentheses in them."""
    depth, inside = 1, ""
    for at in range(start, len(text)):
        letter = text[at]
        if inside:
            inside = "" if letter == inside else inside
        elif letter in "`'\"":
            inside = letter
        else:
            depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return at + 1
    raise ConfError(f"formula {shown!r}: a parenthesis is not closed.")


def split_formula(text: str) -> tuple[Token, list[Token]]:
    """Part the response from the right-hand side."""
    tokens = cut(text)
    if tokens.count(("sign", "~")) != 1 or tokens[:1] == [("sign", "~")] or tokens[1:2] != [("sign", "~")]:
        raise ConfError(f"formula {text!r}; expected one response, '~' and regressors, e.g. 'income ~ age + educ'.")
    return tokens[0], tokens[2:]


@dataclass(frozen=True)
class Names:
    """The columns that a formula may name."""

    text: str
    terms: tuple[str, ...]
    blocks: Mapping[str, Sequence[str]]
    of_formulas: frozenset[str] = frozenset()  # columns that are there because a formula asked for them
    released: Mapping[Key, str] = field(default_factory=dict)  # columns by what they are

    def wrong(self, what: str) -> ConfError:
        return ConfError(f"formula {self.text!r}: {what}")

    def response(self, token: Token) -> Quantity:
        found = self.factors(token)
        if len(found) != 1 or not isinstance(found[0], Quantity):
            block = found[0].name if found else ""
            example = next(iter(self.blocks.get(block, ())[1:]), "income")
            raise self.wrong(f"the response must be one column, e.g. {example}.")
        return found[0]

    def factors(self, token: Token) -> list[Factor]:
        """Read a name or a call: mostly one factor."""
        kind, value = token
        if kind == "call":
            return self._called(value)
        if kind != "name":
            raise self.wrong(f"expected a column at {value!r}.")
        return [self.named(value)]

    def named(self, name: str) -> Factor:
        if name in self.blocks:
            return Category(name)
        if name in self.terms and name != INTERCEPT:
            return Quantity(column(name))
        raise self._unknown(name)

    def _called(self, text: str) -> list[Factor]:
        name, _, inside = text.partition("(")
        inside = inside[:-1].strip()
        if text in self.terms:
            return [Quantity(column(text))]
        if name == "C":
            return [self._category(inside)]
        if name == "poly":
            return self._polynomial(inside)
        if name not in ("I", *FUNCTIONS, *(f"{module}.{f}" for module in ("np", "numpy") for f in FUNCTIONS)):
            raise self.wrong(f"{name}() is not known. There are C, I, poly, {', '.join(FUNCTIONS)}.")
        try:
            expression = read_call(text)
        except NotArithmetic:
            raise self.wrong(f"cannot read {text}: expected + - * / and powers of columns and numbers.") from None
        if not expression.names:
            raise self.wrong(f"{text} has no column in it.")
        try:
            key_of(expression)
        except NotArithmetic:
            raise self.wrong(
                f"{text} is too large: written out, it has too many products. Write fewer powers."
            ) from None
        if expression.op == "name":
            return [self.named(expression.args[0])]
        return [Quantity(expression, _shown_call(name, expression))]

    def _category(self, inside: str) -> Category:
        name, _, contrast = inside.partition(",")
        name = name.strip().strip("`")
        if name not in self.blocks:
            known = f" Categories have {', '.join(self.blocks)}." if self.blocks else ""
            raise self.wrong(f"C({name}): {name} has no categories in this release.{known}")
        if not contrast.strip():
            return Category(name)
        match = _TREATMENT.fullmatch(contrast.strip())
        if match is None:
            raise self.wrong(f'C({inside}): expected Treatment("...") with a category.')
        label = match["label"]
        reference = f"{name}[{label[1:-1] if label[0] in QUOTES else label}]"
        if reference not in self.blocks[name]:
            raise self.wrong(f"{reference} is no category; there are {', '.join(filter(None, self.blocks[name]))}.")
        return Category(name, reference)

    def _polynomial(self, inside: str) -> list[Factor]:
        match = _POLY.fullmatch(inside)
        if match is None:
            raise self.wrong(f"poly({inside}): expected poly(x, 2, raw=True).")
        if match["raw"] is None:
            raise self.wrong(
                f"poly({inside}) is made orthogonal on the rows, which nobody has here.\nWrite poly({match['of']}, "
                f"{match['degree']}, raw=True): the same curve."
            )
        degree = int(match["degree"])
        if not 1 <= degree <= MOST_POWER:
            raise self.wrong(f"poly({inside}): expected a degree from 1 to {MOST_POWER}.")
        tokens = cut(match["of"])
        found = self.factors(tokens[0]) if len(tokens) == 1 else []
        if len(found) != 1:
            raise self.wrong(
                f"poly({inside}): expected one column, or one call such as I(a + b), in place of {match['of']}."
            )
        base = found[0]
        if not isinstance(base, Quantity):
            raise self.wrong(f"poly({inside}): {base.name} has categories.")
        powers = [Expression("**", (base.expression, float(power))) for power in range(2, degree + 1)]
        call = f"{base.name}, {degree}"
        named = [base.name, *(_shown_call("I", power) for power in powers)]
        pairs = zip([base.expression, *powers], named, strict=True)
        return [Quantity(expression, name, call) for expression, name in pairs]

    def everything(self, response: Quantity) -> list[Term]:
        """All columns but the response, what it is made of, and what formulas asked for."""
        own = {*self._made_of(response.expression), self.released.get(key_of(response.expression), "")}
        blocks = {term: name for name, of in self.blocks.items() for term in of}
        taken = {blocks.get(name, name) for name in own} | own
        found = dict.fromkeys(blocks.get(term, term) for term in self.terms if term != INTERCEPT)
        single = {name for name, of in self.blocks.items() if len(of) == 1}
        return [(self.named(name),) for name in found if name not in taken | single | self.of_formulas]

    def _made_of(self, expression: Expression) -> set[str]:
        """The columns that an expression is of, and those that each of them is computed from: `wage` of `log(wage)`."""
        found: set[str] = set()
        for name in expression.names:
            found.add(name)
            if name in self.of_formulas:
                found |= set(read_term_name(name).names)
        return found

    def categories(self, factor: Category, all_of_them: bool) -> list[str]:
        """The terms that a categorical factor stands for."""
        of = list(self.blocks[factor.name])
        if len(of) == 1 and not all_of_them:
            raise self.wrong(f"{factor.name} has one category, so it stands for nothing. Write {of[0]}.")
        if all_of_them:
            if "" in of:
                raise self.wrong(f"the first category of {factor.name} has no column here.")
            return of
        reference = factor.reference or of[0]
        return [term for term in of if term != reference]

    def _unknown(self, name: str) -> ConfError:
        block_of = {term: block for block, of in self.blocks.items() for term in of}
        known = list(dict.fromkeys(block_of.get(term, term) for term in self.terms if term != INTERCEPT))
        meant = did_you_mean(name, [*known, *(term for term in self.terms if term != INTERCEPT)])
        if any(name in other.split() and f"`{other}`" not in self.text for other in known):
            meant = " Put names with spaces in backticks."
        shown = ", ".join(map(quoted, known))
        return self.wrong(f"no column {name!r} in this release.{meant}\nIt has: {shown}")


def _shown_call(name: str, expression: Expression) -> str:
    """Write a factor in one way, however it was written."""
    if name == "I":
        return f"I({_shown(expression)})"
    return f"{expression.op}({_shown(expression.args[0])})"


def _shown(expression: Expression, inside: bool = False) -> str:
    op, args = expression.op, expression.args
    if op == "number":
        return f"{args[0]:.0f}" if float(args[0]).is_integer() else repr(float(args[0]))
    if op == "name":
        return quoted(args[0])
    if op not in ("+", "*", "**"):
        return f"{op}({_shown(args[0])})"
    if op == "**":  # of a power by another: not the tower that it would be read as without parentheses
        text = f"{_shown(args[0], True)}**{_shown(number(args[1]))}"
    elif op == "+":
        text = _shown(args[0], args[0].op == "+")
        for part in args[1:]:
            less = _negative_of(part)
            text += f" + {_shown(part, part.op == '+')}" if less is None else f" - {_shown(less, less.op == '+')}"
    elif (less := _negative_of(expression)) is not None:
        text = f"-{_shown(less, less.op in ('+', '*'))}"
    else:
        text = _factor(args[0])
        for part in args[1:]:
            divided = part.op == "**" and part.args[1] == -1
            text += f"/{_factor(part.args[0])}" if divided else f"*{_factor(part)}"
    return f"({text})" if inside else text


def _factor(expression: Expression) -> str:
    """Write a factor of a product: a power needs no parentheses there."""
    return _shown(expression, expression.op != "**")


def _negative_of(expression: Expression) -> Expression | None:
    """What a minus sign is before, if there is one: the reader of arithmetic has it as a factor of -1."""
    if expression.op == "*" and len(expression.args) == 2 and expression.args[0] == number(-1):
        found: Expression = expression.args[1]
        return found
    return None


@dataclass
class RightHandSide:
    """The terms, in their order; whether there is an intercept; single columns that were taken away."""

    terms: list[Term]
    intercept: bool = True
    left_out: set[str] = field(default_factory=set)


def read_right(tokens: list[Token], names: Names, response: Quantity) -> RightHandSide:
    reader = _TermReader(tokens, names, response)
    found = reader.sum(RightHandSide([]), inside=False)
    if reader.at < len(tokens):
        value = tokens[reader.at][1]
        if value == "/":
            raise names.wrong("a/b of terms is not known. Write a + a:b; a division of numbers is I(a/b).")
        raise names.wrong(f"a '+' is missing before {value!r}. Put names with spaces in backticks.")
    return found


class _TermReader:
    def __init__(self, tokens: list[Token], names: Names, response: Quantity):
        self.tokens, self.at, self.names, self.of = tokens, 0, names, response

    def next(self, *signs: str) -> str | None:
        if self.at < len(self.tokens) and self.tokens[self.at][0] == "sign" and self.tokens[self.at][1] in signs:
            self.at += 1
            return self.tokens[self.at - 1][1]
        return None

    def sum(self, found: RightHandSide, inside: bool) -> RightHandSide:
        sign: str | None = self.next("-") or "+"
        while sign is not None:
            one = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
            if one[0] == "number":
                if one[1] not in "01" or inside:
                    raise self.names.wrong(f"{one[1]} is no column; numbers are 0 and 1, for the intercept.")
                found.intercept = (one[1] == "1") == (sign == "+")
                self.at += 1
            else:
                self._add(found, sign, self.crossed())
            sign = self.next("+", "-")
        return found

    def _add(self, found: RightHandSide, sign: str, terms: list[Term]) -> None:
        for term in terms:
            same = [other for other in found.terms if set(other) == set(term)]
            if sign == "+" and not same:
                found.terms.append(term)
            if sign == "-":
                found.terms = [other for other in found.terms if other not in same]
            single = term[0].name if len(term) == 1 else ""
            (found.left_out.add if sign == "-" else found.left_out.discard)(single)

    def crossed(self) -> list[Term]:
        found = self.interacted()
        while self.next("*"):
            other = self.interacted()
            found = _distinct([*found, *other, *_products(found, other)])
        return found

    def interacted(self) -> list[Term]:
        found = self.raised()
        while self.next(":"):
            found = _products(found, self.raised())
        return found

    def raised(self) -> list[Term]:
        base = self.atom()
        if self.next("^", "**"):
            kind, value = self.tokens[self.at] if self.at < len(self.tokens) else ("", "")
            if kind != "number" or not 1 <= int(value) <= MOST_POWER:
                raise self.names.wrong("a power of terms is a small whole number, e.g. (a + b)^2.")
            self.at += 1
            found = base
            for _ in range(int(value) - 1):
                found = _distinct([*found, *_products(found, base)])
            return found
        return base

    def atom(self) -> list[Term]:
        if self.at >= len(self.tokens):
            raise self.names.wrong("it ends too early.")
        if self.next("("):
            found = self.sum(RightHandSide([]), inside=True).terms
            if not self.next(")"):
                raise self.names.wrong("a parenthesis is not closed.")
            return found
        if self.next("."):
            return self.names.everything(self.of)
        kind, value = self.tokens[self.at]
        if kind == "sign":
            raise self.names.wrong(f"expected a column at {value!r}.")
        self.at += 1
        return [(factor,) for factor in self.names.factors((kind, value))]


def _products(one: list[Term], other: list[Term]) -> list[Term]:
    pairs = ((left, right) for left in one for right in other if not _of_one_poly(left, right))
    return _distinct([tuple(dict.fromkeys((*left, *right))) for left, right in pairs])


def _of_one_poly(left: Term, right: Term) -> bool:
    """Tell whether two terms have two columns of one poly(): a factor has no product with itself."""
    calls = {factor.poly: factor for factor in left if isinstance(factor, Quantity) and factor.poly}
    return any(isinstance(one, Quantity) and one.poly in calls and one != calls[one.poly] for one in right)


def _distinct(terms: list[Term]) -> list[Term]:
    found: dict[frozenset[Factor], Term] = {}
    for term in terms:
        found.setdefault(frozenset(term), term)
    return list(found.values())
