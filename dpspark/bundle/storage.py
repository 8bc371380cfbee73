"""The places of releases: local directories and places in stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpspark.errors import ConfError
from dpspark.source.stores import Store, as_os_errors, as_s3, can_open, local_path, parse_address, problem_with

WITH_DIRECTORIES = ("hdfs", "abfs", "abfss")  # to be made before a file is put there; the others have keys alone


@dataclass(frozen=True)
class StorePath:
    """A place in a store, with those methods of pathlib.Path that a release needs. They raise OSError, as there."""

    store: Store
    key: str

    def __str__(self) -> str:
        return self.store.address(self.key)

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(self.store, f"{self.key}/{name}".lstrip("/"))

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> StorePath:
        return StorePath(self.store, self.key.rpartition("/")[0])

    def absolute(self) -> StorePath:
        return self

    def exists(self) -> bool:
        return self._kind() != "NotFound"

    def is_file(self) -> bool:
        return self._kind() == "File"

    def is_dir(self) -> bool:
        return self._kind() == "Directory"

    def _kind(self) -> str:
        with as_os_errors():
            return str(self.store.files.get_file_info(self._full).type.name)

    @property
    def _full(self) -> str:
        return self.store.full(self.key)

    def open(self, mode: str = "rb") -> Any:
        """Open the file, to read bytes and to go back and forth in them."""
        assert mode == "rb"
        with as_os_errors():
            return self.store.files.open_input_file(self._full)

    def read_bytes(self) -> bytes:
        with as_os_errors(), self.open() as file:
            return file.read()

    def write_bytes(self, content: bytes) -> None:
        """Write the whole file at once: on object stores it is there complete, or not at all."""
        with as_os_errors():
            if self.store.scheme in WITH_DIRECTORIES:
                self.store.files.create_dir(self.parent._full, recursive=True)
            with self.store.files.open_output_stream(self._full) as file:
                file.write(content)

    def unlink(self) -> None:
        with as_os_errors():
            self.store.files.delete_file(self._full)

    def iterdir(self) -> Iterator[StorePath]:
        """Yield what is directly in it; nothing if it is not there."""
        from pyarrow.fs import FileSelector

        with as_os_errors():
            listed = self.store.files.get_file_info(FileSelector(self._full, allow_not_found=True))
        yield from (self / info.base_name for info in sorted(listed, key=lambda info: info.path))

    def remove(self) -> None:
        """Remove it with all that is in it."""
        with as_os_errors():
            self.store.files.delete_dir(self._full)


Place = Path | StorePath


def place_of(path: str | Place) -> Place:
    """Find the place of a path, a file:// address or the address of a store. s3a:// and s3n:// are taken as s3://."""
    if not isinstance(path, str):
        return path
    path = as_s3(path)
    problem = problem_with(path)
    if problem is not None:
        raise ConfError(f"{path!r}: {problem}")
    local = local_path(path)
    if local is not None:
        return Path(local)
    found = parse_address(path)
    if found is None:
        raise ConfError(f"{path!r}: not an address that a release can be at.\n{KNOWN}")
    if not can_open(found[0]):
        raise ConfError(f"{path!r}: pyarrow cannot open {found[0].scheme}:// here.\n{KNOWN}")
    return StorePath(*found)


KNOWN = "Give a local path, or an address that begins with file://, s3://, gs://, abfs://, abfss:// or hdfs://."


def same_place(one: str | Place, other: str | Place) -> bool:
    """Tell whether two paths or addresses are one place."""
    first, second = place_of(one), place_of(other)
    if isinstance(first, Path) and isinstance(second, Path):
        return os.path.realpath(first) == os.path.realpath(second)
    return str(first) == str(second)


def near(place: str | Place) -> str:
    """Write a place for a notebook or a repr: from the working directory on, if it is below."""
    with suppress(OSError):  # that directory may be gone
        return str(place).removeprefix(f"{os.getcwd()}{os.sep}")
    return str(place)
