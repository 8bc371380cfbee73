"""`dpspark warm`: make Java's class archive for this Spark, so that releases start faster."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from dpspark.cli.options import terminal
from dpspark.errors import ConfError, DpsparkError
from dpspark.show.progress import Step, listening, tell


@click.command()
def warm() -> None:
    """Make Java's class archive, once for each Spark: later releases start faster. It ends when that is done."""
    with listening(terminal):
        path = keep_archive()
    click.echo(str(path))


def keep_archive() -> Path:
    """Make the archive, unless it is there, and give its path."""
    from dpspark.releasing.lock import taking_turns
    from dpspark.spark.class_archive import SWITCH, archive_path, check_place, is_usable, make_archive
    from dpspark.spark.java import ensure_java
    from dpspark.spark.session import check_local

    if os.environ.get(SWITCH, "").lower() == "off":
        raise ConfError(f"{SWITCH} is off, so that releases would not use an archive. Unset it first.")
    check_local()
    ensure_java()
    path = archive_path()
    if path is None:
        raise DpsparkError(
            "No class archive can be kept for this Spark: its directory, or the cache's, cannot be used."
        )
    check_place(path)
    with taking_turns(path.with_suffix(".lock"), tell), _stopped_by_sigterm():
        if is_usable(path):
            tell(Step("the class archive for this Java and this Spark is there"))
        else:
            tell(Step("making a class archive: a minute or two"))
            make_archive(path)
    return path


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Let a scheduler's SIGTERM end what was started here too, as Ctrl-C does."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
