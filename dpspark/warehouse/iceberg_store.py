"""Result tables in a namespace of an Iceberg catalog, by pyiceberg: a transaction of its own for each table."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import pyarrow as pa

from dpspark.bundle.table_address import TableAddress
from dpspark.errors import DpsparkError, OutputError
from dpspark.warehouse.shapes import NAMED, RELEASES, SHAPES
from dpspark.warehouse.store import TableStore, retrying


class IcebergStore(TableStore):
    """Tables of one namespace. The catalog is found by pyiceberg's own settings (.pyiceberg.yaml, PYICEBERG_CATALOG__…)."""

    def __init__(self, address: TableAddress):
        super().__init__(address)
        try:
            from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError, ValidationException
        except ImportError:
            raise DpsparkError("Iceberg tables need pyiceberg. Run: pip install 'dpspark[lake]'") from None
        self._conflicts = (CommitFailedException, TableAlreadyExistsError, ValidationException)
        self._namespace = address.parts[1:]
        self._catalog = self._load_catalog(address.parts[0])

    def _load_catalog(self, name: str) -> Any:
        from pyiceberg.catalog import load_catalog

        try:
            return load_catalog(name)
        except Exception as error:
            failed = OutputError(
                f"tables {str(self.address)!r}: no catalog {name!r} that pyiceberg can open ({type(error).__name__}).\n"
                f"Write it into .pyiceberg.yaml, or set PYICEBERG_CATALOG__{name.upper()}__URI and the like."
            )
        raise failed

    def prepare(self) -> None:
        with self.saying_where("opening them", _kind):
            if not self._catalog.namespace_exists(self._namespace):
                raise OutputError(
                    f"tables {str(self.address)!r}: the catalog has no namespace {'.'.join(self._namespace)!r}. "
                    "Create it there, or name another."
                )
            for table in SHAPES:
                found = self._open(table) or retrying(partial(self._create, table), self._conflicts)
                self.refuse_shape(table, _types(found.schema()), _types(_schema(table)))
                keys = [found.schema().find_column_name(field.source_id) for field in found.spec().fields]
                if keys != list(NAMED):
                    self.refuse_shape(table, {"partitions": str(keys)}, _types(_schema(table)))

    def _create(self, table: str) -> Any:
        from pyiceberg.partitioning import PartitionField, PartitionSpec
        from pyiceberg.transforms import IdentityTransform

        fields = [PartitionField(i + 1, 1000 + i, IdentityTransform(), name) for i, name in enumerate(NAMED)]
        return self._catalog.create_table_if_not_exists(
            self._identifier(table), _schema(table), partition_spec=PartitionSpec(*fields)
        )

    def _identifier(self, table: str) -> tuple[str, ...]:
        return (*self._namespace, table)

    def _open(self, table: str) -> Any:
        identifier = self._identifier(table)
        return self._catalog.load_table(identifier) if self._catalog.table_exists(identifier) else None

    def _rows(self, table: str, column: str, release: str, version: str) -> list[Any]:
        with self.saying_where("reading them", _kind):
            found = self._open(table)
            if found is None:
                return []
            scan = found.scan(row_filter=_where(release, version), selected_fields=(column,))
            return scan.to_arrow()[column].to_pylist()

    def digest(self, release: str, version: str) -> str | None:
        return next(iter(self._rows(RELEASES, "manifest_sha256", release, version)), None)

    def count(self, table: str, release: str, version: str) -> int:
        return len(self._rows(table, "release", release, version))

    def replace(self, table: str, rows: pa.Table, release: str, version: str) -> None:
        self._write(lambda: self._open(table).overwrite(rows, overwrite_filter=_where(release, version)))

    def remove(self, table: str, release: str, version: str) -> None:
        self._write(lambda: self._open(table).delete(_where(release, version)))

    def _write(self, write: Any) -> None:
        with self.saying_where("writing them", _kind), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there was nothing to be replaced
            retrying(write, self._conflicts)


def _where(release: str, version: str) -> Any:
    from pyiceberg.expressions import And, EqualTo

    return And(EqualTo("release", release), EqualTo("version", version))


def _schema(table: str) -> Any:
    """Write a table's columns as Iceberg has them: each with an id."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, MapType, NestedField, StringType, TimestamptzType

    kinds = {pa.string(): StringType(), pa.float64(): DoubleType(), pa.timestamp("us", tz="UTC"): TimestamptzType()}
    shape = SHAPES[table]
    keys = MapType(len(shape) + 1, StringType(), len(shape) + 2, StringType(), value_required=False)
    return Schema(
        *(
            NestedField(i + 1, field.name, keys if pa.types.is_map(field.type) else kinds[field.type], required=False)
            for i, field in enumerate(shape)
        )
    )


def _types(schema: Any) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in schema.fields}


def _kind(error: Exception) -> str:
    return type(error).__name__
