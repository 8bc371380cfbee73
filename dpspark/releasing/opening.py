"""The rows of a release: where they are opened, judged and capped before anything is drawn from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from dpspark.core.judgement import FILES, Judgement
from dpspark.errors import ConfError, SourceError
from dpspark.judge.frames import judge_frame
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.catalog import open_catalog_delta, read_table_directly
from dpspark.releasing.direct import ThroughSpark, check_session, needs_types, read_directly, release_columns
from dpspark.show.logs import info
from dpspark.source.parquet import ParquetSource, check_mentioned, open_source
from dpspark.source.stores import local_path
from dpspark.spark.direct import DirectSource
from dpspark.spark.direct_persons import CappedSource, capped_files
from dpspark.spark.failures import PassFailed
from dpspark.spark.frames import (
    FrameSource,
    check_kinds,
    make_frame,
    open_query,
    open_spark_parquet,
    open_table,
    select_columns,
)
from dpspark.spark.groups import GroupList
from dpspark.spark.parquet_frames import open_parquet_frame
from dpspark.spark.persons import cap_rows
from dpspark.spark.session import is_connect
from dpspark.spark.snapshots import pin_table, watch_tables
from dpspark.spark.usable import Usable
from dpspark.spec.choose import Mechanism, choose
from dpspark.spec.parts import Source
from dpspark.spec.spec import Spec

RowsFound = CappedSource | DirectSource | FrameSource


def with_source(spec: Spec, frame: Any) -> Spec:
    """Let a DataFrame that is passed stand for the conf's source."""
    if frame is None:
        if spec.source is None or spec.source.dataframe is not None:
            raise ConfError("source: missing. Add source.parquet, delta, iceberg, table or sql, or pass a DataFrame.")
        return spec
    if not hasattr(frame, "mapInArrow"):
        raise ConfError(f"release: source is a {type(frame).__name__}; expected a Spark DataFrame.")
    if spec.source is None or spec.source.dataframe is not None:
        return spec
    if spec.source.rows_per_record is not None:
        raise ConfError(
            "source.rows_per_record is for the query of the conf, and a DataFrame was passed.\n"
            "Write source: {dataframe: true, rows_per_record: N} for it."
        )
    zone = spec.source.timezone
    return spec.model_copy(update={"source": None if zone is None else Source(dataframe=True, timezone=zone)})


def open_files(spec: Spec) -> ParquetSource | None:
    """Open files that can be seen from here, checked against the spec for the way that the release will go.

    None if only Spark knows where they are: its file system's, or a table's of its catalog.
    """
    found = None if spec.source is None else _open_files(spec, spec.source)
    if found is not None and (needs_types(spec) or (spec.source is not None and spec.source.reader == "spark")):
        check_kinds(found.frame_columns(), spec.source_columns)
        if spec.source is not None and spec.source.reader == "spark" and found.frame_columns().by_tasks:
            raise SourceError(
                "source.reader=spark: Spark's own scan fails on these files, or reads something else, as their types differ.\n"
                "Write them with one type for each column, or leave reader out."
            )
    if found is not None and spec.release.group_by is not None:
        spec.release.listed_groups.check_types(found.frame_columns().types)
    return found


def _open_files(spec: Spec, source: Source) -> ParquetSource | None:
    if source.parquet is not None:
        if source.reader == "spark" and local_path(source.parquet) is None:
            return None  # by Spark's own connector
        return open_source(source.parquet, spec.source_columns, spec.mentioned)
    if source.iceberg is not None:
        from dpspark.source.iceberg import open_iceberg

        return open_iceberg(source.iceberg, source.snapshot, spec.source_columns, spec.mentioned)
    if source.delta is not None:
        from dpspark.source.delta import is_table_name, open_delta, refuse_both

        refuse_both(source.delta)
        if not is_table_name(source.delta):
            return open_delta(source.delta, source.version, spec.source_columns, spec.mentioned)
    return None


def open_rows(
    spec: Spec, spark: Any, frame: Any, files: ParquetSource | None
) -> tuple[DirectSource | FrameSource, Judgement]:
    """Open the rows, directly or through Spark, and say who says that each is one record."""
    if files is None and frame is None:
        files = open_catalog_delta(spec, spark)
    if files is not None:
        try:
            check_session(spec, spark)
            return read_directly(spec, files), _judge_files(spec)
        except ThroughSpark as why:
            info("Spark reads the rows: %s", why)
    elif frame is None and spec.source is not None and spec.source.table is not None:
        return _open_table(spec, spark, spec.source.table)
    return _open_frame(spec, spark, frame, files)


def _open_table(spec: Spec, spark: Any, table: str) -> tuple[DirectSource | FrameSource, Judgement]:
    """Open a table's files where it is nothing else, as Spark's plan of it says. That plan is judged all the same."""
    what = f"source.table={table!r}"
    frame = open_table(spark, table)
    try:
        check_session(spec, spark)
        found = read_table_directly(spec, spark, frame)
    except ThroughSpark as why:
        info("Spark reads the rows: %s", why)
        pinned = pin_table(spark, table, frame, reads_again(spec))
        through_spark, judgement = _select_and_judge(spec, spark, pinned.frame, what)
        return replace(through_spark, table=pinned.snapshot, tables=pinned.tables), judgement
    judgement = judge_frame(frame, what, spec.stated)
    return found, replace(judgement, drops=judgement.drops or spec.where is not None)


def _judge_files(spec: Spec) -> Judgement:
    """Judge rows that tasks read themselves: one of a file is one record, which a filter may leave out."""
    return Judgement("statement", drops=True) if spec.stated else Judgement("files", drops=spec.where is not None)


def _open_frame(spec: Spec, spark: Any, frame: Any, files: ParquetSource | None) -> tuple[FrameSource, Judgement]:
    """Open the rows as Spark reads them, and judge whether each is one record: what is judged here is what is run."""
    text: set[str] = set()
    ours = None  # a frame of files that were listed here, before anything of the conf's is done to it
    if frame is not None:
        what = "the DataFrame"
        make_frame("source", lambda: frame)
    else:
        assert spec.source is not None
        if spec.source.sql is not None:
            what, frame = "source.sql", open_query(spark, spec.source.sql)
        else:
            what = " and ".join(spec.expressions) or "the source"
            if files is not None and files.frame_columns().by_tasks:
                frame, text = open_parquet_frame(spark, files)
            else:
                frame, text = open_spark_parquet(spark, str(spec.source.parquet), files)
            ours = None if files is None and not is_connect(spark) else frame
    watched = watch_tables(spark, frame, what) if files is None and reads_again(spec) else ()
    found, judgement = _select_and_judge(spec, spark, frame, what, text, ours)
    return replace(found, files=files, tables=watched), judgement


def reads_again(spec: Spec) -> bool:
    """Tell whether a release may read its rows more than once."""
    if spec.shares or spec.release.kind not in ("gram", "regression"):
        return True
    mechanism = choose(spec)
    return mechanism.passes > 1 or mechanism.paid_meats() is not None


def _select_and_judge(
    spec: Spec, spark: Any, frame: Any, what: str, text: Collection[str] = (), ours: Any = None
) -> tuple[FrameSource, Judgement]:
    """Select the columns of a frame, and judge the frame that will be run."""
    check_mentioned(spec.mentioned, frame.columns)
    columns = release_columns(spec)
    listed = None if spec.release.group_by is None else spec.release.listed_groups
    found = select_columns(spark, frame, columns, spec.where, text, spec.computed, listed)
    if is_connect(spark) and ours is not None and not spec.expressions and not spec.stated:
        judgement = FILES  # nothing of the conf's is in Spark's plan but names of columns
    else:
        judgement = judge_frame(found.frame, what, spec.stated, ours)
        if ours is not None and not (spec.expressions or spec.stated):
            judgement = replace(judgement, by="files")
    return found, judgement


def as_judged(spec: Spec, judgement: Judgement) -> tuple[Spec, Mechanism]:
    """Choose again, for what one record can really do to the rows that will be read."""
    try:
        judged = spec.judged(judgement)
        return judged, choose(judged)
    except (ConfError, ValueError) as error:
        why = str(error).partition("\n")[0]  # the rest is for confs
        failed = SourceError(
            f"the source's rows can come and go with a value of theirs, by a filter in it, and {why}\n"
            "Release a table without that filter, or another kind or mechanism."
        )
    raise failed


@contextmanager
def naming_changes(source: ParquetSource | DirectSource | FrameSource | None) -> Iterator[None]:
    """Say so if the source could not be read because it changed meanwhile, or is gone."""
    try:
        yield
    except (SourceError, PassFailed):
        if isinstance(source, FrameSource):
            source.explain()
        elif source is not None:
            source.check_unchanged()
        raise


@contextmanager
def capping(
    spec: Spec, spark: Any, source: DirectSource | FrameSource, noise: NoiseSource
) -> Iterator[CappedSource | FrameSource]:
    """Keep at most max_rows rows of each person. One secret for all passes: each sees the same rows."""
    unit, release = spec.privacy.unit, spec.release
    assert unit is not None
    groups = None if release.group_by is None else GroupList.of(source.groups)
    clustered = spec.cluster_key is not None
    usable = Usable(spec.domain, groups, by_value=release.kind == "quantiles", clustered=clustered)
    cap = (usable, unit.max_rows, unit.nulls == "own", KeyedRandom(noise.secret()))
    if isinstance(source, DirectSource):
        with capped_files(spark, source, *cap) as rows:
            yield rows
        return
    capped = cap_rows(spark, source, *cap)
    passes = 1 + bool(spec.axes) + sum(extra in spec.shares for extra in ("squared weights", "count", "group_counts"))
    with capped.kept(passes):
        yield capped


def size_in_words(source: RowsFound) -> str:
    if isinstance(source, FrameSource):
        return "through Spark"
    files = source.files
    return f"{len(files.parts)} file{'s' if len(files.parts) != 1 else ''}, {megabytes(files):,} MB"


def megabytes(source: ParquetSource) -> int:
    """Round the size of the source for people: the bytes themselves could tell the number of rows."""
    return round(sum(sum(part.row_group_bytes) for part in source.parts) / 1e6)
