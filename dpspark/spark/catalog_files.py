"""The files of a catalog table, where Spark's own plan of it is nothing but Parquet files that are read as they are.

Whatever else is in the plan (a view, a filter or a mask of the catalog's, text that is padded) is left to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlparse

from dpspark.source.stores import Store, has_endpoint
from dpspark.spark.failures import condition
from dpspark.spark.plan_nodes import class_of, find_plan, to_list
from dpspark.spark.session import is_connect

FILES = ("InMemoryFileIndex", "CatalogFileIndex", "PrunedInMemoryFileIndex")
EXISTING = "EXISTS_DEFAULT"  # the mark of such a column, in the schema
SCANS = ("DataSourceV2Relation", "DataSourceV2ScanRelation")
# Settings under which Spark finds a file's columns in another way than by their names, in any case.
OTHER_NAMES = ("spark.sql.caseSensitive", "spark.sql.parquet.fieldId.read.enabled")
AMAZON = "amazonaws.com"
WAP_BRANCH = "spark.wap.branch"  # Iceberg then reads that branch of some tables
WHOLE = ("tinyint", "smallint", "int", "bigint", "boolean", "float", "double", "date", "timestamp", "timestamp_ntz")


class NotFiles(Exception):
    """Spark must read the table. The text says why."""


@dataclass(frozen=True)
class CatalogFiles:
    """A table's columns with Spark's types, and its files, each with the values that its partition gives."""

    columns: Mapping[str, str]
    files: tuple[tuple[str, Mapping[str, Any]], ...]


def list_catalog_files(spark: Any, frame: Any) -> CatalogFiles:
    """List the files of a table's frame. NotFiles if its rows are not just those of Parquet files."""
    if is_connect(spark):
        raise NotFiles("Spark Connect does not show a table's files")
    for setting in OTHER_NAMES:
        if spark.conf.get(setting, "false") == "true":
            raise NotFiles(f"{setting} is set")
    try:
        relation = _find_relation(frame)
        files = tuple(_list_files(relation))
    except NotFiles:
        raise
    except Exception as error:
        failed = NotFiles(f"its plan cannot be read ({condition(error)})")
    else:
        return CatalogFiles(dict(frame.dtypes), files)
    raise failed


def find_delta(spark: Any, name: str) -> str | None:
    """Find where a Delta table of Spark's own catalog lies; None if that has no such table, or cannot be asked."""
    if is_connect(spark):
        return None
    state = spark._jsparkSession.sessionState()
    try:
        found = state.catalog().getTableMetadata(state.sqlParser().parseTableIdentifier(name))
        provider = found.provider()
        delta = bool(provider.isDefined()) and str(provider.get()).lower() == "delta"
        return unquote(str(found.location().toString())) if delta else None
    except Exception:  # a table of another catalog, or none
        return None


def find_store(spark: Any, address: str) -> Store | None:
    """Find where Spark's S3A connector looks for a bucket, so that tasks look nowhere else. None for other addresses."""
    parsed = urlparse(address)
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    used = str(settings.get(f"fs.{parsed.scheme}.impl") or "").endswith(".S3AFileSystem")
    if parsed.scheme != "s3a" and not (parsed.scheme in ("s3", "s3n") and used):
        return None
    places = (f"fs.s3a.bucket.{parsed.netloc}.endpoint", "fs.s3a.endpoint")
    endpoint = next((str(settings.get(name)) for name in places if settings.get(name)), AMAZON)
    scheme, _, host = endpoint.rpartition("://")
    if not host.rstrip("/").endswith(AMAZON):
        secure = str(settings.get("fs.s3a.connection.ssl.enabled") or "true") == "true"
        options = {"endpoint_override": host.rstrip("/"), "scheme": scheme or ("https" if secure else "http")}
        return Store("s3", "", tuple(sorted(options.items())))
    if has_endpoint():
        raise NotFiles("its bucket is Amazon's to Spark, and another's by AWS_ENDPOINT_URL")
    return None


@dataclass(frozen=True)
class IcebergTable:
    """An Iceberg table as Spark's plan has it: its metadata file, taken as written, and the snapshot that is read.

    The columns are those that the table has now, unless it is named with a snapshot or a tag: then that one's.
    """

    metadata: str
    snapshot: int | None
    own: str  # the table's own id
    of_snapshot: bool = False
    of_branch: bool = False
    same_columns: bool = False  # the snapshot's are the table's: Spark can be told to read that snapshot


def find_iceberg(spark: Any, frame: Any) -> IcebergTable | None:
    """Find an Iceberg table that Spark's plan reads as it is; None if it is none."""
    if is_connect(spark):
        return None
    try:
        node = find_plan(frame)
        while class_of(node) == "SubqueryAlias":
            node = node.children().apply(0)
        left = frame._jdf.queryExecution().optimizedPlan()
        if class_of(node) != "DataSourceV2Relation" or class_of(left) not in SCANS:
            return None
        table = node.table()
        if not _is_iceberg(table):
            return None
        if spark.conf.get(WAP_BRANCH, None) is not None:
            raise NotFiles(f"{WAP_BRANCH} is set")
        return _pin_iceberg(table)
    except NotFiles:
        raise
    except Exception as error:
        failed = NotFiles(f"its plan cannot be read ({condition(error)})")
    raise failed


def _pin_iceberg(table: Any) -> IcebergTable:
    """Note what the table is now. Its name may end in a snapshot, a tag or a branch: db.t.branch_audited, say."""
    inner = table.table()
    if not str(inner.getClass().getName()).endswith("org.apache.iceberg.BaseTable"):
        raise NotFiles("it is a table of Iceberg's metadata")
    metadata = inner.operations().current()
    place, own = str(metadata.metadataFileLocation()), str(metadata.uuid())
    if table.snapshotId() is not None:
        return IcebergTable(place, int(table.snapshotId()), own, of_snapshot=True)
    branch = table.branch()
    snapshot = inner.currentSnapshot() if branch is None else inner.snapshot(branch)
    if snapshot is None and branch is not None:
        raise NotFiles("its branch has no snapshot")
    if snapshot is None:
        return IcebergTable(place, None, own)
    same = snapshot.schemaId() == inner.schema().schemaId()
    return IcebergTable(place, int(snapshot.snapshotId()), own, of_branch=branch is not None, same_columns=same)


def list_iceberg_tables(spark: Any, frame: Any) -> list[Any]:
    """List the Iceberg tables, as Iceberg's Java has them, whose newest state a plan reads. A server shows none."""
    if is_connect(spark):
        return []
    plan = find_plan(frame)
    leaves = [leaf for each in (plan, *to_list(plan.subqueriesAll())) for leaf in to_list(each.collectLeaves())]
    tables = [leaf.table() for leaf in leaves if class_of(leaf) == "DataSourceV2Relation"]
    newest = [table for table in tables if _is_iceberg(table) and table.snapshotId() is None]
    return [table.table() for table in newest if _is_base(table.table())]


def _is_iceberg(table: Any) -> bool:
    return str(table.getClass().getName()).endswith("org.apache.iceberg.spark.source.SparkTable")


def _is_base(inner: Any) -> bool:
    """Tell whether it is a table, and not one of its metadata."""
    return str(inner.getClass().getSimpleName()) in ("BaseTable", "RESTTable")


def _find_relation(frame: Any) -> Any:
    node = find_plan(frame)
    while class_of(node) == "SubqueryAlias":
        node = node.children().apply(0)
    # Some catalogs add their filters and masks only when a plan is optimised.
    left = frame._jdf.queryExecution().optimizedPlan()
    if class_of(node) != "LogicalRelation" or class_of(left) != "LogicalRelation":
        raise NotFiles("Spark's plan of it is more than files")
    relation = node.relation()
    if class_of(relation) != "HadoopFsRelation" or class_of(relation.fileFormat()) != "ParquetFileFormat":
        raise NotFiles("it is not of Parquet files")
    if EXISTING in str(relation.dataSchema().json()):
        raise NotFiles("a column has a default, which old files lack")
    if class_of(relation.location()) not in FILES:
        raise NotFiles("its list of files is not a plain one")
    return relation


def _list_files(relation: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    keys = to_list(relation.partitionSchema())
    nothing = relation.location().rootPaths().take(0)  # no condition: all files
    for directory in to_list(relation.location().listFiles(nothing, nothing)):
        values = {str(key.name()): _read_value(directory.values(), at, key) for at, key in enumerate(keys)}
        for file in to_list(directory.files()):
            yield unquote(str(file.getPath().toUri().toString())), values


def _read_value(row: Any, at: int, key: Any) -> Any:
    kind = str(key.dataType().simpleString())
    if bool(row.isNullAt(at)):
        return None
    if kind == "string":
        return str(row.getUTF8String(at).toString())
    if kind in WHOLE:
        return row.get(at, key.dataType())
    raise NotFiles(f"it is partitioned by a column of type {kind}")
