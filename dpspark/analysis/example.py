"""A regression of a release's columns that makes sense, to begin with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dpspark.analysis.formula import Formula, formula_text, parse_formula
from dpspark.analysis.ols import Moments, NotIdentified, solve
from dpspark.core.domain import Categorical, Domain, Numeric

MOST_REGRESSORS = 3
Column = Numeric | Categorical


def example_formula(domain: Domain, definitions: Mapping[str, str], moments: Moments | None = None) -> str:
    """A measured number explained by a few other measured columns; with `moments`, by as many as the noise allows.

    What is computed is left to the analyst: a square or a logarithm explains the column that it is made of.
    """
    own = _response(domain.columns, definitions)
    response = own.name if isinstance(own, Numeric) else own.terms[-1]
    regressors = _regressors(own, domain.columns, definitions)[:MOST_REGRESSORS]
    for kept in range(len(regressors), 0, -1):
        text = formula_text(response, regressors[:kept])
        if kept == 1 or moments is None or _identified(moments, _parsed(text, domain)):
            return text
    return formula_text(response, ())


def _response(columns: Sequence[Column], definitions: Mapping[str, str]) -> Column:
    """The number with the widest bounds, mostly an amount; a category only where there are no numbers."""
    numbers = [column for column in columns if isinstance(column, Numeric)]
    measured = [column for column in numbers if column.name not in definitions] or numbers
    if not measured:
        return max(columns, key=lambda column: len(column.terms) > 1)  # one with a choice, if there is any
    return max(measured, key=lambda column: column.upper - column.lower)


def _regressors(own: Column, columns: Sequence[Column], definitions: Mapping[str, str]) -> list[str]:
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


def _parsed(text: str, domain: Domain) -> Formula:
    return parse_formula(text, domain.terms, {block.name: block.terms for block in domain.blocks})


def _identified(moments: Moments, formula: Formula) -> bool:
    try:
        solve(moments, formula)
    except NotIdentified:
        return False
    return True
