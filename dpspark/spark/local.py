"""A Spark session of our own on this machine, or the one that spark-submit asks for.

Java lives until Python ends: pyspark runs one session after the other in it, ours and the user's. So our settings are taken
back when our session ends.
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
from dpspark.spark.class_archive import drop_archive, use_archive
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


def is_submitted() -> bool:
    """Tell whether spark-submit has already chosen the master and the settings."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def local_session(name: str, settings: dict[str, str]) -> Iterator[Any]:
    """Start a new session; stop it at the end."""
    if is_submitted():
        with _stop_after(_submitted_session(name)) as session:
            yield session
        return
    settings = {**LOCAL_SETTINGS, **socket_settings(), **settings}
    level = _log_level()
    session = _new_session(name, settings)
    java = session._jvm
    try:
        with _stop_after(session):
            yield session
    finally:
        with suppress(Exception):  # its Java process may be gone
            _take_back(java, settings, level)


@contextmanager
def _stop_after(session: Any) -> Iterator[Any]:
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
    with use_archive(), _divert_stderr() as read_stderr:
        try:
            return builder.getOrCreate()
        except Exception as error:
            if drop_archive(error):
                return _new_session(name, settings)
            lines = [line for line in read_stderr().splitlines() if line.strip()]
            raise DpsparkError(f"Spark did not start ({type(error).__name__}): {' | '.join(lines[-2:])}") from None


def _check_workers_python() -> None:
    """Refuse another Python for the workers now: Spark would find out in its first task, after the charge."""
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
    """Start the session that spark-submit asks for. It has shown Java's own words by then."""
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.appName(name).getOrCreate()
    except Exception as error:
        failed = DpsparkError(f"Spark did not start ({type(error).__name__}): see what spark-submit printed above.")
    raise failed


@contextmanager
def _divert_stderr() -> Iterator[Callable[[], str]]:
    """Give a JVM that starts in this block a scratch file as stderr, so that neither banners nor row values show."""
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
    """Read the log level of a Java that is there from before, if there is one."""
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
    """Remove our settings from Java's properties: they would be every later session's defaults.

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
    """Let pyspark start another Java if the one that it knows was killed: it would go on asking that one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if is_submitted() or SparkContext._gateway is None or not java_is_gone(SparkContext._jvm):
        return
    with suppress(Exception):
        SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
