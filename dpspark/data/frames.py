"""Sources that Spark reads: a table, a query, a DataFrame, or Parquet behind a filter or a remote file system.

Only methods of the session and of DataFrames are used: no RDDs, so that Spark Connect works too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dpspark.data.column_types import Column, refuse_type, shown_key
from dpspark.data.domain import Categorical, GroupKey, PersonKey
from dpspark.data.source import ParquetSource
from dpspark.errors import SourceError
from dpspark.settings import held_settings
from dpspark.suggest import did_you_mean

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
TEXT_TO = {str: "string", int: "bigint", bool: "boolean"}


@dataclass(frozen=True)
class FrameSource:
    frame: Any  # just the columns of the release, in order, called c0, c1, ...
    files: ParquetSource | None = None  # that it is read from, where that is known

    def take(self, positions: Sequence[int]) -> FrameSource:
        return replace(self, frame=self.frame.select(*(f"c{i}" for i in positions)))

    def check_unchanged(self) -> None:
        """Refuse to go on if a file is not the one that was listed. Tables have snapshots of their own."""
        if self.files is not None:
            self.files.check_unchanged()


@contextmanager
def forgiving_sql(spark: Any, directories_too: bool = False) -> Iterator[None]:
    """Without ANSI mode a bad cast or a division by zero is null: with it, the job fails and quotes the value.

    `directories_too`: their names stay text, so that they mean the same as in the direct reader.
    """
    settings = {"spark.sql.ansi.enabled": "false"}
    if directories_too:
        settings["spark.sql.sources.partitionColumnTypeInference.enabled"] = "false"
    with held_settings(spark, settings):
        yield


def open_table(spark: Any, table: str) -> Any:
    with forgiving_sql(spark, directories_too=True):
        return planned(f"source.table={table!r}", lambda: spark.table(table))


def open_query(spark: Any, sql: str) -> Any:
    with forgiving_sql(spark, directories_too=True):
        return planned("source.sql", lambda: spark.sql(sql))


def open_spark_parquet(spark: Any, path: str, files: ParquetSource | None) -> tuple[Any, set[str]]:
    """Parquet through Spark's own reader, and the columns that come from the names of directories.

    `files` are those found on local disks; None if only Spark knows the file system.
    """
    if files is None:
        with forgiving_sql(spark, directories_too=True):
            return planned(f"source.parquet={path!r}", lambda: spark.read.parquet(path)), set()
    # The same files as the direct reader; Spark takes each path for a glob.
    paths = [re.sub(r"([\\*?\[\]{}])", r"\\\1", part.path) for part in files.parts]
    base = files.root if os.path.isdir(files.root) else os.path.dirname(files.root)
    reader = spark.read.option("basePath", os.path.abspath(base))
    with forgiving_sql(spark, directories_too=True):
        frame = planned(f"source.parquet={path!r}", lambda: reader.parquet(*paths))
    return frame, {key for part in files.parts for key, _ in part.directories}


def bounded_source(
    spark: Any,
    frame: Any,
    columns: Sequence[Column],
    where: str | None,
    text: Collection[str] = (),
    computed: Mapping[str, str] | None = None,
) -> FrameSource:
    """Check the frame's schema, then filter it and select the columns.

    Columns in `text` hold values written as text; those in `computed` are expressions of others.
    """
    types, computed = _column_types(frame), computed or {}
    with forgiving_sql(spark):
        # Plain names from here on: mapInArrow cannot take every name that a column can have.
        chosen = [
            f"{_compute(frame, column, computed[column.name])} as c{i}"
            if column.name in computed
            else f"{_select(column, types, column.name in text)} as c{i}"
            for i, column in enumerate(columns)
        ]
        if where is not None:
            frame = planned("where", lambda: frame.where(where))
        return FrameSource(planned("columns", lambda: frame.selectExpr(*chosen)))


def checked_names(frame: Any, columns: Sequence[Column]) -> list[str]:
    """The columns' names as SQL has them, if the frame has each, of a type that fits."""
    types = _column_types(frame)
    return [_select(column, types, False) for column in columns]


def _column_types(frame: Any) -> dict[str, str]:
    types: dict[str, str] = {}
    for name, kind in frame.dtypes:
        # Spark resolves names without regard to case.
        types[name] = "ambiguous" if any(name.lower() == other.lower() for other in types) else kind
    return types


def _compute(frame: Any, column: Column, expression: str) -> str:
    kind = planned(f"columns.{column.name}.expr", lambda: frame.selectExpr(f"({expression}) as c")).dtypes[0][1]
    _check_kind(column, kind)
    return f"({expression})"


def _select(column: Column, types: dict[str, str], is_text: bool) -> str:
    name = column.name
    quoted = "`" + name.replace("`", "``") + "`"
    if name not in types:
        known = ", ".join(list(types)[:12]) + (", ..." if len(types) > 12 else "")
        meant = did_you_mean(name, types)
        raise SourceError(f"{shown_key(column)}: no such column in the source.{meant}\nIt has: {known}")
    twins = [other for other in types if other.lower() == name.lower()]
    kind = types[name]
    if kind == "ambiguous" or len(twins) > 1:
        raise SourceError(f"{shown_key(column)}: the source has more than one column of that name. Rename one.")
    if isinstance(column, GroupKey):
        base = kind.split("(")[0]
        refuse_type(column, kind, base in ("string", "boolean", *WHOLE_NUMBERS))
        return f"cast({quoted} as string)"
    if isinstance(column, PersonKey):
        base = kind.split("(")[0]
        whole = base in WHOLE_NUMBERS or (base == "decimal" and kind.endswith(",0)"))
        refuse_type(column, kind, whole or base in ("string", "binary"))
        return f"hex({quoted})" if base == "binary" else f"cast({quoted} as string)"
    if is_text:
        wanted = TEXT_TO[type(column.categories[0])] if isinstance(column, Categorical) else "double"
        return f"cast({quoted} as {wanted})"
    _check_kind(column, kind)
    # No cast: the executors convert as they do for the direct reader, to the last bit.
    return quoted


def _check_kind(column: Column, kind: str) -> None:
    base = kind.split("(")[0]
    if not isinstance(column, Categorical):
        refuse_type(column, kind, base in NUMBERS)
    else:
        fits = {str: base == "string", int: base in WHOLE_NUMBERS, bool: base == "boolean"}
        refuse_type(column, kind, fits[type(column.categories[0])])


def planned(what: str, make: Any) -> Any:
    try:
        frame = make()
        frame.schema  # noqa: B018  Connect plans late: ask for the schema now
        return frame
    except Exception as error:
        failed = SourceError(f"{what}: Spark cannot plan it ({condition(error)}).")
    raise failed


def condition(error: Exception) -> str:
    """Spark's name for an error, without its text, which may quote data."""
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    try:
        name = ask() if ask else None
    except Exception:
        name = None
    return name if isinstance(name, str) and name else type(error).__name__
