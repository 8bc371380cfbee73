"""The data files under a path or a glob, on local disks and in stores."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from dpspark.errors import SourceError
from dpspark.source.lakes import follow_links, look_among, look_in_store, look_on_disk, refuse_lake_files
from dpspark.source.stores import Store, as_os_errors


class NothingThere(SourceError):
    """There are no files, as seen from here."""


Found = tuple[str, list[tuple[str, dict[str, str]]]]  # the root; each file, with its directories' key=value pairs


def find_files(path: str) -> Found:
    """Find the data files under a path or glob, each with its directories' key=value pairs; and the root."""
    root = path if os.path.exists(path) else _fixed_part(path)
    matches = [path] if os.path.exists(path) else [m for m in glob.glob(path, recursive=True) if os.path.exists(m)]
    if not matches:
        raise NothingThere(
            f"source.parquet={path!r}: no such file or directory. Check the path, and where the job runs."
        )
    files: dict[Any, str] = {}
    folders: dict[str, str] = {}  # the places of directories, whatever links lead to them
    below = _Below(root)
    for match in matches:
        for file in _walk(match) if os.path.isdir(match) else [match]:
            if file == path or not _is_hidden(below.path(file)):
                identity = _identify(file, folders)
                if identity is not None or file == path:
                    # A file reached twice (by links, or a glob that matches it and its directory) would count its rows twice.
                    files.setdefault(identity, file)
    places = {os.path.dirname(file) for file in files.values()}.union(filter(os.path.islink, files.values()))
    reached = (way for place in sorted(places or matches) for way in follow_links(place))
    refuse_lake_files(f"source.parquet={path!r}", reached, look_on_disk)
    if not files:
        raise _nothing_in(path)
    return root, [(file, _directory_values(below.path(file))) for file in sorted(files.values())]


class _Below:
    """Paths below a directory. Each directory is looked at once: there may be many thousands of files."""

    def __init__(self, root: str):
        self.root, self.folders = root, dict[str, str]()

    def path(self, file: str) -> str:
        folder, name = os.path.split(file)
        if folder not in self.folders:
            self.folders[folder] = os.path.relpath(folder or ".", self.root)
        here = self.folders[folder]
        return name if here == "." else os.path.join(here, name)


def _identify(file: str, folders: dict[str, str]) -> Any:
    """Find what a file is known by, whatever links lead to it, with few questions to the disk. None for a directory."""
    folder, name = os.path.split(file)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    real = os.path.join(folders[folder], name)
    try:
        found = os.lstat(real)
        if stat.S_ISLNK(found.st_mode):
            real = os.path.realpath(real)
            found = os.stat(real)
    except OSError:
        return real
    if stat.S_ISDIR(found.st_mode):
        return None
    return (found.st_dev, found.st_ino) if found.st_nlink > 1 and found.st_ino else real


def find_objects(store: Store, path: str) -> Found:
    """Find the same in a store, by keys. A directory there is only the beginning of a key."""
    shown = store.shown(path)
    what = f"source.parquet={shown!r}"
    with as_os_errors():
        itself = store.files.get_file_info(store.full(path))
        if itself.is_file:
            refuse_lake_files(what, [path], look_in_store(store))
            return path, [(path, _directory_values(os.path.basename(path)))]
        is_there = itself.type.name == "Directory"
        if not is_there and not re.search(r"[*?\[]", path):
            raise _absent(shown)
        root = path if is_there else os.path.dirname(re.split(r"[*?\[]", path, maxsplit=1)[0])
        keys, folders = _keys_below(store, root)
    wanted = path[len(root) :].strip("/")
    found = [key for key in keys if _matches(_below(root, key).split("/"), wanted.split("/") if wanted else [])]
    if not found:
        raise _absent(shown)
    files = [key for key in found if not _is_hidden(_below(root, key))]
    refuse_lake_files(what, [root], look_in_store(store))
    refuse_lake_files(what, files, look_among([*keys, *folders]))
    if not files:
        raise _nothing_in(shown)
    return root, [(key, _directory_values(_below(root, key))) for key in sorted(files)]


def _keys_below(store: Store, root: str) -> tuple[list[str], list[str]]:
    """List the keys of files, and those of directories."""
    from pyarrow.fs import FileSelector

    listed = store.files.get_file_info(FileSelector(store.full(root), allow_not_found=True, recursive=True))
    keys = [(info.is_file, info.path.removeprefix(store.full("")).lstrip("/")) for info in listed]
    return [key for is_file, key in keys if is_file], [key for is_file, key in keys if not is_file]


def _below(root: str, key: str) -> str:
    return key[len(root) :].lstrip("/")


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Tell whether glob.glob would find a path, or a directory that it is in."""
    if not pattern:
        return True
    if not parts:
        return False
    first, shown = pattern[0], not parts[0].startswith(".")
    if first == "**":
        return _matches(parts, pattern[1:]) or (shown and _matches(parts[1:], pattern))
    fits = fnmatchcase(parts[0], first) and (shown or first.startswith("."))
    return fits and _matches(parts[1:], pattern[1:])


def _walk(directory: str) -> Iterator[str]:
    seen: set[str] = set()
    for here, folders, names in os.walk(directory, followlinks=True):
        folders[:] = [folder for folder in folders if os.path.realpath(os.path.join(here, folder)) not in seen]
        seen |= {os.path.realpath(os.path.join(here, folder)) for folder in folders}
        yield from (os.path.join(here, name) for name in names)


def _absent(shown: str) -> SourceError:
    return NothingThere(f"source.parquet={shown!r}: nothing there. Check the address, and who may list it.")


def _nothing_in(shown: str) -> SourceError:
    return NothingThere(f"source.parquet={shown!r}: no Parquet files in it. Give a directory that holds some.")


def _is_hidden(relative: str) -> bool:
    """Tell whether a name starts with _ or .: like Spark, these are not data (_SUCCESS, _temporary, checksums)."""
    return any(part.startswith((".", "_")) and "=" not in part for part in relative.split(os.sep) if part != "..")


def _fixed_part(pattern: str) -> str:
    """Find the directory above the first wildcard."""
    before = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
    return os.path.dirname(before) or "."


def _directory_values(relative: str) -> dict[str, str]:
    pairs = (part.split("=", 1) for part in os.path.dirname(relative).split(os.sep) if "=" in part)
    return {unquote(key): unquote(value) for key, value in pairs}


def mask_path(path: str) -> str:
    """Write a path for messages, without the values in key=value directories: they are data."""
    return re.sub(r"=[^/]*/", "=…/", path)
