"""A regression of a release's columns that makes sense, to begin with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from dpspark.analysis.ols import Moments, NotIdentified, solve
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.formula import Formula, formula_text, parse_formula

MOST_REGRESSORS = 3
Column = Numeric | Categorical


def example_formula(domain: Domain, definitions: Mapping[str, str], moments: Moments | None = None) -> str:
    """Explain a measured number by a few other measured columns; with `moments`, by as many as the noise allows.

    What is computed is left to the analyst: a square or a logarithm explains the column that it is made of.
    """
    response = choose_response(domain, definitions)
    own = next(column for column in domain.columns if response in column.terms)
    regressors = _regressors(own, domain.columns, definitions)[:MOST_REGRESSORS]
    texts = [formula_text(response, regressors[:kept]) for kept in range(len(regressors), 0, -1)]
    blocks = {block.name: block.terms for block in domain.blocks}
    for text in texts[:-1]:
        if moments is None or is_identified(moments, parse_formula(text, domain.terms, blocks)):
            return text
    return texts[-1] if texts else formula_text(response, ())


def full_formula(domain: Domain, definitions: Mapping[str, str], moments: Moments) -> tuple[Formula, bool]:
    """Explain the same response by all other columns, or by the first of them that are identified; and say whether by all."""
    response = choose_response(domain, definitions)
    others = [column for column in domain.columns if response not in column.terms]
    terms = [column.terms if len(column.terms) == 1 else column.terms[1:] for column in others]
    for kept in range(len(terms), 0, -1):
        formula = Formula(response, tuple(term for of in terms[:kept] for term in of), True)
        if is_identified(moments, formula):
            return formula, kept == len(terms)
    return Formula(response, (), True), not terms


def choose_response(domain: Domain, definitions: Mapping[str, str]) -> str:
    """Choose the number with the widest bounds, the first of several: mostly an amount, seldom an age, a year or a code.

    A computed one only where there are no others; a category only where there are no numbers.
    """
    measured = [column for column in domain.numeric if column.name not in definitions] or domain.numeric
    if measured:
        return max(measured, key=lambda column: column.upper - column.lower).name
    return max(domain.blocks, key=lambda column: len(column.terms) > 1).terms[-1]  # one with a choice, if there is any


def is_identified(moments: Moments, formula: Formula) -> bool:
    """Tell whether the noise leaves this regression enough to be solved."""
    try:
        solve(moments, formula)
    except NotIdentified:
        return False
    return True


def _regressors(own: Column, columns: Iterable[Column], definitions: Mapping[str, str]) -> Sequence[str]:
    others = [
        column
        for column in columns
        if column.name != own.name
        and not _made_of(column.name, own.name, definitions)
        and not _made_of(own.name, column.name, definitions)
    ]
    measured = [column for column in others if column.name not in definitions] or others
    # A single category stands for nothing under its column's name.
    return [column.name if len(column.terms) != 1 else column.terms[0] for column in measured]


def _made_of(name: str, part: str, definitions: Mapping[str, str]) -> bool:
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", definitions.get(name, ""), re.IGNORECASE) is not None
