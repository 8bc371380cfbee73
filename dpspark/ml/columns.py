"""The way from a DataFrame's columns to those of a release, and back: plain Spark expressions, no Python on executors."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pyspark.ml.linalg import VectorUDT

from dpspark.core.domain import Categorical, Numeric
from dpspark.errors import ConfError, SourceError
from dpspark.ml.params import FeatureParams
from dpspark.spark.frames import check_names
from dpspark.spark.session import is_connect


def functions(frame: Any) -> Any:
    """Import pyspark.sql.functions for this frame: its session may be on a Connect server, whatever the process says."""
    connect = "connect." if is_connect(frame.sparkSession) else ""
    return import_module(f"pyspark.sql.{connect}functions")


def vector_functions(frame: Any) -> Any:
    connect = "connect." if is_connect(frame.sparkSession) else ""
    return import_module(f"pyspark.ml.{connect}functions")


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def bounds_conf(bounds: Sequence[float]) -> dict[str, Any]:
    return {"lower": bounds[0], "upper": bounds[1]}


def vector_of(params: FeatureParams) -> str | None:
    """Name the vector that holds the features; None if they are plain columns."""
    if not params.isSet(params.inputCols):
        return str(params.getFeaturesCol())
    if params.isSet(params.featuresCol):
        raise ConfError("inputCols and featuresCol are both set; expected one of them.")
    return None


def list_slots(params: FeatureParams) -> dict[str, Any]:
    """List the slots of the vector: the columns that they become, with their bounds."""
    vector = vector_of(params)
    given = params._given("bounds").get("bounds", {}).get(vector)
    if given is None:
        raise ConfError(
            f"bounds: none for {vector!r}, the vector of features. Give a pair for each slot, known without looking at "
            f"the data: {{{vector!r}: [(lower, upper), ...]}}.\nFor plain columns set inputCols."
        )
    if isinstance(given, list) and not isinstance(given[0], list):
        raise ConfError(f"bounds: {vector!r} is a vector; expected a list of pairs, one for each slot.")
    named = given if isinstance(given, dict) else {f"{vector}_{slot}": pair for slot, pair in enumerate(given)}
    return {name: bounds_conf(pair) for name, pair in named.items()}


def column_conf(params: Any, name: str) -> dict[str, Any]:
    """Write the conf of one plain column from the Params."""
    given = params._given("bounds", "categories", "conf")
    bounds, categories = given.get("bounds", {}).get(name), given.get("categories", {}).get(name)
    more = given.get("conf", {}).get("columns", {}).get(name)
    if sum(each is not None for each in (bounds, categories, more)) > 1:
        raise ConfError(f"{name!r} has bounds and categories, or more in conf; expected one of them.")
    if more is not None:
        return dict(more)
    if categories is not None:
        return {"categories": categories}
    if bounds is None:
        raise ConfError(
            f"bounds: none for {name!r}. Give (lower, upper), known without looking at the data, or categories."
        )
    if isinstance(bounds, dict) or not isinstance(bounds[0], float):
        raise ConfError(f"bounds: {name!r} is a plain column; expected one pair, (lower, upper).")
    return bounds_conf(bounds)


def add_slots(frame: Any, vector: str, names: Sequence[str]) -> Any:
    """Add a column for each slot of a vector. A null, or a vector of another length, has nulls there.

    Nothing here can fail on a row: that would tell of it.
    """
    array = vector_to_slots(frame, vector, len(names))
    sql = functions(frame)
    return frame.withColumns({name: sql.get(array, sql.lit(slot)) for slot, name in enumerate(names)})


def vector_to_slots(frame: Any, vector: str, length: int) -> Any:
    """Convert a vector to an array; null if it is null or of another length."""
    _check_vector(frame, vector, length)
    sql = functions(frame)
    column = sql.col(quote(vector))
    # vector_to_array fails on a null, and on a sparse vector with more slots than memory has: it is not asked. The text
    # of a sparse vector begins with its size; Spark has no expression for it.
    text = column.cast("string")
    fits = text.startswith(f"({length},") | text.startswith("[")
    array = sql.when(column.isNotNull() & fits, vector_functions(frame).vector_to_array(column))
    return sql.when(sql.size(array) == sql.lit(length), array)


def _check_vector(frame: Any, vector: str, length: int) -> None:
    if vector not in frame.columns:
        raise SourceError(f"featuresCol={vector!r}: no such column. For plain columns set inputCols.")
    field = frame.schema[vector]
    if not isinstance(field.dataType, VectorUDT):
        kind = field.dataType.simpleString()
        raise SourceError(f"featuresCol={vector!r} is {kind[:40]}; expected a vector. For plain columns set inputCols.")
    known = (field.metadata or {}).get("ml_attr", {}).get("num_attrs")
    attributes = (field.metadata or {}).get("ml_attr", {}).get("attrs")
    if known is None and attributes is not None:
        known = sum(len(kind) for kind in attributes.values())
    if known is not None and known != length:
        raise SourceError(f"bounds: {length} for {vector!r}, which has {known} slots; expected a pair for each.")


def scale_rows(frame: Any, columns: Sequence[Numeric | Categorical], vector: str | None = None) -> list[Any]:
    """Put new rows into the release's own coordinates, one expression a term: clipped, centred, in half-ranges of the bounds.

    A null or NaN is at the middle, as in `predict` of a release. What is in no category, or null, gives nulls: all zeros
    would be the first category.
    """
    sql = functions(frame)
    if vector is not None:
        array = vector_to_slots(frame, vector, len(columns))
        values = [sql.get(array, sql.lit(slot)) for slot in range(len(columns))]
    else:
        values = [sql.col(name) for name in check_names(frame, columns)]
    return [term for column, value in zip(columns, values, strict=True) for term in _terms(sql, column, value)]


def _terms(sql: Any, column: Numeric | Categorical, value: Any) -> list[Any]:
    if isinstance(column, Categorical):
        shown = column.categories[1:] if column.first_is_base else column.categories
        known = value.isin(list(column.categories))
        return [sql.when(value == sql.lit(category), 1.0).when(known, 0.0) for category in shown]
    number = value.cast("double")
    clipped = sql.greatest(sql.lit(column.lower), sql.least(sql.lit(column.upper), number))
    there = number.isNotNull() & ~sql.isnan(number)
    return [sql.when(there, (clipped - sql.lit(column.middle)) / sql.lit(column.half)).otherwise(0.0)]


def add_column(frame: Any, name: str, value: Any) -> Any:
    """Add one more column to the frame; none is replaced."""
    if any(name.lower() == other.lower() for other in frame.columns):
        raise ConfError(f"transform: the DataFrame has a column {name!r}. Drop it, or give the new one another name.")
    return frame.withColumn(name, value)
