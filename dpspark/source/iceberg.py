"""Iceberg tables: metadata, manifests and deletes are read on the driver by pyiceberg, the data files by tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpspark.errors import ConfError, SourceError
from dpspark.source.column_types import Column
from dpspark.source.footers import Footer
from dpspark.source.lake_table import OTHER_WAY, TableColumn, TableFile, needs_library, open_snapshot
from dpspark.source.listing import NothingThere, mask_path
from dpspark.source.parquet import ParquetSource
from dpspark.source.stores import Store, local_path, locate_file, parse_address
from dpspark.source.table_rows import Snapshot

METADATA = ".metadata.json"
SPARK = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
SAME = ("boolean", "int", "float", "double", "date", "string", "binary")
NAME_MAPPING = "schema.name-mapping.default"
PLAIN_DEFAULTS = {"boolean": bool, "int": int, "bigint": int, "float": float, "double": float, "string": str}


def is_metadata_path(text: str) -> bool:
    """Tell whether source.iceberg is a metadata.json, or a table's directory, and not catalog.db.table."""
    return "/" in text or text.endswith(METADATA)


def open_iceberg(
    name: str,
    snapshot: int | None,
    columns: Sequence[Column],
    mentioned: Mapping[str, set[str]],
    columns_of_table: bool = False,
) -> ParquetSource:
    """Open a snapshot of a table: the newest, unless one is given. It is pinned here.

    One that is given has the columns of its time, unless those that the table has now are asked for.
    """
    what = f"source.iceberg={name!r}"
    table = _load(what, name)
    chosen = _choose(what, table, snapshot)
    schema = _schema_of(what, table, None if snapshot is None or columns_of_table else chosen)
    stored = _FieldIds(what, {field.field_id: field.name for field in schema.fields}, table.name_mapping())
    pinned = Snapshot("iceberg", None if chosen is None else int(chosen.snapshot_id), str(table.metadata.table_uuid))
    fields = [_column(field) for field in schema.fields]
    files: Iterable[TableFile] = ()
    if chosen is not None:
        try:
            with _library_errors(what):
                files = list(_files(what, table, schema, int(chosen.snapshot_id)))
        except FileNotFoundError:
            raise SourceError(
                f"{what}: the list of the snapshot's files is not there: the snapshot has expired, or was moved.\n"
                "Read a newer snapshot of the table."
            ) from None
    return open_snapshot(what, pinned, fields, list(files), stored, columns, mentioned)


def _load(what: str, name: str) -> Any:
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
        from pyiceberg.table import StaticTable
    except ImportError:
        raise ConfError(needs_library("iceberg", "pyiceberg")) from None
    if is_metadata_path(name):
        location, properties = _metadata_place(what, name)
        try:
            with _library_errors(what):
                return StaticTable.from_metadata(location, properties)
        except FileNotFoundError:
            raise NothingThere(
                f"{what}: no Iceberg metadata there. Give catalog.db.table, or the path of the newest file *{METADATA} in the "
                "table's directory metadata."
            ) from None
    catalog, _, rest = name.partition(".")
    if not catalog or "." not in rest.strip("."):
        raise SourceError(f"{what}: expected catalog.db.table, or the path of a {METADATA[1:]}.")
    try:
        loaded = load_catalog(catalog)
    except Exception as error:  # a wrong setting, or one of many libraries
        raise SourceError(
            f"{what}: the catalog {catalog!r} cannot be opened ({type(error).__name__}). It is looked up as pyiceberg does: in "
            f".pyiceberg.yaml, or in PYICEBERG_CATALOG__{catalog.upper()}__URI and the like."
        ) from None
    try:
        with _library_errors(what):
            return loaded.load_table(rest)
    except (NoSuchTableError, NoSuchNamespaceError):
        raise NothingThere(f"{what}: no such table in the catalog {catalog!r}. Check its name.") from None
    except FileNotFoundError:
        raise SourceError(
            f"{what}: the catalog has it, but its metadata is not there. Check who may read it."
        ) from None


@contextmanager
def _library_errors(what: str) -> Iterator[None]:
    """Refuse what the library cannot do. Its texts may quote values of partitions: only the kind of its error is shown."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        yield
        return
    except (SourceError, ConfError, NoSuchTableError, NoSuchNamespaceError, FileNotFoundError):
        raise
    except Exception as error:
        equality = "equality deletes" in str(error)
        why = (
            "equality deletes, which pyiceberg cannot read"
            if equality
            else f"pyiceberg failed ({type(error).__name__})"
        )
        failed = SourceError(f"{what}: {why}.\n{OTHER_WAY}")
    raise failed


def _metadata_place(what: str, name: str) -> tuple[str, dict[str, str]]:
    """Say where the metadata is, and what pyiceberg must know of the store."""
    local = local_path(name)
    if local is not None:
        return os.path.abspath(local), {}
    found = parse_address(name)
    if found is None:
        raise SourceError(f"{what}: only Spark knows that file system.\nWrite s3:// for s3a://. Otherwise: {OTHER_WAY}")
    store, key = found
    known = {**dict(store.environment), **dict(store.options)}
    properties = {"s3.region": known["region"]} if known.get("region") else {}
    if "endpoint_override" in known:
        properties["s3.endpoint"] = f"{known.get('scheme', 'https')}://{known['endpoint_override']}"
    return store.shown(key), properties


def _choose(what: str, table: Any, number: int | None) -> Any:
    """Find the snapshot that is read; None for a table that was never written to."""
    if number is None:
        return table.metadata.current_snapshot()
    chosen = table.metadata.snapshot_by_id(number)
    if chosen is None:
        raise SourceError(
            f"{what}: it has no snapshot {number}: it never had, or that one has expired.\n"
            "Choose another source.snapshot, or leave it out for the newest."
        )
    return chosen


def _schema_of(what: str, table: Any, chosen: Any) -> Any:
    """Find the schema of a snapshot that is asked for; otherwise the table's own, which may be newer than its rows."""
    if chosen is None or chosen.schema_id is None:
        return table.schema()
    found = table.schemas().get(chosen.schema_id)
    if found is None:
        raise SourceError(f"{what}: the schema of that snapshot is no longer in the table's metadata.\n{OTHER_WAY}")
    return found


def _column(field: Any) -> TableColumn:
    text = str(field.field_type).replace(" ", "")
    kind = SPARK.get(text, text)
    if text.startswith("fixed["):
        kind = "binary"
    elif kind == text and not text.startswith("decimal(") and text not in SAME:
        kind = f"Iceberg's {text.partition('<')[0]}"
    default, problem = field.initial_default, None
    if default is not None and not isinstance(default, PLAIN_DEFAULTS.get(kind, ())):
        problem = "it has a default other than null, of a type that dpspark does not read"
    return TableColumn(field.name, kind, default, problem)


class _FieldIds:
    """The names of the table's columns in a file, by field ids; or where a file has none, by the table's mapping of names."""

    def __init__(self, what: str, names: Mapping[int, str], mapping: Any):
        self.what, self.names = what, names
        self.mapped = {name: field.field_id for field in mapping or () for name in field.names}

    def __call__(self, footer: Footer) -> dict[str, str]:
        ids = footer.field_ids
        if not ids:
            ids = {self.mapped[name]: name for name in footer.schema.names if self.mapped.get(name) is not None}
        if not ids:
            raise SourceError(
                f"{self.what}: {footer.shown} has no field ids, and the table no {NAME_MAPPING}: its columns cannot be told."
                f"\n{OTHER_WAY}"
            )
        return {self.names[number]: name for number, name in ids.items() if number in self.names}


def _files(what: str, table: Any, schema: Any, snapshot: int) -> Iterator[TableFile]:
    near = _near(table)
    names = {field.field_id: field.name for field in schema.fields}
    specs = table.specs()
    deletes = _Deletes(what, table.io)
    for task in table.scan(snapshot_id=snapshot).plan_files():
        file = task.file
        _check_file(what, file, "PARQUET")
        place = locate_file(file.file_path, near)
        if place is None:
            raise SourceError(f"{what}: it has files on a file system that only Spark knows.\n{OTHER_WAY}")
        values = {
            names[field.source_id]: file.partition[at]
            for at, field in enumerate(specs[file.spec_id].fields)
            if str(field.transform) == "identity" and field.source_id in names
        }
        gone = [deletes.of(delete, file.file_path) for delete in task.delete_files]
        yield TableFile(place[1], place[0], values, np.concatenate(gone) if gone else None)


def _near(table: Any) -> Store | None:
    """Take the store's settings that are no secret from the catalog's."""
    properties = table.io.properties
    options = {}
    if properties.get("s3.endpoint"):
        endpoint = urlparse(properties["s3.endpoint"])
        options = {"endpoint_override": endpoint.netloc.rpartition("@")[2], "scheme": endpoint.scheme}
    region = properties.get("s3.region") or properties.get("client.region")
    options |= {} if region is None else {"region": region}
    return Store("s3", "", tuple(sorted(options.items()))) if options else None


def _check_file(what: str, file: Any, *formats: str) -> None:
    kind = str(getattr(file.file_format, "value", file.file_format)).upper()
    if kind not in formats:
        raise SourceError(f"{what}: it has files of the format {kind}, which tasks cannot read.\n{OTHER_WAY}")
    if file.key_metadata is not None:
        raise SourceError(f"{what}: its files are encrypted.\n{OTHER_WAY}")


class _Deletes:
    """The positions in delete files, each of which is read once, and may be for many data files."""

    def __init__(self, what: str, io: Any):
        self.what, self.io = what, io
        self.read: dict[str, Mapping[str, np.ndarray]] = {}

    def of(self, delete: Any, path: str) -> np.ndarray:
        if delete.file_path not in self.read:
            _check_file(self.what, delete, "PARQUET", "PUFFIN")
            try:
                with self.io.new_input(delete.file_path).open() as file:
                    content = pa.BufferReader(file.read())
            except FileNotFoundError:
                raise SourceError(
                    f"{self.what}: {mask_path(delete.file_path)} is not there, though the snapshot has it: it was removed.\n"
                    "Read a newer snapshot of the table."
                ) from None
            is_parquet = str(getattr(delete.file_format, "value", delete.file_format)).upper() == "PARQUET"
            self.read[delete.file_path] = _of_parquet(content) if is_parquet else _of_puffin(content.read())
        return self.read[delete.file_path].get(path, np.empty(0, "<i8"))


def _of_parquet(content: Any) -> dict[str, np.ndarray]:
    table = pq.read_table(content, columns=["file_path", "pos"])
    paths = table["file_path"].combine_chunks().dictionary_encode()
    positions = table["pos"].combine_chunks()
    return {
        path: positions.filter(pc.equal(paths.indices, at)).to_numpy(zero_copy_only=False).astype("<i8")
        for at, path in enumerate(paths.dictionary.to_pylist())
    }


def _of_puffin(content: bytes) -> dict[str, np.ndarray]:
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    puffin = PuffinFile(content)
    found = {
        vector.referenced_data_file: vector.to_vector().to_numpy().astype("<i8")
        for vector in deletion_vectors_from_puffin_file(puffin)
    }
    for blob in puffin.footer.blobs:
        stated = blob.properties.get("cardinality")
        if stated is not None and int(stated) != len(found[blob.properties["referenced-data-file"]]):
            raise ValueError("a deletion vector is damaged")
    return found
