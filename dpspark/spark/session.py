"""The Spark session of a job: the caller's, spark-submit's, one on a Spark Connect server, or a local one of our own."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from dpspark.errors import DpsparkError
from dpspark.spark.java import check_java
from dpspark.spark.local import forget_dead_java, is_submitted, java_is_gone, local_session, log_level, set_log_level
from dpspark.spark.shared_context import Shared


@contextmanager
def spark_session(
    name: str = "dpspark", settings: dict[str, str] | None = None, remote: str | None = None
) -> Iterator[Any]:
    """Use the running session, left running; or start one, stopped at the end. `remote` is the URL of a Connect server."""
    _refuse_no_pyspark()
    if remote is None:
        with _lock:
            running = _running_session()
        remote = None if running is not None else _chosen_remote(None)
    if remote:
        session = _connect().open_session(remote)
        try:
            yield session
        finally:
            with suppress(Exception):  # its server may be gone
                session.stop()
        return
    with _shared_session(name, settings or {}) as session:
        yield session


@dataclass
class _Own:
    """Our own session, for all threads that want one at the same time: the last of them stops it."""

    session: Any
    ending: ExitStack
    users: int = 0


_lock = threading.RLock()
_own: list[_Own] = []


@contextmanager
def _shared_session(name: str, settings: dict[str, str]) -> Iterator[Any]:
    with _lock:
        session = _running_session()
        if session is None:
            _refuse_client_alone()
            ending = ExitStack()
            session = ending.enter_context(local_session(name, settings))
            _own[:] = [_Own(session, ending)]
        own = next((own for own in _own if _same_spark(own.session, session)), None)  # none: it is the user's
        if own is not None:
            own.users += 1
    try:
        yield session
    finally:
        if own is not None:
            _leave(own)


def _leave(own: _Own) -> None:
    with _lock:
        own.users -= 1
        if own.users == 0:
            if own in _own:
                _own.remove(own)
            own.ending.close()


def _same_spark(one: Any, other: Any) -> bool:
    return not is_connect(other) and one.sparkContext is other.sparkContext


def is_own(spark: Any) -> bool:
    """Tell whether dpspark started this session, and will stop it."""
    with _lock:
        return any(_same_spark(own.session, spark) for own in _own)


def _running_session() -> Any:
    """Find this thread's session, or else the process's: a thread that has made none uses the one that is there."""
    from pyspark.sql import SparkSession

    with SparkSession.Builder._lock:  # another thread may be making one
        if not _client_alone():
            forget_dead_java()
        try:
            running = SparkSession.active()
        except Exception:
            running = _session_of_context()
        if running is not None and is_stopped(running):
            with suppress(Exception):  # by Java's side alone: pyspark would give it to us again
                running.stop()
            return None
        return running


def _session_of_context() -> Any:
    """Make a session for a user who has made a SparkContext alone."""
    if _client_alone():
        return None
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = SparkContext._active_spark_context
    return None if context is None else SparkSession(context)


def is_stopped(spark: Any) -> bool:
    if is_connect(spark):
        return bool(spark.is_stopped)
    java = spark.sparkContext._jsc
    return java is None or bool(java.sc().isStopped())


def check_can_start(remote: str | None) -> None:
    """Refuse a Spark of our own that could not start here; start nothing. Others' Sparks have their own Java."""
    _refuse_no_pyspark()
    if not _chosen_remote(remote) and not is_submitted():
        check_local()


def check_local() -> None:
    """Refuse if no Spark can be started on this machine."""
    _refuse_no_pyspark()
    _refuse_client_alone()
    check_java()


def _chosen_remote(remote: str | None) -> str | None:
    return remote or os.environ.get("SPARK_REMOTE") or _submitted_remote()


def _submitted_remote() -> str | None:
    """Read what spark-submit --remote was given: it passes it on, and pyspark does not take it up by itself."""
    parts = int(os.environ.get("PYSPARK_REMOTE_INIT_CONF_LEN", "0"))
    settings = (json.loads(os.environ[f"PYSPARK_REMOTE_INIT_CONF_{part}"]) for part in range(parts))
    return next((found["spark.remote"] for found in settings if "spark.remote" in found), None)


def _refuse_no_pyspark() -> None:
    if find_spec("pyspark") is None:
        raise DpsparkError(
            "A release needs Spark, and this Python has no pyspark. Run: pip install 'dpspark[spark]'\n"
            "For a Spark Connect server alone: pip install 'dpspark[client]'."
        )


def _refuse_client_alone() -> None:
    if _client_alone():
        raise DpsparkError(
            "This pyspark is a Spark Connect client: it cannot run Spark by itself.\n"
            "Give --remote sc://host:port, or set SPARK_REMOTE; or install pyspark instead."
        )


def _client_alone() -> bool:
    try:
        from pyspark.util import is_remote_only
    except ImportError:  # before Spark 4 a client had all of Spark
        return False
    return bool(is_remote_only())


def _connect() -> Any:
    """Import the module for Connect sessions, if what it needs is installed."""
    try:
        from dpspark.spark import connect
    except ImportError:
        raise DpsparkError("Spark Connect needs more packages. Run: pip install 'dpspark[connect]'") from None
    return connect


def is_connect(spark: Any) -> bool:
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(spark).__mro__)


@contextmanager
def use_session(spark: Any) -> Iterator[None]:
    """Use the session for one release; refuse at once if it was stopped, or its server is not there."""
    if is_connect(spark):
        with _connect().use_session(spark):
            yield
        return
    if java_is_gone(spark._jvm) or is_stopped(spark):
        raise DpsparkError("The Spark session was stopped, or its Java process has ended. Make a new one.")
    yield


@contextmanager
def watch_java(spark: Any) -> Iterator[None]:
    """Say that Spark's Java process died, or its session was stopped, instead of what that looks like from here."""
    try:
        yield
    except Exception:
        lost = _lost(spark)
        if lost is None:
            raise
    else:
        return
    raise DpsparkError(f"{lost} Nothing was released.\nRun the same release again to go on: nothing is charged twice.")


def _lost(spark: Any) -> str | None:
    if is_connect(spark):
        if _connect().is_lost(spark):
            return "The Spark Connect server was lost while it worked: killed, or out of memory, or out of reach."
        return None
    if java_is_gone(spark._jvm):
        return "Spark's Java process ended while it worked: killed, or out of memory."
    if is_stopped(spark):
        return "The Spark session was stopped while it worked."
    return None


# pyspark itself logs the full text of some Spark errors; the last two if SPARK_CONNECT_LOG_LEVEL is set.
QUOTING_LOGGERS = (
    "SQLQueryContextLogger",
    "DataFrameQueryContextLogger",
    "pyspark.sql.connect.logging",
    "pyspark.sql.connect.client.logging",
)


@contextmanager
def silence_logs(spark: Any) -> Iterator[None]:
    """Turn off Spark's logs on this driver for this block: those of a failed task quote the row it failed on.

    Executors on other machines write their own logs, under the operator's own settings: conf/log4j2-executors.properties.
    """
    if is_connect(spark):  # the logs of Java are the server's
        with _silence_python():
            yield
        return
    with _silence_python(), _restore_level(spark._jvm):
        spark.sparkContext.setLogLevel("OFF")
        yield


def _logger(name: str) -> logging.Logger:
    """Get a logger of pyspark's: of its own class, which it must have from the first time that it is asked for."""
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # before Spark 4
        return logging.getLogger(name)
    return PySparkLogger.getLogger(name)


@Shared
@contextmanager
def _silence_python() -> Iterator[None]:
    quoting = [_logger(name) for name in QUOTING_LOGGERS]
    disabled_before = [logger.disabled for logger in quoting]
    for logger in quoting:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(quoting, disabled_before, strict=True):
            logger.disabled = disabled


@Shared
@contextmanager
def _restore_level(java: Any) -> Iterator[None]:
    """Restore Java's log level at the end, by the last of several releases: the first would let the others' rows be logged."""
    level = log_level(java)
    try:
        yield
    finally:
        with suppress(Exception):  # Java may be gone
            set_log_level(java, level)
