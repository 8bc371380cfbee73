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

from dpspark.core.domain import Categorical, ClusterKey, GroupKey, PersonKey, Weight
from dpspark.errors import SourceError
from dpspark.source.column_types import Column, describe_column, missing_column, refuse_type
from dpspark.source.frame_columns import FrameColumns, schema_text
from dpspark.source.group_keys import (
    DIRECTORY,
    NO_GROUPS,
    TYPES,
    ListedGroups,
    ReleasedGroups,
    directory_text,
    key_text,
)
from dpspark.source.parquet import ParquetSource
from dpspark.source.table_rows import Snapshot
from dpspark.spark.failures import condition as condition
from dpspark.spark.lake_tables import refuse_lake_frame
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.plan_nodes import class_of, find_plan, to_list
from dpspark.spark.row_source import TableGuard, TaskFunction
from dpspark.spark.settings import forgive_sql
from dpspark.spark.tree import MOST_PARTIALS

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "boolean")
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint")
TEXT_TO = {str: "string", int: "bigint", bool: "boolean"}


@dataclass(frozen=True)
class FrameSource:
    """The rows of a release as a DataFrame."""

    frame: Any  # just the columns of the release, in order, called c0, c1, ...
    files: ParquetSource | None = None  # that it is read from, where that is known
    groups: ReleasedGroups = NO_GROUPS  # the public list, in the types of the source's columns
    table: Snapshot | None = None  # the state of the lake table that Spark reads in all passes, where that is known
    tables: tuple[TableGuard, ...] = ()  # that Spark reads

    def map_in_arrow(self, spark: Any, function: TaskFunction, schema: str) -> Any:
        # Not a shuffle: a task reads several partitions, one after the other, where there are more.
        return self.frame.coalesce(self.tasks(spark)).mapInArrow(function, schema)

    def tasks(self, spark: Any) -> int:
        return max(MOST_PARTIALS, 4 * default_parallelism(spark))

    @contextmanager
    def kept(self, passes: int) -> Iterator[None]:
        """Let Spark keep the rows between passes."""
        if passes < 2:
            yield
            return
        self.frame.persist()
        try:
            yield
        finally:
            self.frame.unpersist()

    def take(self, positions: Sequence[int]) -> FrameSource:
        return replace(self, frame=self.frame.select(*(f"c{i}" for i in positions)))

    @property
    def snapshot(self) -> Snapshot | None:
        """The state of a lake table that every pass reads."""
        return self.table if self.files is None else self.files.snapshot

    def check_unchanged(self) -> None:
        """Refuse to go on if a file is not the one that was listed, or a table that is watched has changed."""
        if self.files is not None:
            self.files.check_unchanged()
        for table in self.tables:
            table.check()

    def explain(self) -> None:
        """After a pass that failed: say so if that is because the source changed, or is gone."""
        if self.files is not None:
            self.files.check_unchanged()
        for table in self.tables:
            table.explain()


def open_table(spark: Any, table: str) -> Any:
    with forgive_sql(spark, directories_too=True):
        return make_frame(f"source.table={table!r}", lambda: spark.read.table(table))


def open_query(spark: Any, sql: str) -> Any:
    with forgive_sql(spark, directories_too=True):
        if hasattr(spark, "_jsparkSession"):
            _check_is_query(spark, sql)
            return make_frame("source.sql", lambda: spark.sql(sql))
        # A server shows no parser. In brackets a command or a script is none.
        return make_frame("source.sql", lambda: spark.sql(f"select * from ({sql}\n)"))


def _check_is_query(spark: Any, sql: str) -> None:
    """Refuse what Spark does not take for one query: a command or a script would be run at once."""
    try:
        spark._jsparkSession.sessionState().sqlParser().parseQuery(sql)
    except Exception as error:
        failed = SourceError(f"source.sql: Spark does not take it for one query ({condition(error)}).")
    else:
        return
    raise failed


def open_spark_parquet(spark: Any, path: str, files: ParquetSource | None) -> tuple[Any, set[str]]:
    """Open Parquet with Spark's own reader; name the columns that come from the names of directories.

    `files` are those found on local disks; None if only Spark knows the file system.
    """
    if files is None:
        with forgive_sql(spark, directories_too=True):
            frame = make_frame(f"source.parquet={path!r}", lambda: spark.read.parquet(path))
        refuse_lake_frame(spark, f"source.parquet={path!r}", frame, path)
        return frame, _directories(spark, frame)
    # The same files as the direct reader; Spark takes each path for a glob.
    paths = [re.sub(r"([\\*?\[\]{}])", r"\\\1", part.path) for part in files.parts]
    base = files.root if os.path.isdir(files.root) else os.path.dirname(files.root)
    reader = spark.read.option("basePath", os.path.abspath(base))
    from pyspark.sql.types import StructType

    columns = files.frame_columns()
    with forgive_sql(spark, directories_too=True):
        frame = make_frame(
            f"source.parquet={path!r}", lambda: reader.schema(schema_text(columns) or StructType()).parquet(*paths)
        )
    return frame, set(columns.directories)


def _directories(spark: Any, frame: Any) -> set[str]:
    """Name the columns that Spark found in the names of directories. A server of Spark Connect does not show them."""
    if not hasattr(spark, "_jsparkSession"):
        return set()
    node = find_plan(frame)
    if class_of(node) != "LogicalRelation" or class_of(node.relation()) != "HadoopFsRelation":
        return set()
    return {str(key.name()) for key in to_list(node.relation().partitionSchema())}


def select_columns(
    spark: Any,
    frame: Any,
    columns: Sequence[Column],
    where: str | None,
    text: Collection[str] = (),
    computed: Mapping[str, str] | None = None,
    listed: ListedGroups | None = None,
) -> FrameSource:
    """Check the frame's schema, then filter it and select the columns.

    Columns in `text` hold values written as text; those in `computed` are expressions of others. `listed` are the groups.
    """
    types, computed = _column_types(frame), computed or {}
    with forgive_sql(spark):
        chosen, keys = [], {}
        for i, column in enumerate(columns):
            if column.name in computed:
                kind, selected = _compute(frame, column, computed[column.name])
            else:
                in_list = "text" if listed is None or not isinstance(column, GroupKey) else listed.kind(column.name)
                kind, selected = _select(column, types, column.name in text, in_list)
            # Plain names from here on: mapInArrow cannot take every name that a column can have.
            chosen.append(f"{selected} as c{i}")
            if isinstance(column, GroupKey):
                keys[column.name] = kind
        groups = NO_GROUPS if listed is None else listed.with_types(keys)
        if where is not None:
            frame = make_frame("where", lambda: frame.where(where))
        return FrameSource(make_frame("columns", lambda: frame.selectExpr(*chosen)), groups=groups)


def check_names(frame: Any, columns: Sequence[Column]) -> list[str]:
    """Refuse columns that the frame does not have, or whose type does not fit; return the others' names in SQL."""
    types = _column_types(frame)
    return [_select(column, types, False)[1] for column in columns]


def check_kinds(found: FrameColumns, columns: Sequence[Column]) -> None:
    """Refuse, before there is a frame, columns that it would not have, or whose type would not fit."""
    types = {**found.types, **dict.fromkeys(found.directories, "string")}
    for column in columns:
        _select(column, types, column.name in found.directories)


def _column_types(frame: Any) -> dict[str, str]:
    types: dict[str, str] = {}
    for name, kind in frame.dtypes:
        # Spark resolves names without regard to case.
        types[name] = "ambiguous" if any(name.lower() == other.lower() for other in types) else kind
    return types


def _compute(frame: Any, column: Column, expression: str) -> tuple[str, str]:
    """Find an expression's type, and its SQL."""
    what = "weight.expr" if isinstance(column, Weight) else f"columns.{column.name}.expr"
    kind = make_frame(what, lambda: frame.selectExpr(f"({expression}) as c")).dtypes[0][1]
    if isinstance(column, GroupKey):
        return _key(column, f"({expression})", kind)
    check_computed(column, expression, kind)
    return kind, f"cast(({expression}) as string)" if isinstance(column, ClusterKey) else f"({expression})"


def check_computed(column: Column, expression: str, kind: str) -> None:
    """Refuse an expression whose type does not fit what it is for."""
    if isinstance(column, GroupKey):
        refuse_type(column, kind, kind in TYPES)
    elif isinstance(column, ClusterKey):
        _check_cluster(column, kind)
    elif isinstance(column, Weight) and kind.split("(")[0] not in NUMBERS:
        raise SourceError(f"weight.expr={expression!r}: its type is {kind}; expected a number.")
    else:
        _check_kind(column, kind)


def _check_cluster(column: ClusterKey, kind: str) -> None:
    """Refuse a cluster's key whose text does not tell which values are equal."""
    base = kind.split("(")[0]
    whole = base in WHOLE_NUMBERS or (base == "decimal" and kind.endswith(",0)"))
    refuse_type(column, kind, whole or base in ("string", "varchar", "char", "date", "boolean"))


def _key(column: GroupKey, quoted: str, kind: str) -> tuple[str, str]:
    """Find the type of a group's key, and SQL for its text."""
    kind = "string" if kind.split("(")[0] in ("varchar", "char") else kind
    refuse_type(column, kind, kind in TYPES)
    return kind, key_text(quoted, kind)


def _select(column: Column, types: dict[str, str], is_text: bool, listed: str = "text") -> tuple[str, str]:
    """Find a column's type, and SQL that selects it. `listed` is the kind of its keys in the list of groups."""
    name = column.name
    quoted = "`" + name.replace("`", "``") + "`"
    if name not in types:
        raise missing_column(column, list(types), "the source")
    twins = [other for other in types if other.lower() == name.lower()]
    kind = types[name]
    if kind == "ambiguous" or len(twins) > 1:
        raise SourceError(f"{describe_column(column)}: the source has more than one column of that name. Rename one.")
    if isinstance(column, GroupKey):
        if is_text:  # names of directories have no type: the list's is as good as any
            return DIRECTORY[listed], directory_text(quoted, DIRECTORY[listed])
        return _key(column, quoted, kind)
    if isinstance(column, PersonKey):
        base = kind.split("(")[0]
        whole = base in WHOLE_NUMBERS or (base == "decimal" and kind.endswith(",0)"))
        refuse_type(column, kind, whole or base in ("string", "binary"))
        return kind, f"hex({quoted})" if base == "binary" else f"cast({quoted} as string)"
    if isinstance(column, ClusterKey):
        _check_cluster(column, kind)
        return kind, f"cast({quoted} as string)"
    if is_text:
        wanted = TEXT_TO[type(column.categories[0])] if isinstance(column, Categorical) else "double"
        return wanted, f"cast({quoted} as {wanted})"
    _check_kind(column, kind)
    # No cast: the executors convert as they do for the direct reader, to the last bit.
    return kind, quoted


def _check_kind(column: Column, kind: str) -> None:
    base = kind.split("(")[0]
    if not isinstance(column, Categorical):
        refuse_type(column, kind, base in NUMBERS)
    else:
        fits = {str: base == "string", int: base in WHOLE_NUMBERS, bool: base == "boolean"}
        refuse_type(column, kind, fits[type(column.categories[0])])


def make_frame(what: str, make: Any) -> Any:
    """Make a frame and have Spark plan it, or refuse. `what` names it in messages."""
    try:
        frame = make()
        frame.schema  # noqa: B018  Connect plans late: ask for the schema now
        return frame
    except Exception as error:
        failed = SourceError(f"{what}: Spark cannot plan it ({condition(error)}).")
    raise failed
