"""Settings of a session that a release needs for a while, and that other threads' releases may need too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dpspark.errors import DpsparkError, SourceError
from dpspark.spark.failures import condition

SKIPPING = (
    "spark.sql.parquet.filterPushdown",
    "spark.sql.orc.filterPushdown",
    "spark.databricks.delta.stats.skipping",
    "spark.sql.inMemoryColumnarStorage.partitionPruning",
)
TIME_ZONE = "spark.sql.session.timeZone"


@dataclass
class _Held:
    before: str | None
    value: str
    holders: int = 0


_lock = threading.Lock()
_held: dict[tuple[str, str], _Held] = {}


@contextmanager
def hold_settings(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    """Set these until the end of the block. The last of several blocks at once brings back what was there before."""
    session, taken = _identity(spark), []
    try:
        for key, value in settings.items():
            with _lock:
                found = _held.get((session, key)) or _Held(spark.conf.get(key, None), value)
                if found.value != value:
                    raise DpsparkError(
                        f"Another release runs in this Spark session, with {key}={found.value!r}; this one needs {value!r}.\n"
                        "Run one after the other, or give each a session of its own (spark.newSession())."
                    )
                spark.conf.set(key, value)
                found.holders += 1
                _held[session, key] = found
                taken.append(key)
        yield
    finally:
        for key in taken:
            with _lock:
                found = _held[session, key]
                found.holders -= 1
                if not found.holders:
                    del _held[session, key]
                    with suppress(Exception):  # a server that is lost has no settings
                        spark.conf.unset(key) if found.before is None else spark.conf.set(key, found.before)


def _identity(spark: Any) -> str:
    """Identify the session itself: Python may have several objects for one."""
    try:
        return str(spark.session_id)  # of a Spark Connect server
    except Exception:
        return str(spark._jsparkSession.hashCode())


@contextmanager
def forgive_sql(spark: Any, directories_too: bool = False) -> Iterator[None]:
    """Turn ANSI mode off for this block: a bad cast or a division by zero is null then.

    With it, the job fails and quotes the value.

    `directories_too`: values in directories' names stay text, so that they mean the same as in the direct reader.
    """
    settings = {"spark.sql.ansi.enabled": "false"}
    if directories_too:
        settings["spark.sql.sources.partitionColumnTypeInference.enabled"] = "false"
    with hold_settings(spark, settings):
        yield


@contextmanager
def set_time_zone(spark: Any, zone: str) -> Iterator[None]:
    """Set the time zone of timestamps for this block, in which plans are made and run, whatever the machine's is."""
    with ExitStack() as stack:
        try:
            stack.enter_context(hold_settings(spark, {TIME_ZONE: zone}))
        except DpsparkError:
            raise
        except Exception as error:
            raise SourceError(
                f"source.timezone={zone!r}: Spark does not know it ({condition(error)}). Use UTC, or an offset such as +02:00."
            ) from None
        yield


@contextmanager
def look_at_every_row(spark: Any) -> Iterator[None]:
    """Let Spark skip no rows by the statistics of files and of cached batches for this block, in which plans are run.

    Statistics leave NaN out, which is above every number to Spark. Whether a row with NaN is skipped would depend on the
    largest value of other rows: one record could bring back any number of them.
    """
    with hold_settings(spark, dict.fromkeys(SKIPPING, "false")):
        yield
