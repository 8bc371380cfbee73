"""The columns of Parquet files, by the schemas in their footers: names and types.

A footer also has statistics of each row group (smallest, largest, nulls, rows): they are data, and nothing here looks at them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from dpspark.errors import SourceError
from dpspark.show.progress import Loop, tell
from dpspark.source.footers import read_footer
from dpspark.source.listing import NothingThere, find_files, find_objects
from dpspark.source.parquet import ASKED_AT_ONCE, OPENED_AT_ONCE
from dpspark.source.stores import Store, can_open, local_path, parse_address


@dataclass(frozen=True)
class SourceColumn:
    """One column over all files. A column that comes from directories' names (key=value) has no type."""

    name: str
    types: tuple[Any, ...]  # Arrow's; more than one if files differ
    in_all: bool = True
    twice: bool = False  # in one file

    @property
    def of_directories(self) -> bool:
        return not self.types


def list_columns(path: str) -> list[SourceColumn]:
    """List the columns under a path or a glob, in the order of the first file."""
    store, root = _where(path)
    try:
        _, found = find_files(root) if store is None else find_objects(store, root)
    except OSError as error:
        reason = error.strerror or f"it cannot be listed ({type(error).__name__})"
        raise NothingThere(f"source.parquet={path!r}: {reason}. Check its permissions.") from None
    schemas = []
    with ThreadPoolExecutor(OPENED_AT_ONCE if store is None else ASKED_AT_ONCE) as pool:
        for schema in pool.map(lambda item: read_footer(store, item[0]).schema, found):
            schemas.append(schema)
            tell(Loop("files", len(schemas), len(found)))
    of_directories = dict.fromkeys(key for _, directories in found for key in directories)
    in_files = dict.fromkeys(name for schema in schemas for name in schema.names if name not in of_directories)
    return [
        *(_over_all(name, schemas) for name in in_files),
        *(SourceColumn(name, ()) for name in of_directories),
    ]


def _where(path: str) -> tuple[Store | None, str]:
    local = local_path(path)
    if local is not None:
        return None, local
    found = parse_address(path)
    if found is None or not can_open(found[0]):
        raise SourceError(
            f"source.parquet={path!r} cannot be looked at from here: only Spark knows that file system.\n"
            "Copy one file to a local disk and give that; then write the address into the conf."
        )
    return found


def _over_all(name: str, schemas: list[Any]) -> SourceColumn:
    at = [schema.get_all_field_indices(name) for schema in schemas]
    types = dict.fromkeys(schema.field(i).type for schema, of in zip(schemas, at, strict=True) for i in of)
    return SourceColumn(name, tuple(types), all(at), any(len(of) > 1 for of in at))
