"""The steps of a release: told to the caller, logged with their times and tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dpspark.ledger.balance import LOW_BUDGET
from dpspark.releasing.lock import WAITING
from dpspark.show import logs
from dpspark.spark.task_progress import Count, looked_at, tasks_of
from dpspark.spark.waiting import NO_EXECUTOR

Report = Callable[[str], None]

READING = "reading"
ALREADY_PUBLISHED = "already published, nothing was read or spent"
ADOPTED = "an earlier run drew this release, and this ledger has no charge for it"
FORESEEN = "at the expected "  # how a warning of planning.foresight begins
NOTES = (ALREADY_PUBLISHED, ADOPTED, FORESEEN, LOW_BUDGET, NO_EXECUTOR, WAITING)  # no steps: nothing to time


class Steps:
    """Call it with each step. A `report` may have methods too, each of which it is told by, if it has it:

    `tasks(done, total, counted)`: how far Spark is, a few times a second. `reads(megabytes)`: how much the step that was told
    last will read. `done(step, seconds, tasks)`: a step has ended; `tasks` is None where their number is not to be known.

    The number of tasks is logged and shown where it follows from the files alone (`counted`): of a query or a shuffle it can
    depend on single rows, as Spark leaves out stages that have none.
    """

    def __init__(self, name: str, report: Report):
        self._name, self._report = name, report
        self._step: str | None = None
        self._began = 0.0
        self._tasks_before = 0
        self._count: Callable[[], Count] = Count
        self.counted = False

    def __call__(self, step: str) -> None:
        if not step.startswith(NOTES):
            self.end()
            self._step, self._began, self._tasks_before = step, time.perf_counter(), self._count().before
        logs.info("%s: %s", self._name, step)
        self._report(step)

    def end(self) -> None:
        """The step that was told last is done."""
        if self._step is not None:
            ran = self._count().before - self._tasks_before if self.counted else 0
            tasks = f", {ran:,} task{'' if ran == 1 else 's'}" if ran > 0 else ""
            seconds = time.perf_counter() - self._began
            logs.info("%s: %s took %.1f s%s", self._name, self._step, seconds, tasks)
            self._tell("done", self._step, seconds, ran or None)
        self._step = None

    def reads(self, megabytes: int) -> None:
        """How much the step that was told last will read."""
        self._tell("reads", megabytes)

    def _tell(self, what: str, *values: Any) -> None:
        tell = getattr(self._report, what, None)
        if tell is not None:
            with suppress(Exception):  # what shows progress cannot stop a release
                tell(*values)

    @contextmanager
    def on(self, spark: Any) -> Iterator[None]:
        """Follow the tasks of this session."""
        tell = getattr(self._report, "tasks", None)
        tasks = tasks_of(spark) if tell is not None or logs.wanted() else None
        if tasks is None:
            yield
            return

        def count() -> Count:
            with suppress(Exception):
                return tasks.count()
            return Count()

        self._count = count
        logs.info("%s: Spark %s", self._name, spark.version)
        try:
            with looked_at(tasks, None if tell is None else lambda done, total: tell(done, total, self.counted)):
                yield
            self.end()
        finally:
            self._count = Count
            with suppress(Exception):  # Java may be gone
                tasks.close()
