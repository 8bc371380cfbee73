"""The whole flow of a release, from spec to published bundle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dpspark.bundle.files import STAGING, manifest_digest
from dpspark.bundle.staging import (
    check_place,
    check_writable,
    discard_staged,
    is_staged,
    publish,
    stage,
    staging_path,
)
from dpspark.bundle.storage import Place, StorePath, place_of
from dpspark.core.judgement import FILES, Judgement
from dpspark.errors import ConfError, OutputError, SourceError
from dpspark.judge.frames import judge_frame
from dpspark.ledger.ledger import Entry, Ledger, find_ledger_url
from dpspark.planning.foresight import foretell
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource, OpenDPNoise
from dpspark.published.reading import read_release
from dpspark.published.release import Release
from dpspark.releasing.earlier import (
    check_same_events,
    check_same_place,
    drawn_before,
    lost,
    open_files,
    published_before,
    through_spark,
)
from dpspark.releasing.extras import find_bounds
from dpspark.releasing.lock import taking_turns
from dpspark.releasing.make import make
from dpspark.releasing.manifest import build_manifest
from dpspark.releasing.reservation import begun_before
from dpspark.releasing.rows import Overtaken, Report, SparkRows, kept_for_many_passes
from dpspark.releasing.steps import ALREADY_PUBLISHED, READING, Steps
from dpspark.show.logs import info
from dpspark.show.notebook_progress import shown
from dpspark.source.parquet import ParquetSource, check_mentioned
from dpspark.spark.failures import PassFailed
from dpspark.spark.frames import (
    FrameSource,
    bounded_source,
    forgiving_sql,
    open_query,
    open_spark_parquet,
    open_table,
    planned,
    time_zone,
)
from dpspark.spark.groups import GroupList
from dpspark.spark.persons import Usable, capped_source
from dpspark.spark.session import is_connect, java_watched, session_in_use, silent_logs, spark_session
from dpspark.spark.store_frames import open_store_frame
from dpspark.spark.waiting import lack_told
from dpspark.spec.charges import charged_events, protection
from dpspark.spec.choose import Mechanism, choose
from dpspark.spec.parts import Source
from dpspark.spec.spec import Spec, load_spec

NOT_IN_LEDGER = (
    "This ledger has no charge for it: it was made with another one, or this one was restored from an older copy. "
    "Its budget is spent all the same."
)


def release(
    spec: Spec | str | Path | dict[str, Any],
    source: Any = None,
    spark: Any = None,
    *,
    out: str | Place | None = None,
    ledger_url: str | None = None,
    noise: NoiseSource | None = None,
    report: Report | None = None,
) -> Release:
    """Read the source once, add noise once, charge the ledger, publish. A release made before is returned as it is.

    `source` is a Spark DataFrame to read instead of the conf's source. `spark` is a session, or the sc:// URL of a Spark
    Connect server. `noise` is for tests. `report` is told each step; by default a notebook's cell shows them.
    """
    spec = with_source(spec if isinstance(spec, Spec) else load_spec(spec), source)
    if source is not None and isinstance(spark, str):
        raise ConfError(
            f"release: spark={spark!r} beside a DataFrame, which has its own session. Leave it out, or make the frame there."
        )
    name = f"{spec.release.name} {spec.release.version}"
    with shown(name, report) as told:
        return _release(spec, source, spark, out, ledger_url, noise, Steps(name, told))


def _release(
    spec: Spec,
    source: Any,
    spark: Any,
    out: str | Place | None,
    ledger_url: str | None,
    noise: NoiseSource | None,
    report: Steps,
) -> Release:
    mechanism = choose(spec)
    info("%s %s: %s by %s", spec.release.name, spec.release.version, spec.release.kind, spec.mechanism_name)
    output = place_of(out if out is not None else spec.output.path)
    check_place(output, spec.release.name, spec.release.version)
    final = (output / spec.release.name / spec.release.version).absolute()
    ledger = Ledger(find_ledger_url(ledger_url, spec.ledger.url), create=False, dataset=spec.ledger.dataset)

    done = _published_before(spec, ledger, final, report)
    if done is not None:
        return done
    check_writable(output)
    lock = output / STAGING / f"{spec.release.name}@{spec.release.version}.lock"
    with nullcontext() if isinstance(lock, StorePath) else taking_turns(lock, report):  # stores have no locks
        done = _published_before(spec, ledger, final, report)  # by the run that this one waited for
        if done is not None:
            return done
        entry = begun_before(spec, mechanism, ledger, output, final, report)
        digest = None if entry is None else drawn_before(entry, output, final)
        if entry is None or digest is None:
            drawing = (spec, mechanism, ledger, output, final, source, spark, noise or OpenDPNoise(), report)
            entry, digest = _read_and_stage(*drawing)
        report("publishing")
        check_place(output, spec.release.name, spec.release.version)
        done = _publish(ledger, ledger.stage(entry, digest), output, final)
        report.end()
        return done


def with_source(spec: Spec, frame: Any) -> Spec:
    """A DataFrame that is passed stands for the conf's source."""
    if frame is None:
        if spec.source is None or spec.source.dataframe is not None:
            raise ConfError("source: missing. Add source.parquet, source.table or source.sql, or pass a DataFrame.")
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


def _published_before(spec: Spec, ledger: Ledger, final: Place, report: Report) -> Release | None:
    """The release, if this very spec was published under its name and version; refused if another spec was."""
    entry = ledger.find(spec.ledger.dataset, spec.release.name, spec.release.version)
    done = published_before(spec, entry, final)
    if done is None:
        return None
    if entry is not None and entry.state == "committed":
        # What a driver drew that was too late, and was killed before it could take it away.
        discard_staged(place_of(entry.path).parent.parent, entry.id)
        report(f"{ALREADY_PUBLISHED}: {done.path}")
    else:
        report(f"{ALREADY_PUBLISHED}: {done.path}\n{NOT_IN_LEDGER}")
    return done


def _publish(ledger: Ledger, entry: Entry, output: Place, final: Place) -> Release:
    """Publish the draw that the ledger names. Other draws of this reservation were seen by no one, and go."""
    assert entry.manifest_sha256 is not None
    staged = staging_path(output, entry.id, entry.manifest_sha256)
    if not is_staged(output, entry.id, entry.manifest_sha256) and manifest_digest(final) is None:
        discard_staged(output, entry.id)
        raise lost(entry)
    publish(staged, final, entry.manifest_sha256)
    discard_staged(output, entry.id)
    ledger.commit(entry)
    return read_release(final)


def _read_and_stage(
    spec: Spec,
    mechanism: Mechanism,
    ledger: Ledger,
    output: Place,
    final: Place,
    frame: Any,
    spark: Any,
    noise: NoiseSource,
    report: Steps,
) -> tuple[Entry, str]:
    """The reservation and the digest of its draw: this driver's, or that of one who came first."""
    with ExitStack() as stack:
        report("checking the source")
        files = open_files(spec) if frame is None else None
        name, budget = spec.release, spec.privacy.budget
        run = charged_events(spec, mechanism), protection(spec)
        ledger.check(spec.ledger.dataset, name.name, name.version, budget, *run)
        if frame is not None:
            spark = frame.sparkSession  # where it is planned and run, whatever other session there is
        if spark is None or isinstance(spark, str):
            report("starting Spark" if spark is None else "connecting to Spark")
            title = f"dpspark {spec.release.name} {spec.release.version}"
            spark = stack.enter_context(spark_session(title, remote=spark))
        stack.enter_context(session_in_use(spark))
        stack.enter_context(java_watched(spark))
        stack.enter_context(silent_logs(spark))
        stack.enter_context(time_zone(spark, spec.timezone))
        if is_connect(spark):  # where a plan is analysed again, under the settings of that moment, when it runs
            stack.enter_context(forgiving_sql(spark, directories_too=frame is None))
        stack.enter_context(lack_told(spark, report))
        stack.enter_context(report.on(spark))
        stack.enter_context(_changes_noticed(files))
        found: ParquetSource | FrameSource
        if files is not None and not through_spark(spec):
            found, judgement = files, Judgement("statement", drops=True) if spec.stated else FILES
        else:
            found, judgement = _open_frame(spec, spark, frame, files)
        spec, mechanism = _as_judged(spec, judgement)
        run = charged_events(spec, mechanism), protection(spec)
        foretell(spec, report)
        entry = ledger.reserve(spec.ledger.dataset, name.name, name.version, spec.hash, budget, str(final), *run)
        check_same_events(entry, run[0])
        warning = ledger.warning(spec.ledger.dataset)
        if warning is not None:
            report(warning)
        check_same_place(entry, final)

        def drawn() -> str | None:
            ledger.check_charged(entry)
            return drawn_before(ledger.find(spec.ledger.dataset, name.name, name.version) or entry, output, final)

        if spec.privacy.unit is not None:
            assert isinstance(found, FrameSource)
            found = stack.enter_context(_capped(spec, spark, found, noise))
        if spec.axes:
            report("finding bounds")
            mechanism = find_bounds(spec, mechanism, spark, found, noise)
        report.counted = isinstance(found, ParquetSource)
        report(f"{READING} ({_size(found)})")
        if isinstance(found, ParquetSource):
            report.reads(_megabytes(found))
        rows = SparkRows(spark, found, lambda: drawn() is not None, spec.diagnostics is not None)
        with suppress(Overtaken):
            made = make(spec, mechanism, rows, noise, report)
            groups = found.groups if isinstance(found, FrameSource) else None
            manifest = build_manifest(spec, mechanism, made.found, entry.id, spark.version, groups)
            if made.count is not None:
                manifest["monitoring"] = asdict(made.count)
            rows.check()  # as late as can be: what is staged, others may be able to read
            try:
                return entry, stage(output, entry.id, made.tables, manifest)
            except OutputError:
                if drawn() is None:
                    raise
        digest = drawn()
        assert digest is not None
        return entry, digest


@contextmanager
def _changes_noticed(files: ParquetSource | None) -> Iterator[None]:
    """If the source could not be read because it changed meanwhile, say that."""
    try:
        yield
    except (SourceError, PassFailed):
        if files is not None:
            files.check_unchanged()
        raise


def _as_judged(spec: Spec, judgement: Judgement) -> tuple[Spec, Mechanism]:
    """The spec and the mechanism for what one record can really do to the rows that will be read."""
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


def _open_frame(spec: Spec, spark: Any, frame: Any, files: ParquetSource | None) -> tuple[FrameSource, Judgement]:
    """The rows as Spark reads them, and who says that each is one record: what is judged here is what is run."""
    text: set[str] = set()
    ours = None  # a frame of files that were listed here, before anything of the conf's is done to it
    if frame is not None:
        what = "the DataFrame"
        planned("source", lambda: frame)
    else:
        assert spec.source is not None
        if spec.source.table is not None:
            what, frame = f"source.table={spec.source.table!r}", open_table(spark, spec.source.table)
        elif spec.source.sql is not None:
            what, frame = "source.sql", open_query(spark, spec.source.sql)
        else:
            what = " and ".join(spec.expressions) or "source.parquet"
            if files is not None and files.frame_columns().by_tasks:
                frame, text = open_store_frame(spark, files)
            else:
                frame, text = open_spark_parquet(spark, str(spec.source.parquet), files)
            ours = None if files is None and not is_connect(spark) else frame
    check_mentioned(spec.mentioned, frame.columns)
    unit = spec.privacy.unit
    columns = [*spec.domain.read_columns, *(() if unit is None else (unit.key,))]
    listed = None if spec.release.group_by is None else spec.release.listed_groups
    found = bounded_source(spark, frame, columns, spec.where, text, spec.computed, listed)
    if is_connect(spark) and ours is not None and not spec.expressions and not spec.stated:
        judgement = FILES  # nothing of the conf's is in the plan but names of columns
    else:
        judgement = judge_frame(found.frame, what, spec.stated, ours)
        if ours is not None and not (spec.expressions or spec.stated):
            judgement = replace(judgement, by="files")
    return replace(found, files=files), judgement


@contextmanager
def _capped(spec: Spec, spark: Any, source: FrameSource, noise: NoiseSource) -> Iterator[FrameSource]:
    """At most max_rows rows of each person. One secret for all passes: each sees the same rows."""
    unit, release = spec.privacy.unit, spec.release
    assert unit is not None
    groups = None if release.group_by is None else GroupList(source.groups.texts)
    usable = Usable(spec.domain, groups, by_value=release.kind == "quantiles")
    capped = capped_source(spark, source, usable, unit.max_rows, unit.nulls == "own", KeyedRandom(noise.secret()))
    passes = 1 + bool(spec.axes) + ("squared weights" in spec.shares) + ("count" in spec.shares)
    with kept_for_many_passes(capped, passes):
        yield capped


def _size(source: ParquetSource | FrameSource) -> str:
    if isinstance(source, FrameSource):
        return "through Spark"
    return f"{len(source.parts)} file{'s' if len(source.parts) != 1 else ''}, {_megabytes(source):,} MB"


def _megabytes(source: ParquetSource) -> int:
    """To read, rounded: the bytes themselves could tell the number of rows."""
    return round(sum(sum(part.row_group_bytes) for part in source.parts) / 1e6)
