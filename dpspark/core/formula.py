"""Formulas such as `log(wage) ~ educ*sex + I(exper**2) - 1`, against the columns of a release."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product as combinations_of

from dpspark.core.arithmetic import Key, NotArithmetic, column, key_of, product, read_arithmetic
from dpspark.core.coding import choose_codings
from dpspark.core.domain import INTERCEPT
from dpspark.core.formula_terms import (
    Category,
    Names,
    Quantity,
    RightHandSide,
    Term,
    quoted,
    read_right,
    read_term_name,
    split_formula,
    term_name,
)
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError


@dataclass(frozen=True)
class Formula:
    response: str
    regressors: tuple[str, ...]  # without the intercept
    intercept: bool

    def __str__(self) -> str:
        return formula_text(self.response, self.regressors, self.intercept)


@dataclass(frozen=True)
class Needed:
    """One column that a formula needs: its name, and what it is the product of, categories as `sex[F]`."""

    name: str
    quantity: Quantity
    blocks: tuple[str, ...] = ()  # the categorical columns among its factors
    numbers: tuple[Quantity, ...] = ()  # its other factors

    @property
    def key(self) -> Key:
        return key_of(self.quantity.expression)


@dataclass(frozen=True)
class Expansion:
    """A formula as the columns that it needs, whether they are released or not."""

    response: Needed
    regressors: tuple[Needed, ...]
    intercept: bool


def formula_text(response: str, regressors: Sequence[str], intercept: bool = True) -> str:
    """Write a formula such that `parse_formula` reads it."""
    right = " + ".join(map(quoted, regressors)) or "1"
    return f"{quoted(response)} ~ {right}{'' if intercept else ' - 1'}"


def parse_formula(
    text: str,
    terms: Sequence[str],
    blocks: Mapping[str, Sequence[str]],
    definitions: Mapping[str, str] | None = None,
) -> Formula:
    """Read a formula; a categorical column stands for its terms less the first, or less the one that `Treatment` names.

    `terms` are the names of the matrix; `blocks` the terms of each categorical column; `definitions` the SQL of computed
    columns, by which `female:educ` finds a column that is computed as `female * educ`.
    """
    released = released_keys(terms, definitions or {})
    expansion = expand_formula(text, terms, blocks, definitions)
    response = _find(expansion.response, released, text, terms)
    chosen: list[str] = []
    for needed in expansion.regressors:
        found = _find(needed, released, text, terms)
        if found == response:
            raise ConfError(f"formula {text!r}: {response} is on both sides.")
        if found not in chosen:
            chosen.append(found)
    if not chosen and not expansion.intercept:
        raise ConfError(f"formula {text!r}: nothing to regress on.")
    for name, of in blocks.items():
        if expansion.intercept and len(of) > 1 and set(of) <= set(chosen):
            raise ConfError(
                f"formula {text!r}: all columns of {name} and the intercept say the same. Write {name}, or add - 1."
            )
    return Formula(response, tuple(chosen), expansion.intercept)


def expand_formula(
    text: str,
    terms: Sequence[str],
    blocks: Mapping[str, Sequence[str]],
    definitions: Mapping[str, str] | None = None,
) -> Expansion:
    """Find the columns that a formula needs, each as a product of numbers and categories."""
    made = definitions or {}
    names = Names(text, tuple(terms), blocks, frozenset(_formula_columns(terms)), released_keys(terms, made))
    left, right = split_formula(text)
    response = names.response(left)
    read = read_right(right, names, response)
    return Expansion(Needed(term_name((response,)), response), tuple(_columns(read, names)), read.intercept)


def _columns(read: RightHandSide, names: Names) -> list[Needed]:
    terms = sorted(read.terms, key=len)
    asked: list[tuple[Hashable, tuple[str, ...]]] = [((), ())] if read.intercept else []
    numbers = [tuple(factor for factor in term if isinstance(factor, Quantity)) for term in terms]
    factors = [tuple(factor for factor in term if isinstance(factor, Category)) for term in terms]
    for of, categories in zip(numbers, factors, strict=True):
        asked.append((frozenset(key_of(one.expression) for one in of) or (), tuple(one.name for one in categories)))
    codings = choose_codings(asked)[len(asked) - len(terms) :]
    found: list[Needed] = []
    for term, coding in zip(terms, codings, strict=True):
        for part in coding:
            found += _coded(term, part, names)
    return [one for one in found if one.name not in read.left_out]


def _coded(term: Term, part: Mapping[str, bool], names: Names) -> list[Needed]:
    """One column for each combination of the categories that a part of a term has."""
    choices: list[list[Quantity]] = []
    for factor in term:
        if isinstance(factor, Quantity):
            choices.append([factor])
        elif factor.name in part:
            choices.append([Quantity(column(label)) for label in names.categories(factor, part[factor.name])])
    numbers = tuple(factor for factor in term if isinstance(factor, Quantity))
    return [
        Needed(term_name(chosen), Quantity(product(*(one.expression for one in chosen))), tuple(part), numbers)
        for chosen in combinations_of(*choices)
        if chosen
    ]


def released_keys(terms: Sequence[str], definitions: Mapping[str, str]) -> dict[Key, str]:
    """The columns of a release by what they are: themselves, what their SQL computes, what their names say."""
    found = {key_of(column(term)): term for term in terms if term != INTERCEPT}
    written = {term.lower(): term for term in reversed(terms)}
    for name, sql in definitions.items():
        with suppress(NotArithmetic):
            if name in terms:
                found.setdefault(_of_sql(sql, written), name)
    for name in _formula_columns(terms):
        found.setdefault(key_of(read_term_name(name)), name)
    return found


def _of_sql(sql: str, written: Mapping[str, str]) -> Key:
    """What an SQL expression is, with columns as the release writes them: SQL does not regard case."""
    expression = read_arithmetic(sql, sql=True)
    renamed = {name: written.get(name.lower(), name) for name in expression.names}
    return key_of(expression.renamed(renamed))


def _formula_columns(terms: Sequence[str]) -> list[str]:
    """The columns whose names are products or functions, as formulas ask for them: `.` does not stand for them."""
    found = []
    for name in terms:
        if name != INTERCEPT and (":" in name or "(" in name):
            with suppress(NotArithmetic, ConfError):
                if read_term_name(name).op != "name":
                    found.append(name)
    return found


def _find(needed: Needed, released: Mapping[Key, str], text: str, terms: Sequence[str]) -> str:
    found = released.get(needed.key)
    if found is not None:
        return found
    made_of = set(needed.quantity.expression.names)
    alike = [term for key, term in released.items() if made_of & _atoms(key)]
    has = f" It has {', '.join(map(quoted, alike[:8]))}." if alike else did_you_mean(needed.name, terms)
    raise ConfError(
        f"formula {text!r}: no column {needed.name} in this release.{has}\n"
        f"Whoever publishes it can add the column to the conf: release: {{regressions: [{_yaml(text)}]}}"
    )


def _yaml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _atoms(key: Key) -> set[str]:
    """The columns that an expression is made of."""
    found: set[str] = set()
    for monomial, _ in key:
        for atom, _ in monomial:
            if isinstance(atom, str):
                found.add(atom)
            else:
                found |= _atoms(atom[1])
    return found
