"""Stamps tell a file from another one that took its place, and from itself before it was written to."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from dpspark.source.stores import Store, as_os_errors

CHANGED = (
    "changed while it was read. Nothing was released.\n"
    "Run the same release again when the source is at rest: its budget stays reserved, and it costs nothing more."
)
GONE = (
    "was vacuumed or replaced while it was read. Nothing was released.\n"
    "Run the same release again: its budget stays reserved, and it costs nothing more. Keep the files of a snapshot for as "
    "long as a release reads it."
)
EXPIRED = (
    "has expired, or its files were deleted, while it was read. Nothing was released.\n"
    "Run the same release again: its budget stays reserved, and it costs nothing more. Keep a snapshot, with its files, for as "
    "long as a release reads it."
)


class SourceChanged(Exception):
    """A file is not the one that was listed. The text of the error is the file's path, for messages."""


@dataclass(frozen=True)
class Stamp:
    """The marks that tell one state of a file from another, without reading it.

    `here` can be compared only on the machine that listed the file: on some shared file systems, inodes and times of their
    change differ between machines.
    """

    size: int
    version: str
    here: str = ""

    def is_of(self, other: Stamp, here: bool) -> bool:
        return (self.size, self.version) == (other.size, other.version) and (not here or self.here == other.here)


def open_stamped(store: Store | None, path: str) -> tuple[Any, Stamp]:
    """Give what pyarrow opens as Parquet, and its stamp. OSError if that fails; FileNotFoundError if nothing is there."""
    if store is None:
        found = os.stat(path)
        return path, Stamp(found.st_size, str(found.st_mtime_ns), f"{found.st_ino} {found.st_ctime_ns}")
    with as_os_errors():
        if store.scheme != "s3":
            info = store.files.get_file_info(store.full(path))
            return store.files.open_input_file(store.full(path)), Stamp(info.size or 0, str(info.mtime_ns))
        file = store.files.open_input_file(store.full(path))
        facts = file.metadata() or {}
        # An ETag changes with the bytes, and the time with every writing.
        return file, Stamp(file.size(), f"{_text(facts.get('ETag'))} {_text(facts.get('Last-Modified'))}")


def _text(value: bytes | str | None) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value or ""


def layout_of(metadata: Any) -> str:
    """Hash where a footer says that rows are. It is the same for any version of the library."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    facts = [
        metadata.serialized_size,
        metadata.num_rows,
        *((group.num_rows, group.total_byte_size) for group in groups),
    ]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
