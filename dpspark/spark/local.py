"""A Spark session of our own on this machine, or the one that spark-submit asks for.

Java lives until Python ends, as pyspark has it: one session after the other runs in it, ours and the user's. So what ours set
there is taken back when it ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dpspark.errors import DpsparkError
from dpspark.spark.archive import archived_classes, dropped_archive
from dpspark.spark.java import ensure_java
from dpspark.spark.sockets import socket_settings

LOCAL_SETTINGS = {
    "spark.master": "local[*,4]",  # plain local[*] never retries a failed task
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",  # Spark logs the values of rows that a task failed on
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
}


def submitted() -> bool:
    """spark-submit has already chosen the master and the settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def local_session(name: str, settings: dict[str, str]) -> Iterator[Any]:
    """A new session, stopped at the end."""
    if submitted():
        with _stopped(_submitted_session(name)) as session:
            yield session
        return
    settings = {**LOCAL_SETTINGS, **socket_settings(), **settings}
    level = _log_level()
    session = _new_session(name, settings)
    java = session._jvm
    try:
        with _stopped(session):
            yield session
    finally:
        with suppress(Exception):  # its Java process may be gone
            _take_back(java, settings, level)


@contextmanager
def _stopped(session: Any) -> Iterator[Any]:
    try:
        yield session
    finally:
        with suppress(Exception):  # its Java process may be gone
            session.stop()


def _new_session(name: str, settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    ensure_java()
    _check_workers_python()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # spark-submit leaves it to the executors' own path
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one task, one core
    builder = SparkSession.builder.appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with archived_classes(), _jvm_stderr_apart() as read_stderr:
        try:
            return builder.getOrCreate()
        except Exception as error:
            if dropped_archive(error):
                return _new_session(name, settings)
            lines = [line for line in read_stderr().splitlines() if line.strip()]
            raise DpsparkError(f"Spark did not start ({type(error).__name__}): {' | '.join(lines[-2:])}") from None


def _check_workers_python() -> None:
    """Spark would find out in its first task, after the charge."""
    chosen = os.environ.get("PYSPARK_PYTHON")
    if not chosen or chosen == sys.executable:
        return
    try:
        program = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([chosen, "-c", program], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise DpsparkError(
            f"PYSPARK_PYTHON={chosen!r} does not run. Unset it, or name a Python that has pyspark."
        ) from None
    ours = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if done.stdout.strip() != ours:
        raise DpsparkError(
            f"PYSPARK_PYTHON={chosen!r} is Python {done.stdout.strip()}, and this is {ours}: Spark needs the same for both. "
            "Unset it, or name another."
        )


def _submitted_session(name: str) -> Any:
    """By spark-submit, which has shown Java's own words by then."""
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.appName(name).getOrCreate()
    except Exception as error:
        failed = DpsparkError(f"Spark did not start ({type(error).__name__}): see what spark-submit printed above.")
    raise failed


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


def _log_level() -> str | None:
    """Of the Java that is there from before, if there is one."""
    from pyspark import SparkContext

    return None if SparkContext._jvm is None else log_level(SparkContext._jvm)


def log_level(java: Any) -> str | None:
    try:
        return java.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
    except Exception:
        return None


def set_log_level(java: Any, level: str | None) -> None:
    if level is not None:
        log4j = java.org.apache.logging.log4j
        log4j.core.config.Configurator.setRootLevel(log4j.Level.toLevel(level))


def _take_back(java: Any, settings: dict[str, str], level: str | None) -> None:
    """The first session's settings are Java's own properties, and would be every later session's defaults.

    The master stays: a session that names none needs one.
    """
    for key, value in settings.items():
        if key != "spark.master" and java.java.lang.System.getProperty(key) == value:
            java.java.lang.System.clearProperty(key)
    set_log_level(java, level)


def java_is_gone(java: Any) -> bool:
    try:
        java.java.lang.System.nanoTime()
    except Exception:
        return True
    return False


def forget_dead_java() -> None:
    """If Java was killed, let pyspark start another: it would go on asking the one that is gone."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if submitted() or SparkContext._gateway is None or not java_is_gone(SparkContext._jvm):
        return
    with suppress(Exception):
        SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
