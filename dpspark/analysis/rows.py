"""New rows, as a formula has them: from a frame of columns to the value of each term.

`term_values` gives one term's column; `design_rows` all of them. Columns are bounded as the release's own were; a term that
is computed from others, such as `educ:exper` or a column with an expression, is computed from them, unless the frame has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dpspark.analysis.beyond import new_values
from dpspark.analysis.computed import with_computed
from dpspark.core.arithmetic import Expression, NotArithmetic, evaluate, read_arithmetic
from dpspark.core.domain import INTERCEPT, Categorical, Domain, Numeric
from dpspark.core.formula_terms import read_term_name
from dpspark.errors import ConfError

Definitions = Mapping[str, str]


def design_rows(domain: Domain, definitions: Definitions, terms: Sequence[str], frame: Any) -> np.ndarray:
    """Compute the design matrix of new rows: a row for each of the frame's, a column for each term, `(intercept)` too."""
    columns = [term_values(domain, definitions, frame, term) for term in terms if term != INTERCEPT]
    rows = len(columns[0]) if columns else _length(frame)
    found = iter(columns)
    return np.column_stack([np.ones(rows) if term == INTERCEPT else next(found) for term in terms])


def term_values(domain: Domain, definitions: Definitions, frame: Any, term: str) -> np.ndarray:
    """One term's column for new rows, bounded as the release was. A null is at the middle of its bounds."""
    factors = domain.factor_terms(term)
    if factors:
        first, second = (term_values(domain, definitions, frame, one) for one in factors)
        return first * second
    column = next(column for column in domain.columns if term in column.terms)
    made_of = None if column.name in frame else expression_of(domain, definitions, column.name)
    if isinstance(column, Categorical):
        return (new_values(column, frame) == column.categories.index(_category(column, term))).astype(float)
    if made_of is None:
        values = new_values(column, frame)
    else:
        values = evaluate(made_of, lambda name: _part(domain, definitions, frame, name, column.name))
    return np.where(np.isnan(values), column.middle, np.clip(values, column.lower, column.upper))


def unbounded_values(domain: Domain, definitions: Definitions, frame: Any, term: str) -> np.ndarray:
    """One term's column for new rows, as it would be without bounds: its slope at a bound is that of the values inside."""
    column = next(column for column in domain.columns if term in column.terms)
    if isinstance(column, Categorical):
        return term_values(domain, definitions, with_computed(frame, [column.name], definitions), term)
    made_of = None if column.name in frame else expression_of(domain, definitions, column.name)
    if made_of is None:
        return new_values(column, with_computed(frame, [column.name], definitions))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return evaluate(made_of, lambda name: unbounded_values(domain, definitions, frame, name))


def frame_columns(
    domain: Domain, definitions: Definitions, terms: Iterable[str], frame: Any
) -> list[Numeric | Categorical]:
    """The columns that a frame must have for some terms, each once."""
    found: dict[str, Numeric | Categorical] = {}
    for term in terms:
        factors = domain.factor_terms(term) if term in domain.terms else ()
        found |= {one.name: one for one in frame_columns(domain, definitions, factors, frame)}
        column = next((column for column in domain.columns if term in column.terms), None)
        if column is None:
            continue
        made_of = None if column.name in frame else expression_of(domain, definitions, column.name)
        of = [column] if made_of is None else frame_columns(domain, definitions, made_of.names, frame)
        found |= {one.name: one for one in of}
    return list(found.values())


def expression_of(domain: Domain, definitions: Definitions, name: str) -> Expression | None:
    """The arithmetic that a computed column is of other columns of the release; None where it is none."""
    if name not in definitions:
        return None
    with suppress(NotArithmetic, ConfError):
        found = read_term_name(name)
        if found.op != "name" and set(found.names) <= set(domain.terms):
            return found
    with suppress(NotArithmetic):
        found = read_arithmetic(definitions[name], sql=True)
        written = {term.lower(): term for term in reversed(domain.terms)}
        if all(part.lower() in written for part in found.names):
            return found.renamed({part: written[part.lower()] for part in found.names})
    return None


def _part(domain: Domain, definitions: Definitions, frame: Any, name: str, of: str) -> np.ndarray:
    if name == of:
        raise ConfError(f"predict: the rows have no column {name!r}.")
    return term_values(domain, definitions, frame, name)


def _category(column: Categorical, term: str) -> Any:
    return (column.categories[1:] if column.first_is_base else column.categories)[column.terms.index(term)]


def _length(frame: Any) -> int:
    return max((len(frame[name]) for name in frame), default=0)
