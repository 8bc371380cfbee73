"""Lake tables among files: only the table's log says which of its files count.

Read as plain Parquet, superseded and deleted files would count as well: one person several times.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from dpspark.errors import SourceError

# What is in a table's directory, by what the table is called. A table whose log is empty is one as well.
LAKES: Mapping[str, tuple[str, ...]] = {
    "a Delta table": ("_delta_log",),
    "an Iceberg table": ("metadata/*.metadata.json", "metadata/*.metadata.json.gz", "metadata/version-hint.text"),
    "a Hudi table": (".hoodie",),
    "a Paimon table": ("manifest/manifest-list-*",),
    "a streaming query's output": ("_spark_metadata",),
}
STREAM = "a streaming query's output"
MARKS = tuple(mark for marks in LAKES.values() for mark in marks)
WRITTEN_BY_ICEBERG = b"iceberg.schema"  # in a file's footer, wherever the table keeps its metadata
ADDRESS = re.compile(r"(?s)((?:[A-Za-z][\w+.-]*:)?(?://[^/]*)?)(.*)")
LINKS = 40  # that are followed, as the kernel does

Look = Callable[
    [str, Collection[str]], bool
]  # whether a directory has one of these names or globs in it; OSError: unknown


def refuse_lake_files(what: str, paths: Iterable[str], look: Look, followed: Collection[str] = ()) -> None:
    """Refuse files and directories that are a lake table's, or are in one.

    `paths` are absolute, or addresses as Spark shows them (file:/…, s3a://…), not percent-encoded. `followed` are
    directories of streaming queries that Spark reads by their log.
    """
    seen: set[str] = set()
    for path in paths:
        for directory in paths_above(path):
            if directory in seen:
                break  # and so were those above it
            seen.add(directory)
            _refuse_directory(what, directory, look, {_path_of(one) for one in followed})


def _refuse_directory(what: str, directory: str, look: Look, followed: Collection[str]) -> None:
    try:
        if not look(directory, MARKS):
            return
        kinds = [kind for kind, marks in LAKES.items() if look(directory, marks)]
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise SourceError(
            f"{what}: whether it belongs to a lake table cannot be told, as {mask(directory)} cannot be looked at ({why}).\n"
            "Let this job list that directory, or copy the files to one that it can list."
        ) from None
    for kind in kinds:
        if kind != STREAM or _path_of(directory) not in followed:
            raise lake_error(what, directory, kind)


def lake_error(what: str, directory: str, kind: str) -> SourceError:
    if kind == STREAM:
        way = f'source: {{sql: "select * from parquet.`{mask(directory)}`"}}, so that Spark reads its log'
    elif kind == "a Delta table":
        way = f"source: {{delta: {mask(directory)}}}, or source.table, so that Spark reads its log"
    elif kind == "an Iceberg table":
        way = "source: {iceberg: catalog.db.table} (or its metadata.json), or source.table, so that Spark reads its log"
    else:
        way = "source.table, so that Spark reads its log"
    return SourceError(
        f"{what}: {mask(directory)} is {kind}, and its log says which files count (not all do).\n"
        f"Use {way}; or move files that are not the table's elsewhere."
    )


def _path_of(address: str) -> str:
    """Cut off scheme and host, which Spark fills in."""
    found = ADDRESS.fullmatch(address)
    assert found is not None
    return found[2].rstrip("/")


def paths_above(path: str) -> Iterator[str]:
    """Yield the path itself, then every directory above it."""
    found = ADDRESS.fullmatch(path)
    assert found is not None
    parts = [part for part in found[2].split("/") if part]
    for count in range(len(parts), -1, -1):
        yield f"{found[1]}/{'/'.join(parts[:count])}"


def mask(directory: str) -> str:
    """Write a directory for messages, without the values in key=value: they are data."""
    return re.sub(r"=[^/]*(/|$)", r"=…\1", directory)


def look_on_disk(directory: str, marks: Collection[str]) -> bool:
    """Tell whether a local directory has one of these in it."""
    return any(_exists(os.path.join(directory, mark)) for mark in marks)


def _exists(mark: str) -> bool:
    folder, name = os.path.split(mark)
    try:
        if "*" in name:
            return any(fnmatchcase(other, name) for other in os.listdir(folder))
        os.lstat(mark)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def follow_links(path: str) -> Iterator[str]:
    """Yield a local path as its links are followed one by one: each of them may lead through a table."""
    path = os.path.abspath(path)
    yield os.path.realpath(path)
    for _ in range(LINKS):
        yield path
        link = next((one for one in reversed(list(paths_above(path))) if os.path.islink(one)), None)
        if link is None:
            return
        path = os.path.normpath(os.path.join(os.path.dirname(link), os.readlink(link), os.path.relpath(path, link)))


def look_in_store(store: Any) -> Look:
    """Make a function that looks at the directories of a store, by their keys."""

    def look(directory: str, marks: Collection[str]) -> bool:
        from pyarrow.fs import FileSelector

        from dpspark.source.stores import as_os_errors

        key = directory.strip("/")
        globs = [mark for mark in marks if "*" in mark]
        with as_os_errors():
            plain = [store.full(f"{key}/{mark}".lstrip("/")) for mark in marks if "*" not in mark]
            if any(info.type.name != "NotFound" for info in store.files.get_file_info(plain)):
                return True
            for folder in {mark.rpartition("/")[0] for mark in globs}:
                where = FileSelector(store.full(f"{key}/{folder}".lstrip("/")), allow_not_found=True)
                names = [f"{folder}/{info.base_name}" for info in store.files.get_file_info(where)]
                if any(fnmatchcase(name, mark) for name in names for mark in globs):
                    return True
        return False

    return look


def look_among(paths: Iterable[str]) -> Look:
    """Make a function that looks at directories whose content is known: all paths below them."""
    mark = "|".join(re.escape(one).replace(r"\*", "[^/]*") for one in MARKS)
    pattern = re.compile(rf"(?s)(?:(.*?)/)??({mark})(?:/.*)?")
    found: dict[str, set[str]] = {}
    for hit in map(pattern.fullmatch, paths):
        if hit:
            found.setdefault(hit[1] or "", set()).add(hit[2])

    def look(directory: str, marks: Collection[str]) -> bool:
        names = found.get(directory.strip("/"), ())
        return any(fnmatchcase(name, one) for name in names for one in marks)

    return look
