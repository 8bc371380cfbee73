"""The whole flow of a release, from spec to published bundle."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from dpspark.bundle import (
    check_place,
    check_writable,
    publish,
    read_manifest,
    read_release,
    stage,
    staging_path,
)
from dpspark.data.frames import FrameSource, bounded_source, open_query, open_spark_parquet, open_table
from dpspark.data.source import ParquetSource, check_mentioned, local_path, open_parquet
from dpspark.errors import ConfError, LedgerError
from dpspark.kinds import Overtaken, Report, SparkRows, make
from dpspark.manifest import build_manifest
from dpspark.mechanisms.choose import Mechanism, choose
from dpspark.privacy.ledger import Entry, Ledger, check_unchanged, find_ledger_url
from dpspark.privacy.noise import NoiseSource, OpenDPNoise
from dpspark.released import Release
from dpspark.session import silent_logs, spark_session
from dpspark.spec import Spec, load_spec
from dpspark.stages import find_bounds

ALREADY_PUBLISHED = "already published, nothing was read or spent"


def release(
    spec: Spec | str | Path | dict[str, Any],
    source: Any = None,
    spark: Any = None,
    *,
    out: str | Path | None = None,
    ledger_url: str | None = None,
    noise: NoiseSource | None = None,
    report: Report = lambda step: None,
) -> Release:
    """Read the source once, add noise once, charge the ledger, publish. A release made before is returned as it is.

    `source` is a Spark DataFrame to read instead of the conf's source. `noise` is for tests.
    """
    spec = spec if isinstance(spec, Spec) else load_spec(spec)
    if source is not None:
        if not hasattr(source, "mapInArrow"):
            raise ConfError(f"release: source is a {type(source).__name__}; expected a Spark DataFrame.")
        if spec.source is not None and spec.source.dataframe is None:
            if spec.source.rows_per_record is not None:
                raise ConfError(
                    "source.rows_per_record is for the query of the conf, and a DataFrame was passed.\n"
                    "Write source: {dataframe: true, rows_per_record: N} for it."
                )
            spec = spec.model_copy(update={"source": None})
    elif spec.source is None or spec.source.dataframe is not None:
        raise ConfError("source: missing. Add source.parquet, source.table or source.sql, or pass a DataFrame.")
    mechanism = choose(spec)
    output = Path(out if out is not None else spec.output.path)
    check_place(output, spec.release.name, spec.release.version)
    final = (output / spec.release.name / spec.release.version).absolute()
    ledger = Ledger(find_ledger_url(ledger_url, spec.ledger.url), create=False)

    done = _published_before(spec, ledger, final)
    if done is not None:
        report(f"{ALREADY_PUBLISHED}: {done.path}")
        return done
    check_writable(output)
    entry = ledger.find(spec.ledger.dataset, spec.release.name, spec.release.version)
    if entry is not None:
        _check_same_place(entry, final)
    if entry is None or not _nothing_left_to_read(entry, output, final):
        entry = _read_and_stage(spec, mechanism, ledger, output, final, source, spark, noise or OpenDPNoise(), report)
    report("publishing")
    check_place(output, spec.release.name, spec.release.version)
    ledger.stage(entry)
    publish(staging_path(output, entry.id), final)
    ledger.commit(entry)
    return read_release(final)


def _published_before(spec: Spec, ledger: Ledger, final: Path) -> Release | None:
    """The release, if this very spec was published under its name and version; refused if another spec was."""
    entry = ledger.find(spec.ledger.dataset, spec.release.name, spec.release.version)
    if entry is not None:
        check_unchanged(entry, spec.hash)
        if entry.state == "committed":
            return _committed(entry)
    manifest = read_manifest(final)
    if manifest is None or (entry is not None and manifest["ledger"]["id"] == entry.id):
        return None
    if manifest["spec_hash"] != spec.hash:
        raise LedgerError(f"{final} holds a release made from another spec. Give this one a new release.version.")
    return read_release(final)


def _committed(entry: Entry) -> Release:
    if not Path(entry.path).is_dir():
        raise LedgerError(
            f"release {entry.name} {entry.version} was published at {entry.path} and is no longer there. "
            "Its noise is not drawn again.\nPut it back, or give the release a new version."
        )
    return read_release(entry.path)


def _check_same_place(entry: Entry, final: Path) -> None:
    """An unfinished release may have a draw staged where it was begun: elsewhere there would be a second one."""
    if entry.path != str(final):
        raise LedgerError(
            f"release {entry.name} {entry.version} was begun for {entry.path} and is not finished.\n"
            "Run it with that output, or give it a new version."
        )


def _nothing_left_to_read(entry: Entry, output: Path, final: Path) -> bool:
    """An earlier run got as far as staging: its result stands."""
    published = read_manifest(final)
    if staging_path(output, entry.id).exists() or (published and published["ledger"]["id"] == entry.id):
        return True
    if entry.state == "staged":
        raise LedgerError(
            f"release {entry.name} {entry.version} was staged for {entry.path} and is not there. Its noise is not drawn "
            "again.\nRun it with the same output as before, or give it a new version."
        )
    return False


def _read_and_stage(
    spec: Spec,
    mechanism: Mechanism,
    ledger: Ledger,
    output: Path,
    final: Path,
    frame: Any,
    spark: Any,
    noise: NoiseSource,
    report: Report,
) -> Entry:
    with ExitStack() as stack:
        report("checking the source")
        direct = _open_direct(spec) if frame is None else None
        name = spec.release
        ledger.check(spec.ledger.dataset, name.name, name.version, spec.privacy.budget)
        if spark is None and frame is not None:
            spark = frame.sparkSession
        if spark is None:
            report("starting Spark")
            spark = stack.enter_context(spark_session(f"dpspark {spec.release.name} {spec.release.version}"))
        stack.enter_context(silent_logs(spark))
        found = direct or _open_frame(spec, spark, frame)
        entry = ledger.reserve(spec.ledger.dataset, name.name, name.version, spec.hash, spec.privacy.budget, str(final))
        _check_same_place(entry, final)
        if spec.axes:
            report("finding bounds")
            mechanism = find_bounds(spec, mechanism, spark, found, noise)
        report(f"reading ({_size(found)})")
        rows = SparkRows(
            spark, found, lambda: _nothing_left_to_read(entry, output, final), spec.diagnostics is not None
        )
        with suppress(Overtaken):
            made = make(spec, mechanism, rows, noise, report)
            manifest = build_manifest(spec, mechanism, made.found, entry.id, spark.version)
            stage(output, entry.id, made.tables, manifest)
        return entry


def _open_direct(spec: Spec) -> ParquetSource | None:
    """Parquet that the tasks read by themselves. SQL is Spark's to evaluate, but the files are checked all the same."""
    path = spec.source.parquet if spec.source else None
    local = local_path(path) if path else None
    if local is None:
        return None
    found = open_parquet(local, spec.source_columns, spec.mentioned)
    through_spark = spec.expressions or spec.release.kind == "theil_sen" or spec.release.group_by is not None
    return None if through_spark else found


def _open_frame(spec: Spec, spark: Any, frame: Any) -> FrameSource:
    text: set[str] = set()
    if frame is None:
        assert spec.source is not None
        if spec.source.table is not None:
            frame = open_table(spark, spec.source.table)
        elif spec.source.sql is not None:
            frame = open_query(spark, spec.source.sql)
        else:
            frame, text = open_spark_parquet(spark, str(spec.source.parquet))
    check_mentioned(spec.mentioned, frame.columns)
    return bounded_source(spark, frame, spec.domain.read_columns, spec.where, text, spec.computed)


def _size(source: ParquetSource | FrameSource) -> str:
    if isinstance(source, FrameSource):
        return "through Spark"
    size = sum(sum(part.row_group_bytes) for part in source.parts)
    return f"{len(source.parts)} file{'s' if len(source.parts) != 1 else ''}, {size / 1e6:,.0f} MB"
