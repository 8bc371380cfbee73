"""The columns and blocks that a conf's formulas need, beside the columns that it lists: made of these, bounded as they are.

A product of a categorical column with another column is a block (core/products.py). Everything else is an ordinary computed
column, with bounds that follow from those of the columns that it is made of: its values are made of values that were moved to
their bounds first, so that a product is that of the columns as they are released; it is null where one of them is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dpspark.core.arithmetic import Expression, Interval, Key, NotArithmetic, interval_of, key_of
from dpspark.core.domain import INTERCEPT, Category, Numeric, category_label
from dpspark.core.formula import Needed, expand_formula, released_keys
from dpspark.core.formula_terms import read_term_name, term_name
from dpspark.core.products import Product, term_parts
from dpspark.errors import ConfError
from dpspark.spec.rows import ColumnBounds

SQL_FUNCTIONS = {"log": "ln"}
ODD_NAMES = "columns of products and functions need plain names. Rename the column."


@dataclass
class Made:
    """What some formulas need and a conf does not list: computed columns by their names, and blocks of products."""

    columns: dict[str, ColumnBounds] = field(default_factory=dict)
    products: list[Product] = field(default_factory=list)


def formula_columns(columns: Mapping[str, ColumnBounds], formulas: Sequence[str], blocks: bool = True) -> Made:
    """Find what formulas need; without `blocks`, products with categories are ordinary columns, too."""
    released, wanted, found = _released(columns, ()), list(_needed(columns, formulas)), Made()
    if blocks:
        for needed in wanted:
            if needed.key not in released:
                _add_block(needed, columns, released, found)
        released = _released({**columns, **found.columns}, found.products)
    for needed in wanted:
        if needed.key not in released:
            found.columns[needed.name] = _column(needed, columns)
            released[needed.key] = needed.name
    return found


def _needed(columns: Mapping[str, ColumnBounds], formulas: Sequence[str]) -> Iterator[Needed]:
    terms, blocks = _terms(columns, ())
    for text in formulas:
        expansion = expand_formula(text, terms, blocks, _definitions(columns))
        yield from (expansion.response, *expansion.regressors)


def _terms(
    columns: Mapping[str, ColumnBounds], products: Sequence[Product]
) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """The terms of some columns and their products, and those of each categorical column."""
    made = [column.column(name) for name, column in columns.items() if column.limits]
    blocks = {column.name: column.terms for column in made if not isinstance(column, Numeric)}
    return (INTERCEPT, *(term for term, _ in term_parts(made, products))), blocks


def _released(columns: Mapping[str, ColumnBounds], products: Sequence[Product]) -> dict[Key, str]:
    return released_keys(_terms(columns, products)[0], _definitions(columns))


def _definitions(columns: Mapping[str, ColumnBounds]) -> dict[str, str]:
    return {name: column.expr for name, column in columns.items() if column.expr is not None}


def _add_block(needed: Needed, columns: Mapping[str, ColumnBounds], released: Mapping[Key, str], found: Made) -> None:
    """Add the block that a term is of, if it is of one: two categorical columns, or one and a number, which is added, too."""
    if (len(needed.blocks), len(needed.numbers)) == (2, 0):
        first, second = sorted(needed.blocks, key=list(columns).index)
    elif (len(needed.blocks), len(needed.numbers)) == (1, 1):
        first, second = needed.blocks[0], released.get(key_of(needed.numbers[0].expression), "")
        if not second:
            number = Needed(term_name(needed.numbers), needed.numbers[0])
            second = number.name
            found.columns.setdefault(second, _column(number, columns))
        elif second not in columns:
            return  # one category of a column, as a number
    else:
        return
    product = Product((first, second))
    if product not in found.products:
        _check_names(product, {**columns, **found.columns})
        found.products.append(product)


def _check_names(product: Product, columns: Mapping[str, ColumnBounds]) -> None:
    """Want terms whose names say what they are: a formula finds them by that."""
    own = [columns[name].column(name) for name in product.of]
    first, second = (column.terms for column in own)
    for one in first:
        for other in second:
            with suppress(NotArithmetic, ConfError):
                read = read_term_name(f"{one}:{other}")
                if key_of(read) == key_of(Expression("*", (read_term_name(one), read_term_name(other)))):
                    continue
            raise ConfError(f"formula term {one}:{other}: {ODD_NAMES}")


def asks_for_columns(columns: Mapping[str, ColumnBounds], formulas: Sequence[str]) -> bool:
    """Tell whether formulas have a term that is no column which a conf lists by a name of its own."""
    found = formula_columns({name: c for name, c in columns.items() if not _is_made(name, c)}, formulas)
    return bool(found.columns or found.products)


def _is_made(name: str, column: ColumnBounds) -> bool:
    return column.expr is not None and (":" in name or "(" in name)


def _column(needed: Needed, columns: Mapping[str, ColumnBounds]) -> ColumnBounds:
    expression = needed.quantity.expression
    shown = f"formula term {needed.name}"
    if "`" in needed.name:
        raise ConfError(f"{shown}: {ODD_NAMES}")
    bounds = {name: _bounds(name, columns, shown) for name in expression.names}
    lower, upper = interval_of(expression, bounds, shown)
    if not lower < upper:
        raise ConfError(f"{shown}: it is {lower:g} in every row.")
    return ColumnBounds(lower=lower, upper=upper, expr=_sql(expression, columns))


def _owner(name: str, columns: Mapping[str, ColumnBounds]) -> tuple[str, Category | None]:
    """The column that a name is of, and the category if it is one's: `sex[F]`."""
    if name in columns and columns[name].categories is None:
        return name, None
    for owner, column in columns.items():
        for category in column.categories or ():
            if name == f"{owner}[{category_label(category)}]":
                return owner, category
    raise ConfError(f"formula: {name!r} is not among the columns.")


def _bounds(name: str, columns: Mapping[str, ColumnBounds], shown: str) -> Interval:
    owner, category = _owner(name, columns)
    if category is not None:
        return 0.0, 1.0
    if columns[owner].private_sides:
        raise ConfError(
            f"{shown}: the bounds of {owner} are private, and those of the term follow from them. Give public bounds, or a "
            "column of its own: columns, with expr and bounds: private."
        )
    column = columns[owner].column(owner)
    assert isinstance(column, Numeric)
    return column.lower, column.upper


def _sql(expression: Expression, columns: Mapping[str, ColumnBounds]) -> str:
    op, args = expression.op, expression.args
    if op == "number":
        return _number(args[0])
    if op == "name":
        return _value(args[0], columns)
    if op == "**":
        return _power(_sql(args[0], columns), args[1])
    parts = [_sql(part, columns) for part in args]
    if op in ("+", "*"):
        return f"({f' {op} '.join(parts)})"
    return f"{SQL_FUNCTIONS.get(op, op)}({parts[0]})"


def _power(base: str, exponent: float) -> str:
    if exponent == -1:
        return f"(1e0 / {base})"
    return f"({base} * {base})" if exponent == 2 else f"pow({base}, {_number(exponent)})"


def _number(value: float) -> str:
    """A double as Spark reads it, to the last bit."""
    text = repr(float(value))
    return (
        f"({text})"
        if "e" in text and value < 0
        else text
        if "e" in text
        else f"({text}e0)"
        if value < 0
        else f"{text}e0"
    )


def _value(name: str, columns: Mapping[str, ColumnBounds]) -> str:
    """The value of a column at its bounds if it is beyond them, null if it is null or NaN; of a category 1 or 0."""
    owner, category = _owner(name, columns)
    text = columns[owner].expr
    source = f"`{owner}`" if text is None else f"({text})"
    if category is not None:
        all_of_them = ", ".join(_literal(one, owner) for one in columns[owner].categories or ())
        return (
            f"case when {source} = {_literal(category, owner)} then 1e0 when {source} in ({all_of_them}) then 0e0 end"
        )
    lower, upper = (_number(bound) for bound in _bounds(name, columns, name))
    x = f"cast({source} as double)"
    return (
        f"case when {x} < {lower} then {lower} when {x} <= {upper} then {x} "
        f"when {x} > {upper} and not isnan({x}) then {upper} end"
    )


def _literal(category: Any, owner: str) -> str:
    if isinstance(category, bool):
        return str(category).lower()
    if isinstance(category, int):
        return str(category)
    if any(letter in category for letter in "'\\\"$") or "--" in category or "/*" in category:
        raise ConfError(f"columns.{owner}: the category {category!r} cannot be in a product: it has quotes or escapes.")
    return f"'{category}'"


def read_formulas(columns: Mapping[str, ColumnBounds], formulas: Sequence[str], blocks: bool) -> Made:
    """The same as `formula_columns`; what is wrong is said of the key."""
    try:
        return formula_columns(columns, formulas, blocks)
    except NotArithmetic:
        raise ValueError("release.regressions: a term is too large. Write fewer powers.") from None
    except ConfError as error:
        raise ValueError(f"release.regressions: {error}") from None
