"""Delta tables: the table's log is read on the driver by delta-rs (the library deltalake), the data files by tasks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from dpspark.errors import ConfError, SourceError
from dpspark.source.column_types import Column
from dpspark.source.footers import Footer
from dpspark.source.lake_table import OTHER_WAY, TableColumn, TableFile, needs_library, open_snapshot
from dpspark.source.listing import NothingThere
from dpspark.source.parquet import ParquetSource
from dpspark.source.stores import ADDRESS, Store, local_path, locate_file, parse_address
from dpspark.source.table_rows import Snapshot

# Of a table's protocol: what a reader must know, and is known here. Types are compared file by file anyway.
FEATURES = (
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
)
SPARK = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}  # the other names are Spark's own
NAMED = re.compile(r"(`[^`/]+`|[^\s/.`]+)(\.(`[^`/]+`|[^\s/.`]+))+")
PHYSICAL, FIELD_ID, MODE = (f"delta.columnMapping.{name}" for name in ("physicalName", "id", "mode"))


def is_table_name(text: str) -> bool:
    """Tell whether source.delta is a table of Spark's catalog (schema.table), and not a path: ./schema.table is one."""
    return NAMED.fullmatch(text) is not None


def refuse_both(text: str) -> None:
    """Refuse the name of a catalog's table if there is a directory of that name as well."""
    if is_table_name(text) and os.path.isdir(os.path.join(text, "_delta_log")):
        raise SourceError(
            f"source.delta={text!r} is the name of a catalog's table, and a directory here is a Delta table of that name.\n"
            f"Write ./{text} for the directory, or source.table for the catalog's."
        )


def open_delta(
    location: str, version: int | None, columns: Sequence[Column], mentioned: Mapping[str, set[str]]
) -> ParquetSource:
    """Open a version of the table at a path or an address: the newest, unless one is given. It is pinned here."""
    store, path = _place(location)
    what = f"source.delta={location if store is None else store.shown(path)!r}"
    table = _load(what, location, store, path, version)
    _check_features(what, table)
    fields = json.loads(table.schema().to_json())["fields"]
    mode = table.metadata().configuration.get(MODE, "none")
    snapshot = Snapshot("delta", int(table.version()), str(table.metadata().id))
    partitions = table.metadata().partition_columns
    schema = [_column(field, field["name"] in partitions) for field in fields]
    with _log_errors(what):
        files = list(_files(what, table, store, schema, partitions))

    def stored(footer: Footer) -> dict[str, str]:
        return _stored_names(what, [field for field in fields if field["name"] not in partitions], mode, footer)

    return open_snapshot(what, snapshot, schema, files, stored, columns, mentioned)


def _place(location: str) -> tuple[Store | None, str]:
    local = local_path(location)
    found = (None, os.path.abspath(local)) if local is not None else parse_address(location)
    if found is None:
        raise SourceError(
            f"source.delta={location!r}: only Spark knows that file system.\n"
            f"Write s3:// for s3a://. Otherwise: {OTHER_WAY}"
        )
    # The library decodes the first once too often, and encodes the second once too often.
    if re.search("%[0-9A-Fa-f]{2}" if found[0] is None else r"""[^!-~]|["#%<>?`{}]""", found[1]):
        raise SourceError(
            f"source.delta={location!r}: the library deltalake cannot open a table with such characters in its path, and could "
            f"read another one.\nRename the directory. Otherwise: {OTHER_WAY}"
        )
    return found


def _load(what: str, location: str, store: Store | None, path: str, version: int | None) -> Any:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError:
        raise ConfError(needs_library("delta", "deltalake")) from None
    if store is None:
        try:
            os.listdir(path)
        except (FileNotFoundError, NotADirectoryError):
            raise NothingThere(
                f"{what}: no such directory. Check the path, and where the job runs.{_catalog_hint(location)}"
            ) from None
        except OSError as error:
            raise SourceError(f"{what}: it cannot be listed ({error.strerror}). Check its permissions.") from None
    address = Path(path).as_uri() if store is None else store.shown(path)
    options = None if store is None else _options(store)
    try:
        return DeltaTable(address, version=version, storage_options=options)
    except TableNotFoundError:
        raise NothingThere(f"{what}: no Delta table there (no _delta_log with a version). Check the path.") from None
    except (DeltaError, OSError) as error:
        failed = str(error)
    if version is not None:
        try:
            newest = DeltaTable(address, storage_options=options).version()
        except (DeltaError, OSError):
            pass  # then the version is not what is wrong
        else:
            raise SourceError(
                f"{what}: version {version} cannot be read; the newest is {newest}. Old ones go when the log is cleaned up.\n"
                "Choose another source.version, or leave it out for the newest."
            )
    unknown = re.search(r"[Ff]eature '?(\w[\w-]*)'? is not supported", failed)
    if unknown is not None or "catalog-managed" in failed:
        raise _unknown_feature(what, "catalogManaged" if unknown is None else unknown[1])
    raise _unreadable_log(what)


def _catalog_hint(location: str) -> str:
    return "\nA table of Spark's catalog is written with its schema: default.people." if "/" not in location else ""


def _unreadable_log(what: str) -> SourceError:
    # Without the library's text, which may quote the log: it has values.
    return SourceError(
        f"{what}: its log cannot be read. Check who may read it, its keys and region, and that all of the log is there.\n"
        f"Otherwise: {OTHER_WAY}"
    )


@contextmanager
def _log_errors(what: str) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
        return
    except (DeltaError, OSError, pa.ArrowException):
        failed = _unreadable_log(what)
    raise failed


def _options(store: Store) -> dict[str, str]:
    """Say to delta-rs what pyarrow is told. It finds keys in the environment by itself."""
    if store.scheme != "s3":
        return {}
    given = dict(store.options)
    found = given if "endpoint_override" in given else {**dict(store.environment), **given}
    region = found.get("region") or dict(store.environment).get("region")
    options = {} if region is None else {"AWS_REGION": region}
    if "endpoint_override" in found:
        scheme = found.get("scheme", "https")
        options |= {"AWS_ENDPOINT_URL": f"{scheme}://{found['endpoint_override']}"}
        options |= {"AWS_ALLOW_HTTP": "true"} if scheme == "http" else {}
    return options


def _check_features(what: str, table: Any) -> None:
    protocol = table.protocol()
    if protocol.min_reader_version > 3:
        raise _unknown_feature(what, f"reader version {protocol.min_reader_version}")
    for feature in protocol.reader_features or ():
        if feature not in FEATURES:
            raise _unknown_feature(what, feature)


def _unknown_feature(what: str, feature: str) -> SourceError:
    return SourceError(f"{what}: the table needs {feature!r} of its readers, which dpspark does not have.\n{OTHER_WAY}")


def _column(field: Mapping[str, Any], in_partitions: bool) -> TableColumn:
    """Read a column of the schema. Nested types have no name, and cannot be read by tasks."""
    kind = field["type"] if isinstance(field["type"], str) else f"{field['type'].get('type', 'nested')}<…>"
    kind = SPARK.get(kind, kind)
    problem = None
    if in_partitions and kind in ("timestamp", "binary"):
        why = "without their time zone" if kind == "timestamp" else "as text that writers write in several ways"
        problem = f"the table is partitioned by it, and the log has its values {why}"
    return TableColumn(field["name"], kind.replace(" ", ""), problem=problem)


def _stored_names(what: str, fields: Sequence[Mapping[str, Any]], mode: str, footer: Footer) -> dict[str, str]:
    """Find the table's columns in a file: by name, by the physical name, or by the field id."""
    if mode == "id":
        ids = footer.field_ids
        if not ids:
            raise SourceError(
                f"{what}: {footer.shown} has no field ids, and the table's columns go by them.\n{OTHER_WAY}"
            )
        numbers = {field["name"]: field["metadata"].get(FIELD_ID) for field in fields}
        return {name: ids[number] for name, number in numbers.items() if number in ids}
    if mode not in ("none", "name"):
        raise SourceError(f"{what}: {MODE} is {mode!r}, which dpspark does not know.\n{OTHER_WAY}")
    physical = {
        field["name"]: field["metadata"][PHYSICAL] if mode == "name" else field["name"]
        for field in fields
        if mode == "none" or PHYSICAL in field["metadata"]
    }
    return {name: stored for name, stored in physical.items() if stored in footer.schema.names}


def _files(
    what: str, table: Any, store: Store | None, schema: Sequence[TableColumn], partitions: Sequence[str]
) -> Iterator[TableFile]:
    actions = pa.table(table.get_add_actions(flatten=True))
    kinds = {column.name: column for column in schema}
    given = {name: _plain(actions[f"partition.{name}"]) for name in partitions if kinds[name].problem is None}
    root = str(table.table_uri).rstrip("/")
    gone = _deleted_rows(table, store)
    for at, path in enumerate(actions["path"].to_pylist()):
        # Paths in the log are percent-encoded, and relative to the table unless they have a scheme.
        address = unquote(path if ADDRESS.fullmatch(path) or path.startswith("file:/") else f"{root}/{path}")
        place = locate_file(address, store)
        if place is None:
            raise SourceError(f"{what}: its log names files on a file system that only Spark knows.\n{OTHER_WAY}")
        values = {name: values[at] for name, values in given.items()}
        yield TableFile(place[1], place[0], values, gone.pop(place, None))
    if gone:  # rows that are deleted would count
        raise SourceError(f"{what}: deleted rows of files that the version does not have.\n{OTHER_WAY}")


def _plain(values: Any) -> list[Any]:
    """List values, dates and times as numbers: Python has not all of them."""
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32()).to_pylist()
    return values.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(values.type) else values.to_pylist()


def _deleted_rows(table: Any, store: Store | None) -> dict[Any, np.ndarray]:
    """Find the positions of the deleted rows of each file that has some, by where the file is."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    found = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for path, keep in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            found[locate_file(unquote(path), store)] = np.flatnonzero(~keep.values.to_numpy(zero_copy_only=False))
    return found
