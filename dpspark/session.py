"""The Spark session of a job: the caller's, spark-submit's, one on a Spark Connect server, or a local one of our own."""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dpspark.archive import archived_classes, dropped_archive, make_archive_meanwhile
from dpspark.errors import DpsparkError
from dpspark.java import check_java, ensure_java
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
def spark_session(
    name: str = "dpspark", settings: dict[str, str] | None = None, remote: str | None = None
) -> Iterator[Any]:
    """The active session, left running; or a new one, stopped at the end. `remote` is the URL of a Connect server."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession() if remote is None else None
    if active is not None:
        yield active
        return
    remote = _chosen_remote(remote)
    if remote:
        with _stopped(_connect().open_session(remote)) as session:
            yield session
        return
    with socket_settings() as sockets, _stopped(_new_session(name, {**sockets, **(settings or {})})) as session:
        yield session
    if not _submitted():
        make_archive_meanwhile()


def check_can_start(remote: str | None) -> None:
    """Refuse a Spark of our own that could not start here; start nothing. Others' Sparks have a Java of their own."""
    if not _chosen_remote(remote) and not _submitted():
        _refuse_client_alone()
        check_java()


def _chosen_remote(remote: str | None) -> str | None:
    return remote or os.environ.get("SPARK_REMOTE") or _submitted_remote()


@contextmanager
def _stopped(session: Any) -> Iterator[Any]:
    try:
        yield session
    finally:
        with suppress(Exception):  # its Java process may be gone
            session.stop()


def _new_session(name: str, settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    _refuse_client_alone()
    builder = SparkSession.builder.appName(name)
    if _submitted():
        return _started(builder)
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # spark-submit leaves it to the executors' own path
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


def _started(builder: Any) -> Any:
    """By spark-submit, which has shown Java's own words by then."""
    try:
        return builder.getOrCreate()
    except Exception as error:
        failed = DpsparkError(f"Spark did not start ({type(error).__name__}): see what spark-submit printed above.")
    raise failed


def _submitted() -> bool:
    """spark-submit has already chosen the master and the settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted_remote() -> str | None:
    """What spark-submit --remote was given: it passes it on, and pyspark does not take it up by itself."""
    parts = int(os.environ.get("PYSPARK_REMOTE_INIT_CONF_LEN", "0"))
    settings = (json.loads(os.environ[f"PYSPARK_REMOTE_INIT_CONF_{part}"]) for part in range(parts))
    return next((found["spark.remote"] for found in settings if "spark.remote" in found), None)


def _refuse_client_alone() -> None:
    try:
        from pyspark.util import is_remote_only
    except ImportError:  # before Spark 4 a client had all of Spark
        return
    if is_remote_only():
        raise DpsparkError(
            "This pyspark is a Spark Connect client: it cannot run Spark by itself.\n"
            "Give --remote sc://host:port, or set SPARK_REMOTE; or install pyspark instead."
        )


def _connect() -> Any:
    """The module for Connect sessions, if what it needs is installed."""
    try:
        from dpspark import connect
    except ImportError:
        raise DpsparkError("Spark Connect needs more packages. Run: pip install 'dpspark[connect]'") from None
    return connect


def is_connect(spark: Any) -> bool:
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(spark).__mro__)


@contextmanager
def session_in_use(spark: Any) -> Iterator[None]:
    """For as long as a release needs the session; refused at once if its server is not there."""
    if not is_connect(spark):
        yield
        return
    with _connect().in_use(spark):
        yield


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
    remote = is_connect(spark)
    try:
        yield
    except Exception:
        if not (_connect().is_lost(spark) if remote else _java_is_gone(spark)):
            raise
    else:
        return
    what = "The Spark Connect server was lost" if remote else "Spark's Java process ended"
    raise DpsparkError(
        f"{what} while it worked: killed, or out of memory{', or out of reach' if remote else ''}. Nothing was released.\n"
        "Run the same release again to go on: nothing is charged twice."
    )


def _java_is_gone(spark: Any) -> bool:
    try:
        spark.sparkContext._jvm.java.lang.System.nanoTime()
    except Exception:
        return True
    return False


# pyspark itself logs the full text of some Spark errors; the last two if SPARK_CONNECT_LOG_LEVEL is set.
QUOTING_LOGGERS = (
    "SQLQueryContextLogger",
    "DataFrameQueryContextLogger",
    "pyspark.sql.connect.logging",
    "pyspark.sql.connect.client.logging",
)


@contextmanager
def silent_logs(spark: Any) -> Iterator[None]:
    """No Spark logging on this driver meanwhile: what is logged of a failed task quotes the row it failed on.

    Executors on other machines write their own logs, under the operator's own settings: conf/log4j2-executors.properties.
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
