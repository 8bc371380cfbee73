"""The progress of a release's Spark tasks: a classic session is asked, a Spark Connect server tells."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple

from dpspark.show import logs
from dpspark.show.progress import Steps, Tasks

SECONDS_BETWEEN_LOOKS = 0.2
RUNNING = "RUNNING"


class Count(NamedTuple):
    """Tasks of jobs that run now, and of jobs that ended."""

    done: int = 0
    total: int = 0
    before: int = 0


class AskedTasks:
    """Tasks of a classic session, which is asked.

    The jobs of this thread carry a tag meanwhile, so that others of the same session are not counted.
    """

    def __init__(self, spark: Any):
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._jobs = self._context._jsc.sc().statusTracker().getJobIdsForTag
        self._tag = f"dpspark-{uuid.uuid4().hex}"
        self._ended: dict[int, int] = {}
        self._context.addJobTag(self._tag)

    def count(self) -> Count:
        done = total = 0
        for job in list(self._jobs(self._tag)):
            if job in self._ended:
                continue
            found = self._tracker.getJobInfo(job)
            if found is None:
                continue
            stages = [stage for stage in map(self._tracker.getStageInfo, list(found.stageIds)) if stage is not None]
            completed = sum(stage.numCompletedTasks for stage in stages)
            if found.status == RUNNING:
                done, total = done + completed, total + sum(stage.numTasks for stage in stages)
            else:  # a stage that was skipped has tasks, none of them completed
                self._ended[job] = completed
        return Count(done, total, sum(self._ended.values()))

    def close(self) -> None:
        self._context.removeJobTag(self._tag)


class ToldTasks:
    """Tasks of a Spark Connect server, which tells of them now and then.

    A handler that fails would fail later jobs of the session: this one does not.
    """

    def __init__(self, spark: Any):
        self._spark = spark
        self._running: dict[str, list[tuple[int, int]]] = {}  # completed and all tasks of each stage
        self._before = 0
        spark.registerProgressHandler(self._told)

    def _told(self, stages: Sequence[Any] = (), operation_id: str = "", done: bool = False, **_: Any) -> None:
        with suppress(Exception):
            if stages:
                seen = [(int(stage.num_completed_tasks), int(stage.num_tasks)) for stage in stages]
                self._running[operation_id] = seen
            if done:
                # The last tasks are not told. A stage of which none was is one that was skipped, unless all are so.
                seen = self._running.pop(operation_id, [])
                self._before += sum(tasks for completed, tasks in seen if completed) or sum(tasks for _, tasks in seen)

    def count(self) -> Count:
        seen = [stage for stages in list(self._running.values()) for stage in stages]
        return Count(sum(completed for completed, _ in seen), sum(tasks for _, tasks in seen), self._before)

    def close(self) -> None:
        self._spark.removeProgressHandler(self._told)


def tasks_of(spark: Any) -> AskedTasks | ToldTasks | None:
    """Find out how to count a session's tasks; None where it does not say."""
    with suppress(Exception):
        return ToldTasks(spark) if ".connect." in type(spark).__module__ else AskedTasks(spark)
    return None


@contextmanager
def follow_tasks(spark: Any, steps: Steps) -> Iterator[None]:
    """Count the tasks of each step on this session, and tell how far they are, if anyone wants to know."""
    tasks = tasks_of(spark) if steps.is_heard or logs.wanted() else None
    if tasks is None:
        yield
        return

    def count_ended() -> int:
        with suppress(Exception):
            return tasks.count().before
        return 0

    def tell(done: int, total: int) -> None:
        steps.tell(Tasks(done, total, steps.counted))

    before, steps.count_ended_tasks = steps.count_ended_tasks, count_ended
    logs.info("%s: Spark %s", steps.name, spark.version)
    try:
        with watch_tasks(tasks, tell) if steps.is_heard else nullcontext():
            yield
        steps.end()
    finally:
        steps.count_ended_tasks = before
        with suppress(Exception):  # Java may be gone
            tasks.close()


@contextmanager
def watch_tasks(tasks: AskedTasks | ToldTasks, tell: Callable[[int, int], None]) -> Iterator[None]:
    """Tell how many tasks are done, of how many, a few times a second."""
    finished = threading.Event()

    def look() -> None:
        while not finished.wait(SECONDS_BETWEEN_LOOKS):
            with suppress(Exception):  # Java may be gone: whoever waits for the job says so
                count = tasks.count()
                if not finished.is_set():
                    tell(count.done, count.total)

    looker = threading.Thread(target=look, name="dpspark progress", daemon=True)
    looker.start()
    try:
        yield
    finally:
        finished.set()
        looker.join(5)
        with suppress(Exception):
            tell(0, 0)  # whatever comes next, an error too, starts on a clean line
