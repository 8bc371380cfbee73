"""A note that a job has no executors: Spark's own warning is silenced with its logs, and it would wait without a word."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpspark.show.progress import Note, NoteKind

PATIENCE = 15.0  # seconds between looks
NO_EXECUTOR = (
    "no executor is at work: waiting for the cluster to give one. Are its workers up, and have they the cores and the memory "
    "that this job asks for?"
)


@contextmanager
def watch_executors(spark: Any, note: Callable[[Note], None]) -> Iterator[None]:
    """Note, during this block, that a Spark job waits and there is no executor; once each time."""
    try:
        context = spark.sparkContext
        watched = not context.master.startswith("local")
    except Exception:  # Spark Connect: the executors are the server's
        watched = False
    if not watched:
        yield
        return
    done = threading.Event()
    watch = threading.Thread(target=_watch, args=(context, note, done), daemon=True)
    watch.start()
    try:
        yield
    finally:
        done.set()


def _watch(context: Any, note: Callable[[Note], None], done: threading.Event) -> None:
    told = False
    while not done.wait(PATIENCE):
        try:
            scala = context._jsc.sc()
            lacking = bool(context.statusTracker().getActiveJobsIds()) and scala.getExecutorMemoryStatus().size() == 1
        except Exception:  # Spark has ended, or is about to
            return
        if lacking and not told and not done.is_set():
            note(Note(NoteKind.NO_EXECUTOR, NO_EXECUTOR))
        told = lacking
