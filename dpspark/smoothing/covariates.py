"""Public covariates of groups, from a file or a data frame: one row for each group, by its keys."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpspark.analysis.content.keys import Key
from dpspark.errors import ConfError
from dpspark.source.group_keys import key_label

ROWS = "rows"  # a column of this name is the public number of rows of each group
MOST_CATEGORIES = 100


@dataclass(frozen=True)
class Covariates:
    """A column of ones and the covariates, in the order of the groups; and public numbers of rows, if there are any."""

    names: tuple[str, ...]
    design: np.ndarray
    rows: np.ndarray | None = None


def no_covariates(groups: int) -> Covariates:
    return Covariates(("(intercept)",), np.ones((groups, 1)))


def read_covariates(given: Any, group_by: Sequence[str], keys: Sequence[Key]) -> Covariates:
    """Read covariates from a CSV or Parquet file, or from columns (a mapping or a data frame), and match them to groups."""
    columns = _columns(given)
    lacking = [name for name in group_by if name not in columns]
    if lacking:
        raise ConfError(
            f"covariates: no column {lacking[0]!r}. Expected {', '.join(group_by)} and a number or a text beside."
        )
    if len(columns) == len(set(group_by)):
        raise ConfError(
            f"covariates: no column beside {', '.join(group_by)}. Expected a number or a text of each group."
        )
    order = _match(columns, group_by, keys)
    names, parts, rows = ["(intercept)"], [np.ones(len(keys))], None
    for name, column in columns.items():
        if name in group_by:
            continue
        values = [column[at] for at in order]
        if name == ROWS:
            rows = _numbers(name, values)
            if rows is None or (rows < 0).any():
                raise ConfError(f"covariates: {ROWS} is a group's number of rows; expected numbers from 0 up.")
            continue
        for label, part in _coded(name, values):
            names.append(label)
            parts.append(part)
    return Covariates(tuple(names), np.stack(parts, axis=1), rows)


def _columns(given: Any) -> dict[str, list[Any]]:
    if isinstance(given, str | Path):
        return _read(Path(given))
    if isinstance(given, Mapping):
        return {str(name): list(values) for name, values in given.items()}
    return {str(name): given[name].tolist() for name in given.columns}


def _read(path: Path) -> dict[str, list[Any]]:
    try:
        if path.suffix.lower() == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets write a mark before the first name
                rows = list(csv.DictReader(file))
            if any(None in row for row in rows):
                raise ConfError(f"covariates {str(path)!r}: a row has more values than there are columns.")
            return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
        import pyarrow.parquet as pq

        return pq.ParquetFile(path).read().to_pydict()
    except OSError as error:
        raise ConfError(f"covariates {str(path)!r}: {error.strerror or 'cannot be read'}.") from None
    except (ValueError, TypeError, KeyError):
        raise ConfError(f"covariates {str(path)!r}: expected a CSV or Parquet file.") from None


def _match(columns: dict[str, list[Any]], group_by: Sequence[str], keys: Sequence[Key]) -> list[int]:
    """Find the row of each group. Rows of other groups are not used."""
    found: dict[Key, int] = {}
    for at, key in enumerate(zip(*(map(_label, columns[name]) for name in group_by), strict=True)):
        if key in found:
            raise ConfError(f"covariates: the group {', '.join(key)} has two rows; expected one.")
        found[key] = at
    missing = [key for key in keys if key not in found]
    if missing:
        raise ConfError(
            f"covariates: {len(missing):,} of {len(keys):,} groups have no row, e.g. {', '.join(missing[0])}. Add them."
        )
    return [found[key] for key in keys]


def _label(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return key_label(int(value) if whole else value)


def _coded(name: str, values: list[Any]) -> list[tuple[str, np.ndarray]]:
    """Centre and scale numbers; write a text as a column for each value but the first."""
    numbers = _numbers(name, values)
    if numbers is not None:
        spread = float(numbers.std())
        return [(name, (numbers - numbers.mean()) / spread)] if spread > 0 else []
    kinds = sorted({str(value) for value in values})
    if len(kinds) > MOST_CATEGORIES:
        raise ConfError(f"covariates: {name} has {len(kinds):,} different texts; expected {MOST_CATEGORIES} at most.")
    return [(f"{name}[{kind}]", np.array([float(str(value) == kind) for value in values])) for kind in kinds[1:]]


def _numbers(name: str, values: list[Any]) -> np.ndarray | None:
    if any(value is None or value == "" for value in values):
        raise ConfError(f"covariates: {name} has no value for some groups. Fill them in, or leave the column out.")
    try:
        found = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        return None
    if not np.isfinite(found).all():
        raise ConfError(f"covariates: {name} has a value that is no finite number.")
    return found
