"""The whole flow of a release, from spec to published bundle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict
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
from dpspark.bundle.storage import Place, StorePath, near, place_of
from dpspark.errors import ConfError, OutputError
from dpspark.ledger.ledger import Entry, Ledger, find_ledger_url
from dpspark.planning.foresight import foretell
from dpspark.privacy.noise import NoiseSource, OpenDPNoise
from dpspark.published.reading import read_release
from dpspark.published.release import Release
from dpspark.releasing.direct import needs_types
from dpspark.releasing.earlier import (
    check_same_events,
    check_same_place,
    drawn_before,
    lost,
    published_before,
)
from dpspark.releasing.extras import find_bounds
from dpspark.releasing.limitations import of_few_rows
from dpspark.releasing.lineage import Lineage, follow_lineage
from dpspark.releasing.loading import Loading
from dpspark.releasing.lock import taking_turns
from dpspark.releasing.make import make, released_rows
from dpspark.releasing.manifest import build_manifest
from dpspark.releasing.opening import (
    RowsFound,
    as_judged,
    capping,
    megabytes,
    naming_changes,
    open_files,
    open_rows,
    size_in_words,
    with_source,
)
from dpspark.releasing.reservation import begun_before
from dpspark.releasing.rows import Overtaken, SparkRows, with_clusters
from dpspark.show.logs import info
from dpspark.show.notebook_progress import reporting
from dpspark.show.progress import Note, NoteKind, Reading, Steps
from dpspark.spark.direct import DirectSource
from dpspark.spark.executor_watch import watch_executors
from dpspark.spark.frames import FrameSource
from dpspark.spark.session import is_connect, silence_logs, spark_session, use_session, watch_java
from dpspark.spark.settings import forgive_sql, look_at_every_row, set_time_zone
from dpspark.spark.task_progress import follow_tasks
from dpspark.spec.charges import charged_events, protection
from dpspark.spec.choose import Mechanism, choose
from dpspark.spec.spec import Spec, load_spec

ALREADY_PUBLISHED = "already published, nothing was read or spent"
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
    report: Callable[[str], None] | None = None,
) -> Release:
    """Read the source once, add noise once, charge the ledger, publish. A release made before is returned as it is.

    `source` is a Spark DataFrame to read instead of the conf's source. `spark` is a session, or the sc:// URL of a Spark
    Connect server. `noise` is for tests. `report` is called with the text of each step and note; by default a
    notebook's cell shows them. dpspark.show.progress has them as events.
    """
    spec = with_source(spec if isinstance(spec, Spec) else load_spec(spec), source)
    if source is not None and isinstance(spark, str):
        raise ConfError(
            f"release: spark={spark!r} beside a DataFrame, which has its own session. Leave it out, or make the frame there."
        )
    name = f"{spec.release.name} {spec.release.version}"
    with reporting(name, report) as told, follow_lineage(spec, out) as lineage:
        done = _release(spec, source, spark, out, ledger_url, noise, Steps(name, told), lineage)
        lineage.tell("COMPLETE", done)
        return done


def _release(
    spec: Spec,
    source: Any,
    spark: Any,
    out: str | Place | None,
    ledger_url: str | None,
    noise: NoiseSource | None,
    report: Steps,
    lineage: Lineage,
) -> Release:
    mechanism = choose(spec)
    loading = Loading(spec.output.table_address, spark if source is None else source.sparkSession)
    info("%s %s: %s by %s", spec.release.name, spec.release.version, spec.release.kind, spec.mechanism_name)
    output = place_of(out if out is not None else spec.output.path)
    check_place(output, spec.release.name, spec.release.version)
    final = (output / spec.release.name / spec.release.version).absolute()
    ledger = Ledger(find_ledger_url(ledger_url, spec.ledger.url), create=False, dataset=spec.ledger.dataset)

    done = _published_before(spec, ledger, final, report)
    if done is not None:
        return loading.load(done, report)
    check_writable(output)
    lock = output / STAGING / f"{spec.release.name}@{spec.release.version}.lock"
    turn = nullcontext() if isinstance(lock, StorePath) else taking_turns(lock, report.note)  # stores have no locks
    with turn, ExitStack() as kept:
        done = _published_before(spec, ledger, final, report)  # by the run that this one waited for
        if done is not None:
            return loading.load(done, report)
        entry = begun_before(spec, mechanism, ledger, output, final, report.note)
        digest = None if entry is None else drawn_before(entry, output, final)
        if entry is None or digest is None:
            drawing = (spec, mechanism, ledger, output, final, source, spark, noise or OpenDPNoise(), report)
            entry, digest = _read_and_stage(*drawing, loading, kept, lineage)
        report("publishing")
        check_place(output, spec.release.name, spec.release.version)
        done = loading.load(_publish(ledger, ledger.stage(entry, digest), output, final), report)
        report.end()
        return done


def _published_before(spec: Spec, ledger: Ledger, final: Place, report: Steps) -> Release | None:
    """The release, if this very spec was published under its name and version; refused if another spec was."""
    entry = ledger.find(spec.ledger.dataset, spec.release.name, spec.release.version)
    done = published_before(spec, entry, final)
    if done is None:
        return None
    more = f"\n{NOT_IN_LEDGER}"
    if entry is not None and entry.state == "committed":
        # What a driver drew that was too late, and was killed before it could take it away.
        discard_staged(place_of(entry.path).parent.parent, entry.id)
        more = ""
    text, short = (f"{ALREADY_PUBLISHED}: {path}{more}" for path in (done.path, near(done.path)))
    report.note(Note(NoteKind.ALREADY_PUBLISHED, text, short))
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
    loading: Loading,
    kept: ExitStack,
    lineage: Lineage,
) -> tuple[Entry, str]:
    """The reservation and the digest of its draw: this driver's, or that of one who came first.

    A session that tables are loaded by, too, is `kept` until they are.
    """
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
            holder = kept if loading.needs_spark else stack
            spark = holder.enter_context(spark_session(title, remote=spark))
        stack.enter_context(use_session(spark))
        stack.enter_context(watch_java(spark))
        stack.enter_context(silence_logs(spark))
        stack.enter_context(set_time_zone(spark, spec.timezone))
        stack.enter_context(look_at_every_row(spark))
        if is_connect(spark):  # where Spark's plan is analysed again, under the settings of that moment, when it runs
            stack.enter_context(forgive_sql(spark, directories_too=frame is None))
        stack.enter_context(watch_executors(spark, report.note))
        stack.enter_context(follow_tasks(spark, report))
        stack.enter_context(naming_changes(files))
        opened, judgement = open_rows(spec, spark, frame, files)
        lineage.reading(opened.files, opened.snapshot, spark)
        spec, mechanism = as_judged(spec, judgement)
        run = charged_events(spec, mechanism), protection(spec)
        if files is None:  # a catalog's table, or what only Spark knows
            stack.enter_context(naming_changes(opened))
        foretell(spec, report.note)
        loading.check(spec, spark, report)
        entry = ledger.reserve(spec.ledger.dataset, name.name, name.version, spec.hash, budget, str(final), *run)
        check_same_events(entry, run[0])
        warning = ledger.warning(spec.ledger.dataset)
        if warning is not None:
            report.note(Note(NoteKind.LOW_BUDGET, warning))
        check_same_place(entry, final)

        def drawn() -> str | None:
            ledger.check_charged(entry)
            return drawn_before(ledger.find(spec.ledger.dataset, name.name, name.version) or entry, output, final)

        found: RowsFound = opened
        if spec.privacy.unit is not None:
            if isinstance(opened, DirectSource):
                report("finding each person's rows")
            found = stack.enter_context(capping(spec, spark, opened, noise))
        if spec.axes:
            report("finding bounds")
            mechanism = find_bounds(spec, mechanism, spark, found, noise)
        report.counted = isinstance(found, DirectSource) and not needs_types(spec)
        report(f"reading ({size_in_words(found)})")
        report.tell(Reading(None if isinstance(found, FrameSource) else megabytes(found.files)))
        rows = SparkRows(spark, found, lambda: drawn() is not None, spec.diagnostics is not None)
        if spec.cluster_key is not None:
            rows = with_clusters(rows, len(spec.domain.read_columns))
        with suppress(Overtaken):
            made = make(spec, mechanism, rows, noise, report)
            read = spark.version, found.groups, opened.snapshot
            manifest = build_manifest(spec, mechanism, made.found, entry.id, *read)
            if made.count is not None:
                manifest["monitoring"] = asdict(made.count)
            manifest["limitations"] += of_few_rows(spec, released_rows(spec, made))
            rows.check()  # as late as can be: what is staged, others may be able to read
            try:
                return entry, stage(output, entry.id, made.tables, manifest)
            except OutputError:
                if drawn() is None:
                    raise
        digest = drawn()
        assert digest is not None
        return entry, digest
