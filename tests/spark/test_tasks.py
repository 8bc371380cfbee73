"""What a Spark Connect server tells of its tasks, call by call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from dpspark.spark.task_progress import Count, ToldTasks, watch_tasks


class Session:
    """The two methods of a remote session that matter here."""

    def __init__(self) -> None:
        self.handlers: list[Callable[..., None]] = []

    def registerProgressHandler(self, handler: Callable[..., None]) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler: Callable[..., None]) -> None:
        self.handlers.remove(handler)


def stage(completed: Any, tasks: int) -> SimpleNamespace:
    return SimpleNamespace(num_completed_tasks=completed, num_tasks=tasks)


def test_running_and_ended_operations() -> None:
    """The calls that a server made: the end of the last tasks is not told, and the skipped stage stays at none."""
    session = Session()
    tasks = ToldTasks(session)
    (tell,) = session.handlers
    tell(stages=[stage(0, 8)], inflight_tasks=2, operation_id="a", done=False)
    tell(stages=[stage(3, 6)], inflight_tasks=2, operation_id="b", done=False)
    assert tasks.count() == Count(3, 14, 0)
    tell(stages=[stage(8, 8), stage(0, 8), stage(1, 1)], inflight_tasks=0, operation_id="a", done=True)
    assert tasks.count() == Count(3, 6, 9)
    tell(stages=[], inflight_tasks=0, operation_id="b", done=True)
    tell(stages=[stage(0, 1)], inflight_tasks=1, operation_id="c", done=True)
    assert tasks.count() == Count(0, 0, 16)
    tasks.close()
    assert session.handlers == []


def test_the_handler_never_fails() -> None:
    """Kills: an error in it, which would fail this and every later job of the session."""
    session = Session()
    tasks = ToldTasks(session)
    (tell,) = session.handlers
    tell(stages=[stage(None, 8)], operation_id="a", done=False)
    tell(stages=None, operation_id="b", done=True, later=1)
    tell()
    assert tasks.count() == Count()


class HalfDone(ToldTasks):
    def __init__(self) -> None:
        self.asked = threading.Event()

    def count(self) -> Count:
        self.asked.set()
        return Count(1, 2, 0)


def test_the_bar_is_taken_away_whatever_happens() -> None:
    """Kills: an error message, or an interrupt's, drawn behind a bar that is still there."""
    tasks = HalfDone()
    told: list[tuple[int, int]] = []

    def interrupted() -> None:
        with watch_tasks(tasks, lambda done, total: told.append((done, total))):
            assert tasks.asked.wait(60)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert told[-1] == (0, 0)
    assert set(told) <= {(1, 2), (0, 0)}
