"""Result tables in a schema of Spark's catalog: Parquet tables of its own catalog, or whatever another catalog makes."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from dpspark.bundle.table_address import TableAddress
from dpspark.errors import OutputError
from dpspark.show.logs import info
from dpspark.spark.failures import condition, failure_of
from dpspark.spark.session import is_connect
from dpspark.spark.settings import hold_settings
from dpspark.warehouse.shapes import LATEST, NAMED, RELEASES, SHAPES, sql_type
from dpspark.warehouse.store import TableStore, columns_of, retrying

SESSION_CATALOG = "spark_catalog"
CONFLICT = re.compile(r"CommitFailed|Validation|^Concurrent|^DeltaConcurrent")
DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}


class SparkStore(TableStore):
    """Tables that are partitioned by release and version."""

    def __init__(self, address: TableAddress, spark: Any):
        super().__init__(address)
        self._spark = spark
        with self.saying_where("asking Spark for its catalog", condition):
            own = spark.catalog.currentCatalog()
        self._parts = (own, *address.parts) if len(address.parts) == 1 else address.parts
        self.is_plain = self._parts[0] == SESSION_CATALOG  # Spark's own: Parquet tables, by partitions

    def _quoted(self, *names: str) -> str:
        return ".".join(quote(name) for name in (*self._parts, *names))

    def prepare(self) -> None:
        """Check all that is there before anything is made."""
        self._check_schema()
        missing = []
        for table in SHAPES:
            with self.saying_where(f"looking for {table}", condition):
                there = self._spark.catalog.tableExists(self._quoted(table))
            if there:
                self._check_table(table)
            else:
                missing.append(table)
        with self.saying_where(f"looking for {LATEST}", condition):
            there = self._spark.catalog.tableExists(self._quoted(LATEST))
        if there:
            self._check_view()
        for table in missing:
            self._sql(f"making {table}", self._definition(table))
        if not there:
            self._make_view()

    def _check_schema(self) -> None:
        shown = ".".join(self._parts)
        try:
            there = self._spark.catalog.databaseExists(self._quoted())
            why = ""
        except Exception as error:
            there, why = False, f" ({condition(error)})"
        if not there:
            raise OutputError(
                f"tables {str(self.address)!r}: Spark's catalog has no schema {shown!r}{why}.\n"
                f"Create it (CREATE SCHEMA {shown}), name another, or check the settings of the catalog {self._parts[0]!r}."
            )

    def _check_table(self, table: str) -> None:
        with self.saying_where(f"reading the columns of {table}", condition):
            found = self._spark.catalog.listColumns(self._quoted(table))
        expected = {field.name: sql_type(field.type) for field in SHAPES[table]}
        self.refuse_shape(table, {column.name: column.dataType for column in found}, expected)
        keys = {column.name for column in found if column.isPartition}
        if self.is_plain and keys != set(NAMED):
            raise OutputError(
                f"{self.name(table)} is not partitioned by release and version.\n"
                "Drop or rename that table, or choose other tables: dpspark load puts any published release back."
            )

    def _check_view(self) -> None:
        with self.saying_where(f"reading the columns of {LATEST}", condition):
            found = self._spark.catalog.listColumns(self._quoted(LATEST))
        expected = {field.name: sql_type(field.type) for field in SHAPES[RELEASES]}
        self.refuse_shape(LATEST, {column.name: column.dataType for column in found}, expected)

    def _definition(self, table: str) -> str:
        fields = list(SHAPES[table])
        columns = ", ".join(f"{quote(field.name)} {sql_type(field.type)}" for field in fields)
        using = "USING parquet " if self.is_plain else ""
        keys = ", ".join(NAMED)
        return f"CREATE TABLE IF NOT EXISTS {self._quoted(table)} ({columns}) {using}PARTITIONED BY ({keys})"

    def _make_view(self) -> None:
        """Make the view of the newest version of each release, by when it was made. Some catalogs have no views."""
        columns = ", ".join(quote(name) for name in columns_of(RELEASES))
        newest = "row_number() OVER (PARTITION BY release ORDER BY created_at DESC, version DESC)"
        query = f"SELECT {columns} FROM (SELECT *, {newest} AS newest FROM {self._quoted(RELEASES)}) WHERE newest = 1"
        try:
            self._spark.sql(f"CREATE VIEW IF NOT EXISTS {self._quoted(LATEST)} AS {query}")
        except Exception as error:
            if self.is_plain:
                raise OutputError(f"{self.name(LATEST)}: Spark cannot make the view ({condition(error)}).") from None
            info(
                "%s: this catalog has no views (%s); docs/tables.md has its query", self.name(LATEST), condition(error)
            )

    def digest(self, release: str, version: str) -> str | None:
        with self.saying_where(f"reading {RELEASES}", condition):
            if not self._spark.catalog.tableExists(self._quoted(RELEASES)):
                return None
            found = self._of(RELEASES, release, version).select("manifest_sha256").collect()
        return found[0][0] if found else None

    def count(self, table: str, release: str, version: str) -> int:
        with self.saying_where(f"reading {table}", condition):
            return self._of(table, release, version).count()

    def _of(self, table: str, release: str, version: str) -> Any:
        frame = self._spark.table(self._quoted(table))
        return frame.where((frame["release"] == release) & (frame["version"] == version))

    def replace(self, table: str, rows: pa.Table, release: str, version: str) -> None:
        with self.saying_where(f"writing {table}", condition):
            if not self.is_plain:
                column = self._column
                where = (column("release") == release) & (column("version") == version)
                retrying(
                    lambda: _commit(lambda: self._frame(rows).writeTo(self._quoted(table)).overwrite(where)), _LATER
                )
                return
            # Partitions are staged apart, so that two releases can be written at once.
            with hold_settings(self._spark, DYNAMIC), self._view(rows) as view:
                columns = ", ".join(quote(name) for name in columns_of(table) if name not in NAMED)
                keys = ", ".join(NAMED)
                self._spark.sql(
                    f"INSERT OVERWRITE TABLE {self._quoted(table)} PARTITION ({keys}) SELECT {columns}, {keys} FROM {view}"
                )

    @property
    def _column(self) -> Any:
        """Spark's function for a column of the table that is written to; a server has its own."""
        if is_connect(self._spark):
            from pyspark.sql.connect.functions import col as remote

            return remote
        from pyspark.sql.functions import col

        return col

    def _frame(self, rows: pa.Table) -> Any:
        schema = ", ".join(f"{quote(field.name)} {sql_type(field.type)}" for field in rows.schema)
        content = [tuple(_value(value) for value in row.values()) for row in rows.to_pylist()]
        return self._spark.createDataFrame(content, schema).coalesce(1)

    @contextmanager
    def _view(self, rows: pa.Table) -> Iterator[str]:
        name = f"dpspark_rows_{uuid.uuid4().hex}"
        self._frame(rows).createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self._spark.catalog.dropTempView(name)

    def remove(self, table: str, release: str, version: str) -> None:
        if self.is_plain:
            key = f"release = {literal(release)}, version = {literal(version)}"
            self._sql(f"emptying {table}", f"ALTER TABLE {self._quoted(table)} DROP IF EXISTS PARTITION ({key})")
            return
        key = f"release = {literal(release)} AND version = {literal(version)}"
        command = f"DELETE FROM {self._quoted(table)} WHERE {key}"
        with self.saying_where(f"emptying {table}", condition):
            retrying(lambda: _commit(lambda: self._spark.sql(command)), _LATER)

    def clear(self, table: str, release: str, version: str) -> None:
        if self.is_plain:
            self.remove(table, release, version)  # cheaper than a look
        else:
            super().clear(table, release, version)

    def _sql(self, doing: str, command: str) -> None:
        with self.saying_where(doing, condition):
            self._spark.sql(command)


class _Conflict(Exception):
    """Another writer came first."""


_LATER = (_Conflict,)


def _commit(write: Callable[[], Any]) -> None:
    """Write in the catalog's own transaction. Iceberg and Delta have their own names for a lost race."""
    try:
        write()
    except Exception as error:
        if not any(CONFLICT.search(kind) for kind in failure_of(error).kinds):
            raise
        raise _Conflict(condition(error)) from None


def _value(value: Any) -> Any:
    return dict(value) if isinstance(value, list) else value  # Arrow's maps are lists of pairs


def quote(name: str) -> str:
    """Write a name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(value: str) -> str:
    """Write a text in Spark's SQL, whose literals have escapes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
