"""Marginal effects: the slope of the prediction in each column at stated values, with intervals. Post-processing: no cost.

A column may be in several terms: its square, its logarithm, its product with others. Its effect is the derivative of the
prediction along all of them, Σ coefficient · dterm/dx, a linear combination of the coefficients. Of a category it is the
difference to the first one. Derivatives are differences over five points, exact for polynomials of up to the fourth degree.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.beyond import new_values
from dpspark.analysis.computed import base_columns
from dpspark.analysis.hypotheses import Contrast, combination, p_words
from dpspark.analysis.result import Answer, without_nan
from dpspark.analysis.rows import unbounded_values
from dpspark.core.domain import INTERCEPT, Categorical, Domain, Numeric
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError
from dpspark.show.tables import Grid, Part, bound_texts

if TYPE_CHECKING:
    import pandas as pd

    from dpspark.analysis.regression import Regression

STEP = 1e-3  # of a column's range
POINTS, WEIGHTS = (-2, -1, 1, 2), (1 / 12, -2 / 3, 2 / 3, -1 / 12)
SMALLER = 6  # times a tenth of the step, where a function is not defined so far from the value


@dataclass(frozen=True)
class Effect:
    """What one more of a column, or another category, adds to the prediction."""

    column: str
    change: str  # "slope", or the two categories
    at: dict[str, Any]
    found: Contrast


@dataclass(frozen=True)
class Effects(Answer):
    """Marginal effects, a row for each column, or category but the first, and each set of stated values."""

    rows: tuple[Effect, ...]
    level: float

    def to_dict(self) -> dict[str, Any]:
        return without_nan({"effects": self._records(), "level": self.level})

    def to_frame(self) -> pd.DataFrame:
        """column, change, at, estimate, std_error, statistic, p_value, ci_low, ci_high."""
        import pandas as pd

        return pd.DataFrame(self._records())

    def _records(self) -> list[dict[str, Any]]:
        keys = ("estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high")
        return [
            {"column": one.column, "change": one.change, "at": one.at, **{key: getattr(one.found, key) for key in keys}}
            for one in self.rows
        ]

    def parts(self) -> list[Part]:
        cells = [["Marginal effect", "at", "Estimate", "Std. Error", "p", f"{100 * self.level:g}% interval", ""]]
        for one in self.rows:
            at = ", ".join(f"{name}={_shown(value)}" for name, value in one.at.items())
            name = one.column if one.change == "slope" else f"{one.column}: {one.change}"
            numbers = [f"{value:.5g}" for value in (one.found.estimate, one.found.std_error)]
            interval = [f"{one.found.ci_low:.5g}", f"{one.found.ci_high:.5g}"]
            cells.append([name, at or "any values", *numbers, p_words(one.found.p_value).removeprefix("p "), *interval])
        return [Grid(cells, frozenset({0, 1}))]


def marginal_effects(fit: Regression, at: Mapping[str, Any], level: float) -> Effects:
    """Find the effect of every column of a regression, at each combination of the stated values."""
    domain = fit.domain
    if domain is None:
        raise ConfError("margins: this regression does not say what its columns are.")
    made = _made_of_columns(fit, domain)
    bases = list(dict.fromkeys(base for of in made.values() for base in of))
    columns = {column.name: column for column in domain.columns}
    for name in at:
        if name not in bases:
            raise ConfError(f"at: no column {name!r} in {fit.formula}; there are {', '.join(bases)}."
                            f"{did_you_mean(name, bases)}")  # fmt: skip
    grid = [value if isinstance(value, list | tuple | np.ndarray) else [value] for value in at.values()]
    found = []
    for values in itertools.product(*grid):
        stated = dict(zip(at, values, strict=True))
        _check_bounds(stated, columns)
        found += [effect for base in bases for effect in _effects_of(fit, domain, base, made, stated, level)]
    return Effects(tuple(found), level)


def _made_of_columns(fit: Regression, domain: Domain) -> dict[str, tuple[str, ...]]:
    """The columns that each column and each product of a regression is made of."""
    columns = {column.name: column for column in domain.columns}
    made = {name: _made_of(fit, column) for name, column in columns.items() if set(column.terms) & set(fit.terms)}
    for product in domain.products:
        if set(domain.terms_of(product)) & set(fit.terms):
            of = [base for name in product.of for base in _made_of(fit, columns[name])]
            made[product.name] = tuple(dict.fromkeys(of))
    return made


def _made_of(fit: Regression, column: Numeric | Categorical) -> tuple[str, ...]:
    """The columns that a column of the release is computed from; itself, where it is not."""
    if column.name not in fit.definitions:
        return (column.name,)
    found = base_columns(fit.definitions[column.name])
    if not found:
        raise ConfError(
            f"margins: {column.name} is computed by what only Spark evaluates: {fit.definitions[column.name]}."
        )
    return found


def _check_bounds(stated: Mapping[str, Any], columns: Mapping[str, Numeric | Categorical]) -> None:
    for name, value in stated.items():
        column = columns.get(name)
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if isinstance(column, Numeric):
            low, high = bound_texts(column.lower, column.upper)
            if not is_number or not column.lower <= float(value) <= column.upper:
                raise ConfError(f"at: {name}={_shown(value)}; expected a number from {low} to {high}, its bounds.")
        elif isinstance(column, Categorical):
            new_values(column, {name: [value]})


def _effects_of(
    fit: Regression,
    domain: Domain,
    base: str,
    made: Mapping[str, tuple[str, ...]],
    stated: dict[str, Any],
    level: float,
) -> list[Effect]:
    columns = {column.name: column for column in domain.columns}
    own = columns.get(base)
    touched = [name for name, of in made.items() if base in of]
    needed = list(dict.fromkeys(b for name in touched for b in made[name] if made[name] != (name,)))
    if isinstance(own, Categorical):
        needed = [name for name in needed if name != base]
    lacking = [name for name in needed if name not in stated]
    if lacking:
        raise ConfError(f"at: the effect of {base} depends on {', '.join(lacking)}. State a value: {lacking[0]}=...")
    shown = {name: stated[name] for name in needed}
    if isinstance(own, Categorical):
        first, *others = own.categories
        rows = {value: _raw_row(fit, domain, touched, {**stated, base: value}) for value in own.categories}
        changes = [(f"{_shown(other)} - {_shown(first)}", rows[other] - rows[first]) for other in others]
    elif isinstance(stated.get(base), str):
        return []  # text that a column is computed from has no slope
    else:
        changes = [("slope", _slope(fit, domain, touched, stated, base, own))]
    return [
        Effect(base, change, shown, combination(fit.terms, row, *fit._inference(), fit._df_of(row), level))
        for change, row in changes
    ]


def _slope(
    fit: Regression, domain: Domain, touched: Sequence[str], stated: Mapping[str, Any], base: str, own: Any
) -> np.ndarray:
    """The derivative of each term in one column."""
    value = float(stated.get(base, 0.0))
    step = STEP * (own.upper - own.lower if isinstance(own, Numeric) else max(1.0, abs(value)))
    for _ in range(SMALLER):
        rows = [_raw_row(fit, domain, touched, {**stated, base: value + point * step}) for point in POINTS]
        slope = sum((weight * row for weight, row in zip(WEIGHTS, rows, strict=True)), np.zeros(len(fit.terms))) / step
        if np.isfinite(slope).all():
            return slope
        step /= 10
    raise ConfError(f"at: {base}={_shown(value)}: a term of {fit.formula} has no slope there.")


def _raw_row(fit: Regression, domain: Domain, touched: Sequence[str], values: Mapping[str, Any]) -> np.ndarray:
    """The terms of the columns that are touched, as they would be without bounds; zero for all others."""
    products = {product.name: product.of for product in domain.products}
    needed = {name for one in touched for name in products.get(one, (one,))}
    frame = {name: [value] for name, value in values.items()}
    terms = [term for column in domain.columns if column.name in needed for term in column.terms]
    found = {term: float(unbounded_values(domain, fit.definitions, frame, term)[0]) for term in terms}
    own = {term for column in domain.columns if column.name in touched for term in column.terms}
    for product in domain.products:
        if product.name in touched:
            made = domain.terms_of(product)
            found |= {term: math.prod(found[one] for one in domain.factor_terms(term)) for term in made}
            own |= set(made)
    return np.array([found[term] if term in own and term != INTERCEPT else 0.0 for term in fit.terms])


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and math.isfinite(value) else str(value)
