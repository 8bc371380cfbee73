"""Lineage: what a release reads and where it goes, told to OpenLineage where its usual settings are there.

Nothing exact is in it: names of datasets, columns and tables, a snapshot, the budget and our own error messages. A listener
of Spark's could see neither end of a release that tasks read by themselves and the driver writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpspark.bundle.storage import Place, place_of
from dpspark.errors import DpsparkError
from dpspark.published.release import Release
from dpspark.releasing.lineage_sender import Sender
from dpspark.show.logs import info
from dpspark.source.parquet import ParquetSource
from dpspark.source.stores import ADDRESS, QUERY, as_s3, local_path
from dpspark.source.table_rows import Snapshot
from dpspark.spec.spec import Spec
from dpspark.warehouse.shapes import RELEASES, RESULTS

FILE = "openlineage.yml"
SETTINGS = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
TRANSPORT = "OPENLINEAGE__TRANSPORT"


@dataclass(frozen=True)
class Dataset:
    """A dataset by OpenLineage's rules of naming, with the names and types of its columns that are used."""

    namespace: str
    name: str
    columns: tuple[tuple[str, str | None], ...] = ()
    version: str | None = None


@dataclass(frozen=True)
class RunFacts:
    """What an event tells of a run."""

    state: str  # START, COMPLETE or FAIL
    time: str
    release: str
    version: str
    privacy: dict[str, Any]
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
    error: str | None = None


@dataclass
class Lineage:
    """The events of one release. Without a sender it tells nothing."""

    spec: Spec
    final: Place | None
    sender: Sender | None = None
    inputs: tuple[Dataset, ...] = field(default=())

    def tell(self, state: str, release: Release | None = None, error: str | None = None) -> None:
        if self.sender is None:
            return
        with suppress(Exception):  # lineage never stops a release
            self.sender.send(self._facts(state, release, error))

    def reading(self, files: ParquetSource | None, snapshot: Snapshot | None, spark: Any) -> None:
        """Note what the source turned out to be: its snapshot, and the types of its columns where files tell them."""
        if self.sender is None or not self.inputs:
            return
        with suppress(Exception):
            version = None if snapshot is None else str(snapshot.id)
            types = {} if files is None else dict(files.frame_columns().types)
            where = _metastore(spark) if self.spec.source is not None and self.spec.source.table else None
            self.inputs = tuple(
                replace(
                    one,
                    namespace=where or one.namespace,
                    version=version,
                    columns=tuple((name, types.get(name)) for name, _ in one.columns),
                )
                for one in self.inputs
            )

    def _facts(self, state: str, release: Release | None, error: str | None) -> RunFacts:
        named, privacy = self.spec.release, self.spec.privacy
        told = {
            "epsilon": privacy.epsilon,
            "delta": privacy.budget.delta,
            "rho": privacy.rho,
            "neighbours": privacy.neighbours,
            "kind": named.kind,
            "mechanism": self.spec.mechanism_name,
            "version": named.version,
        }
        outputs: tuple[Dataset, ...] = () if self.final is None else (dataset_of(str(self.final)),)
        if state == "COMPLETE" and release is not None:
            outputs += _tables(self.spec, release)
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return RunFacts(state, now, named.name, named.version, told, self.inputs, outputs, error)


@contextmanager
def follow_lineage(spec: Spec, out: Any) -> Iterator[Lineage]:
    """Tell how a release begins and ends, if somebody is to be told."""
    if not is_wanted():
        yield Lineage(spec, None)
        return
    lineage = Lineage(spec, _final(spec, out), Sender(), _inputs(spec))
    lineage.tell("START")
    try:
        yield lineage
    except BaseException as error:
        lineage.tell("FAIL", error=_message(error))
        raise
    finally:
        if lineage.sender is not None and not lineage.sender.finish():
            info("lineage: the events of %s %s were not all sent", spec.release.name, spec.release.version)


def is_wanted() -> bool:
    """Tell whether OpenLineage's usual settings name somewhere to send events to."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if any(os.environ.get(name) for name in SETTINGS) or any(name.startswith(TRANSPORT) for name in os.environ):
        return True
    with suppress(OSError, RuntimeError):  # without a working directory, or a home
        return Path(FILE).is_file() or (Path.home() / ".openlineage" / FILE).is_file()
    return False


def _message(error: BaseException) -> str:
    """Our own messages are made for strangers' eyes; of all others, the kind alone: their texts may quote data."""
    if isinstance(error, KeyboardInterrupt):
        return "stopped"
    return str(error) if isinstance(error, DpsparkError) else f"unexpected {type(error).__name__}"


def _final(spec: Spec, out: Any) -> Place | None:
    with suppress(DpsparkError, OSError):
        return (
            place_of(out if out is not None else spec.output.path) / spec.release.name / spec.release.version
        ).absolute()
    return None


def _inputs(spec: Spec) -> tuple[Dataset, ...]:
    """Name the source. A query is named nowhere, and a DataFrame has no name."""
    source = spec.source
    if source is None or source.sql is not None or source.dataframe:
        return ()
    files = source.parquet or source.delta
    if files is not None and (source.parquet or "/" in files):
        found = dataset_of(files)
    else:
        found = table_of(str(source.table or files or source.iceberg))
    used = {column.name for column in spec.source_columns}.union(*spec.mentioned.values())
    return (replace(found, columns=tuple((name, None) for name in sorted(used))),)


def dataset_of(path: str) -> Dataset:
    """Name files, on a disk or in a store: the bucket is the namespace. Options of an address are left out."""
    local = local_path(path)
    if local is not None:
        return Dataset("file", os.path.abspath(local))
    parts = ADDRESS.fullmatch(as_s3(path))
    assert parts is not None
    query = QUERY.fullmatch(parts[3])
    key = parts[3] if query is None else query[1]
    return Dataset(f"{parts[1].lower()}://{parts[2]}", key.strip("/") or "/")


def table_of(name: str) -> Dataset:
    """Name a table of a catalog: the catalog is the namespace, Spark's own if none is named."""
    *catalog, schema, table = name.split(".") if "." in name else ("default", name)
    return Dataset(".".join(catalog) or "spark_catalog", f"{schema}.{table}")


def _metastore(spark: Any) -> str | None:
    """Name Hive's metastore as OpenLineage does, if Spark's catalog is there."""
    for key in ("spark.hadoop.hive.metastore.uris", "spark.sql.hive.metastore.uris", "hive.metastore.uris"):
        found = spark.conf.get(key, None)
        if found:
            return "hive://" + str(found).split(",")[0].rpartition("://")[2].rpartition("@")[2]
    return None


def _tables(spec: Spec, release: Release) -> tuple[Dataset, ...]:
    """Name the tables that the release was loaded into."""
    address = spec.output.table_address
    if address is None:
        return ()
    names = (*(name for name, stem in RESULTS.items() if stem in release.tables), RELEASES)
    if address.kind == "delta":
        place = address.parts[0].partition("?")[0]
        return tuple(dataset_of(f"{place.rstrip('/')}/{name}") for name in names)
    return tuple(table_of(".".join((*address.parts, name))) for name in names)
