"""Result tables as Delta tables in one directory, by delta-rs: a transaction of its own for each table."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from dpspark.bundle.table_address import TableAddress
from dpspark.errors import DpsparkError
from dpspark.source.stores import local_path, parse_address
from dpspark.warehouse.shapes import NAMED, RELEASES, SHAPES, text
from dpspark.warehouse.store import TableStore, retrying


class DeltaStore(TableStore):
    """One table in each subdirectory."""

    def __init__(self, address: TableAddress):
        super().__init__(address)
        try:
            import deltalake
            from deltalake.exceptions import CommitFailedError, TableNotFoundError
        except ImportError:
            raise DpsparkError("Delta tables need deltalake. Run: pip install 'dpspark[lake]'") from None
        self._lib, self._conflicts, self._missing = deltalake, (CommitFailedError,), TableNotFoundError
        self._root, self._options = _place(address.parts[0])

    def name(self, table: str) -> str:
        return f"{self._root}/{table}"

    def prepare(self) -> None:
        with self.saying_where("opening them", _kind):
            for table, shape in SHAPES.items():
                found = self._open(table)
                if found is None:
                    found = self._create(table, shape)
                expected = self._types(self._lib.Schema.from_arrow(shape))
                self.refuse_shape(table, self._types(found.schema()), expected)
                if list(found.metadata().partition_columns) != list(NAMED):
                    self.refuse_shape(table, {"partitions": str(found.metadata().partition_columns)}, expected)

    def _create(self, table: str, shape: pa.Schema) -> Any:
        def create() -> Any:
            self._lib.DeltaTable.create(
                self.name(table), shape, mode="ignore", partition_by=list(NAMED), storage_options=self._options
            )
            return self._open(table)

        return retrying(create, self._conflicts)

    def _open(self, table: str) -> Any:
        try:
            return self._lib.DeltaTable(self.name(table), storage_options=self._options)
        except self._missing:
            return None

    @staticmethod
    def _types(schema: Any) -> dict[str, str]:
        return {field.name: _type_name(field.type) for field in schema.fields}

    def _rows(self, table: str, column: str, release: str, version: str) -> list[Any]:
        """Read one column of a release."""
        with self.saying_where("reading them", _kind):
            found = self._open(table)
            if found is None:
                return []
            # Whatever the release is called, it is a value here and not SQL.
            named = [("release", "=", release), ("version", "=", version)]
            return found.to_pyarrow_table(partitions=named, columns=[column])[column].to_pylist()

    def digest(self, release: str, version: str) -> str | None:
        return next(iter(self._rows(RELEASES, "manifest_sha256", release, version)), None)

    def count(self, table: str, release: str, version: str) -> int:
        return len(self._rows(table, "release", release, version))

    def replace(self, table: str, rows: pa.Table, release: str, version: str) -> None:
        def write() -> None:
            self._lib.write_deltalake(
                self.name(table),
                rows,
                mode="overwrite",
                predicate=_where(release, version),
                storage_options=self._options,
            )

        with self.saying_where("writing them", _kind):
            retrying(write, self._conflicts)

    def remove(self, table: str, release: str, version: str) -> None:
        with self.saying_where("writing them", _kind):
            retrying(lambda: self._open(table).delete(_where(release, version)), self._conflicts)


def _where(release: str, version: str) -> str:
    return f"release = {text(release)} and version = {text(version)}"


def _type_name(kind: Any) -> str:
    if hasattr(kind, "key_type"):
        return f"map<{_type_name(kind.key_type)},{_type_name(kind.value_type)}>"
    return str(kind.type)


def _kind(error: Exception) -> str:
    return type(error).__name__


def _place(place: str) -> tuple[str, dict[str, str]]:
    """Find the address that delta-rs opens, and its options. Keys are where the store's own tools look."""
    local = local_path(place)
    if local is not None:
        return os.path.abspath(local), {}
    found = parse_address(place)
    if found is None:
        return place.rstrip("/"), {}
    store, key = found
    options = {**dict(store.environment), **dict(store.options)} if store.scheme == "s3" else {}
    settings = {}
    if options.get("endpoint_override"):
        scheme = options.get("scheme", "https")
        settings["AWS_ENDPOINT_URL"] = f"{scheme}://{options['endpoint_override']}"
        settings["AWS_ALLOW_HTTP"] = str(scheme == "http").lower()
    if options.get("region"):
        settings["AWS_REGION"] = options["region"]
    return store.shown(key).rstrip("/"), settings
