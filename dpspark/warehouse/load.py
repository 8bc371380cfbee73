"""Load published releases into the result tables of a warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from dpspark.bundle.storage import Place
from dpspark.bundle.table_address import TableAddress, parse_tables
from dpspark.errors import ConfError, OutputError
from dpspark.published.reading import read_release
from dpspark.published.release import Release
from dpspark.spark.session import is_connect, is_own, silence_logs, spark_session, use_session
from dpspark.warehouse.rows import rows_of
from dpspark.warehouse.store import TableStore


@dataclass(frozen=True)
class Loaded:
    """What a load did: how many rows the release has in each table, and whether they were put there now."""

    tables: dict[str, int]
    new: bool


def load(release: str | Place | Release, tables: str, spark: Any = None, *, replace: bool = False) -> Loaded:
    """Put a published release into tables: `catalog.schema` of Spark, `delta:DIRECTORY` or `iceberg:catalog.namespace`.

    A release that is there already is left as it is. `replace` writes it again, also in place of another release of the same
    name and version. `spark` is a session, or the sc:// URL of a Spark Connect server; only tables of Spark's catalog need it.
    """
    address = find_address(tables)
    if spark is not None and not address.needs_spark:
        raise ConfError(f"tables {str(address)!r} need no Spark. Leave spark out.")
    found = release if isinstance(release, Release) else read_release(release)
    with open_tables(address, spark) as store:
        return load_into(store, found, replace)


def find_address(tables: str) -> TableAddress:
    try:
        return parse_tables(tables)
    except ValueError as error:
        raise ConfError(f"tables: {error}") from None


def load_into(store: TableStore, release: Release, replace: bool = False) -> Loaded:
    """Put a release into tables that are open."""
    rows = rows_of(release)
    new = store.load(rows, replace)
    return Loaded({store.name(name): table.num_rows for name, table in rows.tables.items() if table.num_rows}, new)


@contextmanager
def open_tables(address: TableAddress, spark: Any = None) -> Iterator[TableStore]:
    """Open the tables, with a Spark session if they are in its catalog: the one given, the running one, or one of our own."""
    with ExitStack() as stack:
        if address.needs_spark:
            given = spark is not None and not isinstance(spark, str)
            if not given:
                spark = stack.enter_context(spark_session("dpspark tables", remote=spark))
            stack.enter_context(use_session(spark))
            stack.enter_context(silence_logs(spark))
            if not given:
                refuse_forgetful(address, spark)
        yield table_store(address, spark)


def table_store(address: TableAddress, spark: Any) -> TableStore:
    """Make the store for an address; `spark` is a session if the tables are in its catalog."""
    if address.kind == "delta":
        from dpspark.warehouse.delta_store import DeltaStore

        return DeltaStore(address)
    if address.kind == "iceberg":
        from dpspark.warehouse.iceberg_store import IcebergStore

        return IcebergStore(address)
    from dpspark.warehouse.spark_store import SparkStore

    return SparkStore(address, spark)


def refuse_forgetful(address: TableAddress, spark: Any) -> None:
    """Refuse a catalog in the memory of a Spark that dpspark started: its tables would be gone when this ends."""
    from dpspark.warehouse.spark_store import SESSION_CATALOG

    if is_connect(spark) or not is_own(spark):
        return
    own = len(address.parts) == 1 or address.parts[0] == SESSION_CATALOG
    if own and spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
        raise OutputError(
            f"tables {str(address)!r}: this Spark keeps its catalog in memory, and tables in it end with this run.\n"
            "Set spark.sql.catalogImplementation=hive, use a catalog of its own, or tables of delta:DIRECTORY."
        )
