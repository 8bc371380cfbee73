"""The Spark session of a job: the caller's, spark-submit's, or a local one of our own."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dpspark.archive import archived_classes, dropped_archive, make_archive_meanwhile
from dpspark.errors import DpsparkError
from dpspark.java import ensure_java
from dpspark.sockets import socket_settings

LOCAL_SETTINGS = {
    "spark.master": "local[*,4]",  # plain local[*] never retries a failed task
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # Spark logs the values of rows that a task failed on
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


@contextmanager
def spark_session(name: str = "dpspark", settings: dict[str, str] | None = None) -> Iterator[Any]:
    """The active session, left running; or a new one, stopped at the end."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with socket_settings() as sockets:
        session = _new_session(name, {**sockets, **(settings or {})})
        try:
            yield session
        finally:
            with suppress(Exception):  # its Java process may be gone
                session.stop()
    if not _submitted():
        make_archive_meanwhile()


def _new_session(name: str, settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if _submitted():
        return builder.getOrCreate()
    ensure_java()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one task, one core
    for key, value in {**LOCAL_SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    with archived_classes(), _jvm_stderr_apart() as read_stderr:
        try:
            return builder.getOrCreate()
        except Exception as error:
            if dropped_archive(error):
                return _new_session(name, settings)
            lines = [line for line in read_stderr().splitlines() if line.strip()]
            raise DpsparkError(f"Spark did not start ({type(error).__name__}): {' | '.join(lines[-2:])}") from None


def _submitted() -> bool:
    """spark-submit has already chosen the master and the settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ


@contextmanager
def _jvm_stderr_apart() -> Iterator[Callable[[], str]]:
    """The JVM inherits our stderr when it starts: give it a scratch file, so that neither banners nor row values show."""
    with tempfile.TemporaryFile() as scratch:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(scratch.fileno(), 2)

        def read() -> str:
            scratch.seek(0)
            return scratch.read().decode(errors="replace")

        try:
            yield read
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def java_watched(spark: Any) -> Iterator[None]:
    """If Spark's Java process died, say that, and not what its silence looked like from here."""
    try:
        yield
    except Exception:
        if not _java_is_gone(spark):
            raise
    else:
        return
    raise DpsparkError(
        "Spark's Java process ended while it worked: killed, or out of memory. Nothing was released.\n"
        "Run the same release again to go on: nothing is charged twice."
    )


def _java_is_gone(spark: Any) -> bool:
    try:
        jvm = spark.sparkContext._jvm
    except Exception:  # Spark Connect has none here
        return False
    try:
        jvm.java.lang.System.nanoTime()
    except Exception:
        return True
    return False


# pyspark itself logs the full text of some Spark errors.
QUOTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@contextmanager
def silent_logs(spark: Any) -> Iterator[None]:
    """No Spark logging on this driver meanwhile: what is logged of a failed task quotes the row it failed on.

    Executors on other machines write their own logs, under the operator's own settings.
    """
    quoting = [logging.getLogger(name) for name in QUOTING_LOGGERS]
    disabled_before = [logger.disabled for logger in quoting]
    for logger in quoting:
        logger.disabled = True
    level_before = _log_level(spark)
    if level_before is not None:
        spark.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        if level_before is not None:
            with suppress(Exception):
                spark.sparkContext.setLogLevel(level_before)
        for logger, disabled in zip(quoting, disabled_before, strict=True):
            logger.disabled = disabled


def _log_level(spark: Any) -> str | None:
    try:
        return spark._jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
    except Exception:  # Spark Connect: the logs are the server's
        return None
