"""The errors of a pass that failed: whose fault it is, Spark's names for it, files and columns, but never a value.

Only names are passed on: of Spark's conditions, of classes, of files, of columns. The texts of errors may quote data.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from dpspark.errors import DpsparkError, SourceError
from dpspark.show.logs import info
from dpspark.source.listing import mask_path
from dpspark.source.stamps import CHANGED, SourceChanged

UNREADABLE = "dpspark-unreadable"
TOO_LARGE = "spark.driver.maxResultSize"
LOST = re.compile(
    "ExecutorLostFailure|Python worker exited unexpectedly|Master removed our application|SparkContext was shut down"
)
STILL_RESERVED = "Its budget stays reserved: the same release, run again when that is mended, costs nothing more."
LEGACY = "_LEGACY_ERROR_TEMP_"  # names of Spark 3.5 that say nothing
UNREAD = ("FAILED_READ_FILE", *(LEGACY + number for number in ("2055", "2063", "2064")))
NOT_THERE = ("NotFoundException", "FileNotFoundException")  # Iceberg's, and Java's
FILE_SYSTEM = "org.apache.hadoop.fs."  # which sources are read by; Spark's own files are not
OTHER_TYPE = (f"{UNREAD[0]}.PARQUET_COLUMN_DATA_TYPE_MISMATCH", LEGACY + "2063")
MOST_CAUSES = 20
MOST_FRAMES = 12


class PassFailed(DpsparkError):
    """Spark, or dpspark, failed in a pass. `details` help to find the reason: names and lines of code."""

    def __init__(self, message: str, details: tuple[str, ...] = ()):
        super().__init__(message)
        self.details = details


class SourceFailed(PassFailed, SourceError):
    """A pass failed because the source could not be read."""


@dataclass(frozen=True)
class Failure:
    """An error of Spark's, in names."""

    condition: str | None  # Spark's own, such as FAILED_READ_FILE.NO_HINT
    kinds: tuple[str, ...]  # of the error and of its causes
    file: str | None = None
    column: str | None = None
    types: str = ""
    in_a_row: bool = False  # an expression failed on a value
    frames: tuple[str, ...] = ()  # of Java's code, where it began

    @property
    def shown(self) -> str:
        by = f" by {self.kinds[-1]}" if len(self.kinds) > 1 else ""
        name = self.condition if self.condition and not self.condition.startswith(LEGACY) else f"{self.kinds[0]}{by}"
        column = "" if self.column is None else f", column {self.column!r}{self.types}"
        return f"{name}{column}"

    @property
    def is_gone(self) -> bool:
        """Whether a file of the source was not there."""
        iceberg, java = (kind in self.kinds for kind in NOT_THERE)
        return iceberg or (java and any(FILE_SYSTEM in frame for frame in self.frames))

    @property
    def details(self) -> tuple[str, ...]:
        named = " by ".join(self.kinds) + (f" [{self.condition}]" if self.condition else "")
        return (f"Spark's error: {named}", *(f"  at {frame}" for frame in self.frames))


def condition(error: Exception) -> str:
    """Name an error as Spark does, or by its classes; without its text, which may quote data."""
    return failure_of(error).shown


def failure_of(error: Exception) -> Failure:
    """Take from an error of Spark's the names that may be shown."""
    chain = list(_causes(error))
    named = [(name, link) for link in (error, *chain) if (name := _ask(link, "getCondition", "getErrorClass"))]
    name, link = named[0] if named else (None, error)
    parameters = _ask(link, "getMessageParameters") or {}
    get = getattr(parameters, "get", lambda key: None)
    file, column = get("path") or get("filePath"), get("column") if name in OTHER_TYPE else None
    stored, expected = get("actualType") or get("physicalType"), get("expectedType") or get("logicalType")
    types = f": {stored} in the file, {expected} expected" if column else ""
    return Failure(
        name,
        tuple(re.split(r"[.$]", str(one.getClass().getName()))[-1] for one in chain) or (type(error).__name__,),
        mask_path(unquote(str(file))) if file and str(name).startswith(UNREAD) else None,
        None if column is None else str(column).strip("[]"),
        types,
        str(_ask(link, "getSqlState") or "").startswith("22") or name == "USER_RAISED_EXCEPTION",
        tuple(_frames(chain[-1])) if chain else (),
    )


def _causes(error: Exception) -> Iterator[Any]:
    """Yield the Java exceptions behind an error, on a driver that has them: its own, then its causes."""
    link = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(MOST_CAUSES):
        if link is None:
            return
        yield link
        link = _ask(link, "getCause")


def _ask(what: Any, *methods: str) -> Any:
    """Call the first of these methods that there is; None if there is none, or it returns nothing."""
    for method in methods:
        try:
            return getattr(what, method)() or None
        except Exception:  # it has no such method, or Spark is gone
            continue
    return None


def _frames(link: Any) -> list[str]:
    try:
        return [str(frame.toString()) for frame in list(link.getStackTrace())[:MOST_FRAMES]]
    except Exception:
        return []


def task_error(what: str, error: Exception) -> RuntimeError:
    """Make the error that a task may raise: it names the kind of the error behind it, and no more."""
    return RuntimeError(f"{UNREADABLE}<{what}|{type(error).__name__}>")


def explain_failure(error: Exception) -> DpsparkError:
    """Make the error for the user: kinds and names, never the text of Spark's error."""
    missing = re.search(r"No module named '(dpspark|numpy|pyarrow)", str(error))
    if missing:
        return DpsparkError(
            f"The executors cannot import {missing[1]}. Give spark-submit the package: --py-files dpspark.zip, and numpy and "
            f"pyarrow in their Python.{_own_python()}\n{STILL_RESERVED}"
        )
    versions = re.search(r"Python in worker has different version: (\d+\.\d+) .{0,40}?(\d+\.\d+)", str(error))
    if versions:
        return DpsparkError(
            f"The executors have Python {versions[1]}, and this is {versions[2]}. Give both the same.\n{STILL_RESERVED}"
        )
    found = re.search(rf"{UNREADABLE}<([^|>]*)\|(\w+)>", str(error))
    if found:
        return _explain_task_failure(found[1], found[2])
    if LOST.search(str(error)):
        return DpsparkError(
            "Executors, or their Python workers, were lost again and again: killed, out of memory, or unable to start. Nothing "
            f"was released.\nSee the cluster's logs; more memory is spark.executor.memory and .memoryOverhead. {STILL_RESERVED}"
        )
    if TOO_LARGE in str(error):
        return DpsparkError(
            f"The sums of all groups are larger than {TOO_LARGE} lets the driver take. Nothing was released.\n"
            f"Set it higher, with memory for the driver (--driver-memory), or release fewer groups. {STILL_RESERVED}"
        )
    failure = failure_of(error)
    kind = _python_kind(str(error)) if "PythonException" in (type(error).__name__, *failure.kinds) else None
    return _explain_spark_failure(failure) if kind is None else _explain_task_failure("a task", kind)


def _own_python() -> str:
    """Say how to give a local session this Python: its executors take the first python3 of the path otherwise."""
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    running = getattr(context, "_active_spark_context", None)
    if not str(getattr(running, "master", "")).startswith("local"):
        return ""
    return f" On a local master, set PYSPARK_PYTHON={sys.executable} (this Python) before the session begins."


def _python_kind(text: str) -> str | None:
    """Find the class that a task's traceback ends with, if it is Python's or Arrow's own: it cannot be data then."""
    names = re.findall(r"(?m)^(?:pyarrow\.lib\.)?(\w+)(?:: |$)", text)
    return next((name for name in reversed(names) if _is_error(name)), None)


def _is_error(name: str) -> bool:
    found = getattr(builtins, name, None) or getattr(pa, name, None)
    return isinstance(found, type) and issubclass(found, Exception)


def _explain_task_failure(what: str, kind: str) -> DpsparkError:
    if kind == SourceChanged.__name__:
        return SourceError(f"{what} {CHANGED}")
    if kind in ("MemoryError", "ArrowMemoryError"):
        return DpsparkError(
            f"A task ran out of memory at {what} ({kind}). Nothing was released.\n"
            f"More is spark.executor.memoryOverhead, or less at once: fewer cores to an executor. {STILL_RESERVED}"
        )
    of_the_file = kind.startswith("Arrow") or issubclass(getattr(builtins, kind, Warning), OSError)
    if of_the_file and what not in ("a batch of rows", "a task"):
        return SourceError(f"{what} could not be read to the end ({kind}). Nothing was released.\n{STILL_RESERVED}")
    return PassFailed(
        f"dpspark failed at {what} ({kind}): its own fault, not the source's. Nothing was released.\n"
        f"Report it, please, with the types of the columns. {STILL_RESERVED}"
    )


def _explain_spark_failure(failure: Failure) -> DpsparkError:
    for line in failure.details:
        info("%s", line)
    rest = f"Nothing was released.\n{STILL_RESERVED}"
    if (failure.condition or "").startswith(UNREAD):
        what = failure.file or "A file of the source"
        return SourceFailed(f"{what} could not be read by Spark ({failure.shown}). {rest}", failure.details)
    if failure.is_gone:
        return SourceFailed(
            "A file of the source is not there any more: it was deleted, vacuumed or replaced, or its snapshot has expired, "
            "while Spark read it. Nothing was released.\n"
            "Run the same release again when the source is at rest: its budget stays reserved, and it costs nothing more.",
            failure.details,
        )
    if failure.in_a_row:
        return SourceFailed(f"Spark could not compute a row of the source ({failure.shown}). {rest}", failure.details)
    return PassFailed(
        f"Spark failed while it worked ({failure.shown}). Nothing was released. -v tells where.\n{STILL_RESERVED}",
        failure.details,
    )
