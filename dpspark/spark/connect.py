"""A session on a Spark Connect server: no Java here; what executors import travels there. Imported only where there is one."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from weakref import WeakSet

import grpc
from pyspark.sql.connect.session import SparkSession

from dpspark.errors import ConfError, DpsparkError
from dpspark.show.logs import info
from dpspark.show.progress import Note, NoteKind, tell
from dpspark.spark.executor_zip import write_zip
from dpspark.spark.frames import condition
from dpspark.spark.installed import check_installed

try:
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
except ImportError:  # Spark 3.5, which gives a lost server up after ten minutes
    from pyspark.sql.connect.client import ChannelBuilder as DefaultChannelBuilder

    DefaultPolicy = object

ANSWER_WITHIN = 10  # seconds, for a server to be there at all
LOST_AFTER = 60  # seconds of silence, until a server that was there is given up
LONGEST_WAIT = 5  # seconds between two tries
USES_INSTALLED = "this server takes no packages: its own dpspark is used, of the same version and sources"
SHOULD_BE = "expected sc://host:port, with /;use_ssl=true and the like after it"


class Patience(DefaultPolicy):
    """Retry what pyspark retries, but not for ten minutes; and once given up, not again for each thing left to clean up."""

    def __init__(self) -> None:
        super().__init__(max_retries=None, max_backoff=1000 * LONGEST_WAIT)
        self._began = self._last = -float("inf")

    def can_retry(self, e: BaseException) -> bool:
        if not super().can_retry(e):
            return False
        now = time.monotonic()
        if now - self._last > 60 + LONGEST_WAIT:  # no try failed for so long: it was there in between
            self._began = now
        self._last = now
        return now - self._began < LOST_AFTER


def open_session(url: str) -> Any:
    """A new session on the server. Nothing of the URL but its host and port is shown: it may hold a token."""
    try:
        found = DefaultChannelBuilder(url)
        channel, place = found.toChannel(), found.endpoint
    except Exception:  # its text quotes the URL
        raise ConfError(f"--remote, or SPARK_REMOTE: not the URL of a Spark Connect server; {SHOULD_BE}.") from None
    try:
        _wait_for(channel, place)
    finally:
        channel.close()
    with ExitStack() as undo:
        session = SparkSession(url)
        undo.callback(session.client.close)
        _ask(session, place)
        _be_patient(session.client)
        send_package(session)
        undo.pop_all()
    return session


def _ask(session: Any, place: str) -> None:
    try:
        session.version  # noqa: B018  the first thing that it is asked
    except Exception as error:
        kind = _kind(error)
    else:
        return
    raise DpsparkError(f"The Spark Connect server at {place} gave no session ({kind}). Check its token and its logs.")


def _wait_for(channel: Any, place: str) -> None:
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_WITHIN)
    except grpc.FutureTimeoutError:
        raise DpsparkError(
            f"No Spark Connect server answers at {place}. Check host and port, and that it runs.\n"
            "If it has TLS, add /;use_ssl=true to the URL; a token means TLS too, but for sc://localhost."
        ) from None


@contextmanager
def use_session(spark: Any) -> Iterator[None]:
    """A session that answers, has this package, and is given up in good time if its server is lost."""
    if spark.is_stopped:
        raise DpsparkError("The Spark session was stopped. Make a new one.")
    client = spark.client
    _wait_for(client._channel, getattr(client._builder, "endpoint", client._builder.host))
    before = _be_patient(client)
    try:
        send_package(spark)
        yield
    finally:
        if before and not is_lost(spark):  # pyspark cleans up when a process ends, and would wait for ten minutes
            client.set_retry_policies(before)


def _be_patient(client: Any) -> list[Any]:
    """The policies that it had before, if they were others."""
    if DefaultPolicy is object:
        return []
    before = client.get_retry_policies()
    if any(isinstance(policy, Patience) for policy in before):
        return []
    client.set_retry_policies([Patience()])
    return before


_sent: WeakSet[Any] = WeakSet()


def send_package(spark: Any) -> None:
    """Give the server's Python what executors import, from this very package. It comes before one that is installed there.

    A server that takes no packages must have this one installed.
    """
    if spark in _sent:
        return
    with tempfile.TemporaryDirectory(prefix="dpspark-") as directory:
        package = str(write_zip(directory))
        try:
            spark.addArtifacts(package, pyfile=True)
        except Exception as error:
            kind, takes_none = _kind(error), _is_unsupported(error)
        else:
            _sent.add(spark)
            return
        finally:
            with suppress(ValueError):
                sys.path.remove(package)  # pyspark puts it on this side's path too
    if takes_none:
        check_installed(spark)
        _sent.add(spark)
        info("%s", USES_INSTALLED)
        tell(Note(NoteKind.INSTALLED, USES_INSTALLED))
        return
    raise DpsparkError(f"The Spark Connect server did not take the package ({kind}). Start a new session.")


def _is_unsupported(error: Exception) -> bool:
    """Tell whether a server says that it has no such call; some say so by the name of the error alone."""
    code = getattr(error, "getGrpcStatusCode", None) or getattr(error, "code", None)
    named = type(error).__name__ == "UnsupportedOperationException"
    return named or (callable(code) and code() == grpc.StatusCode.UNIMPLEMENTED)


def _kind(error: Exception) -> str:
    status = getattr(error, "getGrpcStatusCode", None)
    return f"{condition(error)}, {status().name}" if status else condition(error)


def is_lost(spark: Any) -> bool:
    """The server does not answer any more, or has forgotten the session."""
    try:
        spark.conf.get("spark.sql.ansi.enabled")
    except Exception:
        return True
    return False
