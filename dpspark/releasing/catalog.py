"""Catalog tables whose files tasks read themselves. Spark's plan of the table is judged all the same."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from dpspark.errors import SourceError
from dpspark.releasing.direct import ThroughSpark, read_directly
from dpspark.source.delta import open_delta
from dpspark.source.footers import Footer
from dpspark.source.iceberg import open_iceberg
from dpspark.source.lake_table import TableColumn, TableFile, open_snapshot
from dpspark.source.parquet import ParquetSource
from dpspark.source.stores import Store, locate_file
from dpspark.spark.catalog_files import IcebergTable, NotFiles, find_delta, find_iceberg, find_store, list_catalog_files
from dpspark.spark.direct import DirectSource
from dpspark.spec.spec import Spec


def read_table_directly(spec: Spec, spark: Any, frame: Any) -> DirectSource:
    """Say what tasks make of the files of a table. ThroughSpark if Spark must read it."""
    try:
        return read_directly(spec, _open_files(spec, spark, frame))
    except NotFiles as why:
        reason = str(why)
    except SourceError as error:  # Spark may read it all the same, and says it better if it cannot
        reason = str(error).partition("\n")[0]
    raise ThroughSpark(reason)


def open_catalog_delta(spec: Spec, spark: Any) -> ParquetSource | None:
    """Open a Delta table by its name in Spark's catalog, at the newest version or the one that is asked for.

    A table that `source.table` names is opened so if delta-rs is there, as Spark may have no reader for Delta.
    """
    source = spec.source
    if source is None or (source.delta is None and (source.table is None or source.reader == "spark")):
        return None
    name = source.delta or str(source.table)
    location = find_delta(spark, name)
    if location is not None and (source.delta is not None or find_spec("deltalake") is not None):
        return open_delta(location, source.version, spec.source_columns, spec.mentioned)
    if source.delta is not None:
        raise SourceError(
            f"source.delta={name!r}: Spark's catalog has no Delta table of that name. Give its directory, or use source.table."
        )
    return None


def _open_files(spec: Spec, spark: Any, frame: Any) -> ParquetSource:
    iceberg = find_iceberg(spark, frame)
    if iceberg is not None:
        if find_spec("pyiceberg") is None:
            raise NotFiles("pyiceberg is not installed")
        return _open_iceberg(spec, spark, iceberg)
    found = list_catalog_files(spark, frame)
    what = "the table"
    files, near = [], dict[str, Store | None]()
    for address, values in found.files:
        root = "/".join(address.split("/", 3)[:3])
        if root not in near:
            near[root] = find_store(spark, root)
        place = locate_file(address, near[root])
        if place is None:
            raise NotFiles("its files are where only Spark can open them")
        store, path = place
        files.append(TableFile(path, store, values))
    columns = [TableColumn(name, kind) for name, kind in found.columns.items()]
    # A partition's value counts, also where files have a column of that name.
    given = {name.lower() for _, values in found.files for name in values}
    stored = _find_names([name for name in found.columns if name.lower() not in given])
    return open_snapshot(what, None, columns, files, stored, spec.source_columns, spec.mentioned)


def _open_iceberg(spec: Spec, spark: Any, table: IcebergTable) -> ParquetSource:
    place = locate_file(table.metadata, find_store(spark, table.metadata))
    if place is None:
        raise NotFiles("its files are where only Spark can open them")
    store, path = place
    address = path if store is None else store.address(path)
    return open_iceberg(address, table.snapshot, spec.source_columns, spec.mentioned, not table.of_snapshot)


def _find_names(columns: Sequence[str]) -> Any:
    """Find a file's columns by their names in any case, as Spark does."""

    def find(footer: Footer) -> dict[str, str]:
        there: dict[str, str] = {}
        for name in footer.schema.names:
            if name.lower() in there:
                raise NotFiles("a file has two columns whose names differ in case alone")
            there[name.lower()] = name
        return {name: there[name.lower()] for name in columns if name.lower() in there}

    return find
