"""Computed columns of new rows: what a release's SQL makes of the columns that an analyst gives. Post-processing: no cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.errors import ConfError
from dpspark.source.compute.compile import NotCompiled, compile_syntax
from dpspark.source.compute.parser import parse
from dpspark.source.compute.syntax import Case, CastTo, Name, Operation, Syntax

# Spark's own to the last digits, which is enough for a prediction; a release itself leaves them to Spark.
FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ln": np.log, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "exp": np.exp, "expm1": np.expm1,
}  # fmt: skip


def base_columns(expression: str) -> tuple[str, ...]:
    """Name the columns that an expression reads; none where it cannot be read here."""
    try:
        return tuple(dict.fromkeys(_names(parse(expression))))
    except (NotCompiled, RecursionError):
        return ()


def with_computed(frame: Any, names: Iterable[str], definitions: Mapping[str, str]) -> Any:
    """Add those computed columns that the rows lack and that can be computed from the columns they have."""
    made: dict[str, Any] = {}
    for name in names:
        if name in frame or name not in definitions:
            continue
        needed = base_columns(definitions[name])
        missing = [column for column in needed if column not in frame]
        if not needed or missing:
            lacks = f", or {', '.join(map(repr, missing))}" if missing else ""
            raise ConfError(f"the rows have no column {name!r}{lacks}. It is computed: {definitions[name]}")
        made[name] = _evaluate(name, definitions[name], {column: frame[column] for column in needed})
    if not made:
        return frame
    own = list(frame.columns) if hasattr(frame, "columns") else list(frame)
    return {**{column: frame[column] for column in own}, **made}


def _evaluate(name: str, text: str, columns: Mapping[str, Any]) -> np.ndarray:
    arrays = {column: _array(values) for column, values in columns.items()}
    rows = len(next(iter(arrays.values())))
    try:
        found = _value(parse(text), arrays, rows)
    except (NotCompiled, RecursionError, KeyError):
        raise ConfError(f"column {name!r} is computed by what only Spark evaluates: {text}. Give its values.") from None
    if pa.types.is_string(found.type):
        return np.asarray(found.to_pylist(), dtype=object)
    return np.asarray(found.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=float)


def _value(syntax: Syntax, arrays: dict[str, Any], rows: int) -> Any:
    """Evaluate logarithms and exponentials by numpy, from the inside out, and all else as a release's tasks do."""
    plain = _without_functions(syntax, arrays, rows)
    types = {column: _type(array) for column, array in arrays.items()}
    return compile_syntax(plain, types, "UTC").run(arrays, rows)


def _without_functions(syntax: Syntax, arrays: dict[str, Any], rows: int) -> Syntax:
    """Replace each such function by a column of its values, which is added to the arrays."""
    if isinstance(syntax, Operation):
        inputs = tuple(_without_functions(each, arrays, rows) for each in syntax.inputs)
        if not (syntax.is_function and syntax.name in FUNCTIONS and len(inputs) == 1):
            return replace(syntax, inputs=inputs)
        inside = _value(inputs[0], arrays, rows).cast(pa.float64()).to_numpy(zero_copy_only=False)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            values = FUNCTIONS[syntax.name](inside)
        made = f"\0{len(arrays)}"
        arrays[made] = pa.array(np.where(np.isfinite(values), values, np.nan), from_pandas=True)
        return Name(made)
    if isinstance(syntax, CastTo):
        return replace(syntax, input=_without_functions(syntax.input, arrays, rows))
    if isinstance(syntax, Case):
        branches = tuple(
            (_without_functions(when, arrays, rows), _without_functions(then, arrays, rows))
            for when, then in syntax.branches
        )
        return Case(branches, _without_functions(syntax.otherwise, arrays, rows))
    return syntax


def _names(syntax: Syntax) -> Iterable[str]:
    if isinstance(syntax, Name):
        yield syntax.name
    elif isinstance(syntax, Operation):
        for each in syntax.inputs:
            yield from _names(each)
    elif isinstance(syntax, CastTo):
        yield from _names(syntax.input)
    elif isinstance(syntax, Case):
        for when, then in syntax.branches:
            yield from _names(when)
            yield from _names(then)
        yield from _names(syntax.otherwise)


def _array(values: Any) -> Any:
    """Numbers are doubles here: an analyst's 40 and 40.0 mean the same."""
    array = pa.array(values, from_pandas=True)
    number = pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_null(array.type)
    return array.cast(pa.float64()) if number else array


def _type(array: Any) -> str:
    if pa.types.is_floating(array.type):
        return "double"
    if pa.types.is_boolean(array.type):
        return "boolean"
    if pa.types.is_string(array.type):
        return "string"
    raise NotCompiled("dates and times")
