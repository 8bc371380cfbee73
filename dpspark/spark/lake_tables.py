"""Lake tables among files that only Spark can see: by Hadoop's file systems on a driver, by Spark's reader through Connect."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

from dpspark.errors import SourceError
from dpspark.source.lakes import MARKS, Look, follow_links, paths_above, refuse_lake_files
from dpspark.spark.failures import condition

ASKED_AT_ONCE = 8
NOT_THERE = "PATH_NOT_FOUND"


def refuse_lake_frame(spark: Any, what: str, frame: Any, path: str) -> None:
    """Refuse a frame that Spark reads from `path` as plain files, if they are a lake table's."""
    try:
        files = list(frame.inputFiles())
    except Exception as error:
        failed = SourceError(
            f"{what}: Spark does not tell its files ({condition(error)}), so that those of a lake table could be among "
            "them.\nUse source.table."
        )
    else:
        # What is written without a wildcard, Spark reads by the log of a streaming query, if there is one.
        followed = [] if re.search(r"[*?\[{]", path) else [path]
        refuse_lake_paths(spark, what, (unquote(file) for file in files), followed)
        return
    raise failed


def refuse_lake_paths(spark: Any, what: str, paths: Iterable[str], followed: Collection[str] = ()) -> None:
    """Refuse files and directories of a lake table, as Spark shows them (file:/…, s3a://…), not percent-encoded."""
    paths = sorted({way for path in paths for way in _follow(path)})
    look = look_by_spark(spark)
    if _has_jvm(spark):
        refuse_lake_files(what, paths, look, followed)
        return
    # Each question is a request to a server: ask several at once, and then those alone that have something in them.
    folders = sorted({directory for path in paths for directory in paths_above(path)} - set(paths))
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        suspect = {folder for folder, found in zip(folders, pool.map(_asker(look), folders), strict=True) if found}
    refuse_lake_files(what, sorted(suspect), look, followed)


def _follow(path: str) -> Iterator[str]:
    """Yield the path and, for a local file, where its links lead: Hadoop does not follow them by name."""
    yield path
    local = re.fullmatch(r"(?s)file:(?://)?(/.*)", path)
    if local is not None:
        yield from (f"file:{way}" for way in follow_links(local[1]))


def _asker(look: Look) -> Any:
    def ask(folder: str) -> bool:
        try:
            return look(folder, MARKS)
        except OSError:
            return True  # asked again, and refused, by the caller

    return ask


def look_by_spark(spark: Any) -> Look:
    """Make a function that looks at a directory of any file system that Spark knows. OSError if it cannot be told."""
    return _by_hadoop(spark) if _has_jvm(spark) else _by_reader(spark)


def _has_jvm(spark: Any) -> bool:
    return hasattr(spark, "_jsparkSession")


def _glob(directory: str, marks: Collection[str]) -> str:
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", directory.rstrip("/")) + "/{" + ",".join(marks) + "}"


def _by_hadoop(spark: Any) -> Look:
    jvm, settings = spark._jvm, spark._jsparkSession.sessionState().newHadoopConf()

    def look(directory: str, marks: Collection[str]) -> bool:
        try:
            path = jvm.org.apache.hadoop.fs.Path(_glob(directory, marks))
            found = path.getFileSystem(settings).globStatus(path)
            return found is not None and len(found) > 0
        except Exception as error:
            failed = OSError(None, condition(error))
        raise failed

    return look


def _by_reader(spark: Any) -> Look:
    """Make the function for a server. Spark resolves a glob when it plans, and no file is read."""

    def look(directory: str, marks: Collection[str]) -> bool:
        try:
            spark.read.text(_glob(directory, marks)).schema  # noqa: B018
        except Exception as error:
            name = condition(error)
            if name == NOT_THERE:
                return False
            failed = OSError(None, name)
        else:
            return True
        raise failed

    return look
