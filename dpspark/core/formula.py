"""Formulas such as `income ~ age + sex - 1`, against the columns of a release."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpspark.core.domain import INTERCEPT
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError

_TOKEN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\W\d][\w.]*(?:\[[^\]]*\])?)|(?P<number>[01])|(?P<sign>[~+.-]))"
)


@dataclass(frozen=True)
class Formula:
    response: str
    regressors: tuple[str, ...]  # without the intercept
    intercept: bool

    def __str__(self) -> str:
        return formula_text(self.response, self.regressors, self.intercept)


def formula_text(response: str, regressors: Sequence[str], intercept: bool = True) -> str:
    """Write a formula such that `parse_formula` reads it."""
    right = " + ".join(map(_quoted, regressors)) or "1"
    return f"{_quoted(response)} ~ {right}{'' if intercept else ' - 1'}"


def _quoted(name: str) -> str:
    """Put a name in backticks, if it cannot be read without."""
    match = _TOKEN.fullmatch(name)
    return name if match is not None and match["name"] == name else f"`{name}`"


def parse_formula(text: str, terms: Sequence[str], blocks: Mapping[str, Sequence[str]]) -> Formula:
    """Read a formula; a categorical column stands for its terms less the first.

    `terms` are the names of the matrix; `blocks` the terms of each categorical column.
    """
    tokens = _tokens(text)
    if tokens.count(("sign", "~")) != 1 or tokens[:1] == [("sign", "~")] or tokens[1:2] != [("sign", "~")]:
        raise ConfError(f"formula {text!r}; expected one response, '~' and regressors, e.g. 'income ~ age + educ'.")
    response = _resolve(tokens[0][1], terms, blocks, text)
    if len(response) != 1 or tokens[0][1] in blocks:
        raise ConfError(
            f"formula {text!r}: the response must be one column, e.g. {response[0] if response else 'income'}."
        )
    chosen, intercept = _right_hand_side(tokens[2:], response[0], terms, blocks, text)
    if not chosen and not intercept:
        raise ConfError(f"formula {text!r}: nothing to regress on.")
    for name, of in blocks.items():
        if intercept and len(of) > 1 and set(of) <= set(chosen):
            raise ConfError(
                f"formula {text!r}: all columns of {name} and the intercept say the same. Write {name}, or add - 1."
            )
    return Formula(response[0], tuple(chosen), intercept)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    stripped = text.rstrip()
    while at < len(stripped):
        match = _TOKEN.match(stripped, at)
        if match is None:
            raise ConfError(
                f"formula {text!r}: cannot read it from {stripped[at:][:20]!r} on.\n"
                "Put odd names in backticks; products and functions are columns of the release (columns: expr)."
            )
        kind = str(match.lastgroup)
        tokens.append(("name" if kind == "quoted" else kind, match[kind]))
        at = match.end()
    return tokens


def _right_hand_side(
    tokens: list[tuple[str, str]], response: str, terms: Sequence[str], blocks: Mapping[str, Sequence[str]], text: str
) -> tuple[list[str], bool]:
    chosen: list[str] = []
    intercept, sign, expect_term = True, "+", True
    for kind, value in tokens:
        if kind == "sign" and value in "+-":
            if expect_term and chosen:
                raise ConfError(f"formula {text!r}: two signs in a row.")
            sign, expect_term = value, True
            continue
        if not expect_term:
            raise ConfError(f"formula {text!r}: a '+' is missing before {value!r}. Put names with spaces in backticks.")
        expect_term = False
        if kind == "number":
            intercept = (value == "1") == (sign == "+")
            continue
        found = _everything_but(response, terms, blocks) if value == "." else _resolve(value, terms, blocks, text)
        if response in found:
            raise ConfError(f"formula {text!r}: {response} is on both sides.")
        if sign == "-":
            chosen = [term for term in chosen if term not in found]
        else:
            chosen += [term for term in found if term not in chosen]
    if expect_term:
        raise ConfError(f"formula {text!r} ends too early.")
    return chosen, intercept


def _everything_but(response: str, terms: Sequence[str], blocks: Mapping[str, Sequence[str]]) -> list[str]:
    block = next((set(of) for of in blocks.values() if response in of), {response})
    firsts = {of[0] for of in blocks.values()}
    return [term for term in terms if term not in block and term not in firsts and term != INTERCEPT]


def _resolve(name: str, terms: Sequence[str], blocks: Mapping[str, Sequence[str]], text: str) -> list[str]:
    if name in blocks:
        if len(blocks[name]) == 1:
            raise ConfError(
                f"formula {text!r}: {name} has one category, so it stands for nothing. Write {blocks[name][0]}."
            )
        return list(blocks[name][1:])
    if name in terms and name != INTERCEPT:
        return [name]
    block_of = {term: block for block, of in blocks.items() for term in of}
    known = list(dict.fromkeys(block_of.get(term, term) for term in terms if term != INTERCEPT))
    meant = did_you_mean(name, [*known, *(term for term in terms if term != INTERCEPT)])
    if any(name in other.split() and f"`{other}`" not in text for other in known):
        meant = " Put names with spaces in backticks."
    shown = ", ".join(map(_quoted, known))
    raise ConfError(f"formula {text!r}: no column {name!r} in this release.{meant}\nIt has: {shown}")
