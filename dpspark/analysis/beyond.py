"""Rows to predict for: values beyond a release's bounds are moved to them, and the analyst is told."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import Categorical, Numeric
from dpspark.errors import BeyondBounds, ConfError
from dpspark.exact.bounds import plain_values
from dpspark.show.tables import bound_texts


def new_values(column: Numeric | Categorical, frame: Any) -> np.ndarray:
    """A column of the rows to predict for, as numbers or as codes of its categories."""
    if column.name not in frame:
        raise ConfError(f"predict: the rows have no column {column.name!r}.")
    try:
        values = plain_values(column, pa.array(frame[column.name], from_pandas=True))
    except (pa.ArrowException, TypeError):
        raise ConfError(f"predict: column {column.name!r} has the wrong type.") from None
    if isinstance(column, Categorical) and (values < 0).any():
        # All zeros would be the prediction of the first category.
        known = ", ".join(map(repr, column.categories[:12])) + (", ..." if len(column.categories) > 12 else "")
        raise ConfError(
            f"predict: column {column.name!r} has a null, or a value that is none of its categories: {known}."
        )
    return values


def warn_beyond(columns: Iterable[tuple[Numeric | Categorical, np.ndarray]], stacklevel: int = 3) -> None:
    """One warning for the caller of `predict`, with every column that has such values, and how many."""
    found = []
    for column, values in columns:
        if isinstance(column, Numeric):
            count = int(((values < column.lower) | (values > column.upper)).sum())
            if count:
                low, high = bound_texts(column.lower, column.upper)
                found.append(f"{column.name} ({count:,} of {len(values):,} beyond {low} to {high})")
    if found:
        text = "predict: values beyond the bounds of the release were moved to them, as its own rows were: "
        warnings.warn(f"{text}{', '.join(found)}.", BeyondBounds, stacklevel=stacklevel)


def used_columns(columns: Iterable[Numeric | Categorical], terms: Iterable[str]) -> list[Any]:
    """The columns that some terms are of."""
    wanted = set(terms)
    return [column for column in columns if wanted & set(column.terms)]
