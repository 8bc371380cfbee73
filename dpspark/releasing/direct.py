"""Whether tasks read the files of a release themselves, and what they make of the rows. What they cannot do, Spark does."""

from __future__ import annotations

from typing import Any

from dpspark.core.domain import GroupKey, Weight
from dpspark.source.column_types import Column
from dpspark.source.compute.compile import NotCompiled, compile_expression, compile_filter
from dpspark.source.compute.program import Program
from dpspark.source.frame_columns import FrameColumns
from dpspark.source.group_keys import DIRECTORY, NO_GROUPS, ReleasedGroups
from dpspark.source.parquet import ParquetSource
from dpspark.source.reading import Reading
from dpspark.source.spark_types import arrow_type
from dpspark.spark.direct import DirectSource
from dpspark.spark.frames import WHOLE_NUMBERS, check_computed, check_kinds
from dpspark.spec.spec import Spec

# Settings of a session under which Spark gives expressions another meaning.
OTHER_MEANING = {"spark.sql.caseSensitive": "true", "spark.sql.timestampType": "TIMESTAMP_NTZ"}


class ThroughSpark(Exception):
    """Tasks cannot read these rows by themselves, and Spark must. The text says why, in words of the conf and the schema."""


def read_directly(spec: Spec, files: ParquetSource) -> DirectSource:
    """Say what tasks make of the files' rows. ThroughSpark if they cannot; SourceError if nobody can."""
    if spec.source is not None and spec.source.reader == "spark":
        raise ThroughSpark("source.reader is spark")
    columns = release_columns(spec)
    if not needs_types(spec):
        return DirectSource(files, Reading(columns))
    found = files.frame_columns()
    check_kinds(found, spec.source_columns)
    computed = {name: _compile(spec, _key_of(spec, name), text, found) for name, text in spec.computed.items()}
    where = None if spec.where is None else _compile(spec, "where", spec.where, found)
    for column in columns:
        if column.name in computed:
            check_computed(column, spec.computed[column.name], computed[column.name].type)
    programs = [*computed.values(), *(() if where is None else (where,))]
    _check_types(columns, programs, found)
    _check_ids(spec, found)
    groups = _type_groups(spec, found, computed)
    types = {**found.types, **{name: str(kind) for name, kind in _directory_kinds(spec, found).items()}}
    return DirectSource(files, Reading(columns, types, found.spellings, where, computed), groups)


def check_session(spec: Spec, spark: Any) -> None:
    """Leave expressions to a session whose settings give them another meaning than Spark's own."""
    for setting, value in OTHER_MEANING.items() if spec.expressions else ():
        if str(spark.conf.get(setting)).upper() == value.upper():
            raise ThroughSpark(f"{setting} is {value}")


def release_columns(spec: Spec) -> tuple[Column, ...]:
    """List the columns that a release reads, in order; who a row is about comes last."""
    unit = spec.privacy.unit
    return (*spec.row_columns, *(() if unit is None else (unit.key,)))


def needs_types(spec: Spec) -> bool:
    """Tell whether columns must have one type in all files: for expressions, and where rows of a group, a person or a
    cluster meet."""
    meets = spec.release.kind == "theil_sen" or spec.release.group_by is not None or spec.privacy.unit is not None
    return bool(spec.expressions) or meets or spec.cluster_key is not None


def _key_of(spec: Spec, name: str) -> str:
    return "weight.expr" if name in _weights(spec) else f"columns.{name}.expr"


def _weights(spec: Spec) -> set[str]:
    return {column.name for column in spec.domain.read_columns if isinstance(column, Weight)}


def _compile(spec: Spec, key: str, text: str, found: FrameColumns) -> Program:
    types = {**found.types, **dict.fromkeys(found.directories, "string")}
    compiled = compile_filter if key == "where" else compile_expression
    try:
        return compiled(text, types, spec.timezone)
    except NotCompiled as why:
        raise ThroughSpark(f"{key}: {why}") from None


def _check_types(columns: tuple[Column, ...], programs: list[Program], found: FrameColumns) -> None:
    """Leave to Spark what its own reader reads otherwise."""
    used = {column.name for column in columns}.union(*(program.columns for program in programs))
    for name in sorted(used & found.types.keys()):
        if arrow_type(found.types[name]) is None:
            raise ThroughSpark(f"column {name!r} is of type {found.types[name]}")
        if name in found.old_times:
            raise ThroughSpark(f"column {name!r} has dates or times of an older calendar or format")


def _check_ids(spec: Spec, found: FrameColumns) -> None:
    """Leave to Spark ids that tasks cannot compare: they know whole numbers of 64 bits, and text."""
    unit = spec.privacy.unit
    kind = "string" if unit is None else found.types.get(unit.column, "string")  # a directory's name is text
    if kind != "string" and kind not in WHOLE_NUMBERS:
        raise ThroughSpark(f"ids in column {unit.column if unit else ''!r} are of type {kind}")
    key = spec.cluster_key
    kind = "string" if key is None or key.name in spec.computed else found.types.get(key.name, "string")
    if kind not in (*WHOLE_NUMBERS, "string", "date", "boolean"):
        raise ThroughSpark(f"clusters in column {key.name if key else ''!r} are of type {kind}")


def _directory_kinds(spec: Spec, found: FrameColumns) -> dict[str, str]:
    """Find the types of group keys that directories' names give: they have none, and the list's is as good as any."""
    named = [key.name for key in spec.domain.keys if key.name in found.directories]
    return {name: DIRECTORY[spec.release.listed_groups.kind(name)] for name in named}


def _type_groups(spec: Spec, found: FrameColumns, computed: dict[str, Program]) -> ReleasedGroups:
    if spec.release.group_by is None:
        return NO_GROUPS
    kinds = {**found.types, **_directory_kinds(spec, found)}
    kinds.update({name: program.type for name, program in computed.items()})
    keys = {column.name: kinds[column.name] for column in spec.domain.read_columns if isinstance(column, GroupKey)}
    return spec.release.listed_groups.with_types(keys)
