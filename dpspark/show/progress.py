"""Progress: what happens while dpspark works, as typed events, for whoever listens.

Events count files, tasks and options, and sizes that follow from files: never rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum

from dpspark.show import logs


class NoteKind(Enum):
    """The subject of a note."""

    ALREADY_PUBLISHED = "already published"  # nothing was read or spent
    ADOPTED = "adopted"  # an earlier run's draw, charged now
    INSTALLED = "installed"  # a server's own dpspark is used, as it takes none
    LOADED = "loaded"  # into the tables of a warehouse
    FORESEEN = "foreseen"  # what the plan expects to be of no use; told before the charge
    LOW_BUDGET = "low budget"
    NO_EXECUTOR = "no executor"
    WAITING = "waiting"  # for another run of the same release
    ROWS_USED = "rows used"  # their number, if the release publishes it


@dataclass(frozen=True)
class Step:
    """A step begins, and the one before it is over."""

    text: str


@dataclass(frozen=True)
class Note:
    """A message for whoever reads the log; the step goes on."""

    kind: NoteKind
    text: str
    short: str = ""  # the same with paths from the working directory on, where it has any


@dataclass(frozen=True)
class Reading:
    """The step that was told last reads the source: so many megabytes; None where that is not to be known."""

    megabytes: int | None = None


@dataclass(frozen=True)
class Tasks:
    """The number of Spark tasks that are done, of how many: told a few times a second; at the end, 0 of 0.

    Their number is to be shown only if it is `counted`: if it follows from the files alone. Of a query or a shuffle it can
    depend on single rows, as Spark leaves out stages that have none.
    """

    done: int
    total: int
    counted: bool = True


@dataclass(frozen=True)
class StepDone:
    """A step has ended; `tasks` is None where their number is not to be known."""

    step: str
    seconds: float
    tasks: int | None = None


@dataclass(frozen=True)
class Loop:
    """The progress of a long loop on the driver: of `what` (files, subsets, replicates) so many are done.

    Once listening ends, 0 of 0 of nothing.
    """

    what: str
    done: int
    total: int


Event = Step | Note | Reading | Tasks | StepDone | Loop
Listener = Callable[[Event], None]
Report = Callable[[Step | Note], None]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let a listener hear all events of this thread meanwhile, beside those that listen already."""
    before = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(before)
        _tell(listener, Loop("", 0, 0))  # after an error too: whatever is shown next starts on a clean line


def is_heard() -> bool:
    """Return whether anyone listens."""
    return bool(_listeners.get())


def tell(event: Event) -> None:
    """Tell an event to whoever listens."""
    for listener in _listeners.get():
        _tell(listener, event)


def _tell(listener: Listener, event: Event) -> None:
    with suppress(Exception):  # what shows progress cannot stop the work
        listener(event)


class Steps:
    """The steps of one piece of work: call it with each. They are timed, logged, and told to whoever listens.

    Whoever listens when it is made hears all of it, from other threads too. A `report` gets steps and notes alone, and
    stops the work if it fails, as a listener cannot.
    """

    def __init__(self, name: str, report: Report | None = None, counted: bool = False):
        self.name, self.counted = name, counted  # may the number of tasks be known? See Tasks.
        self.count_ended_tasks: Callable[[], int] = _none
        self._report, self._listeners = report, _listeners.get()
        self._step: str | None = None
        self._began, self._tasks_before = 0.0, 0

    @property
    def is_heard(self) -> bool:
        """Whether anyone listens to events."""
        return bool(self._listeners)

    def __call__(self, text: str) -> None:
        """Begin a step."""
        self.end()
        self._step, self._began, self._tasks_before = text, time.perf_counter(), self.count_ended_tasks()
        self._say(Step(text))

    def note(self, note: Note) -> None:
        """Pass on a note; the step goes on."""
        self._say(note)

    def tell(self, event: Event) -> None:
        """Tell an event to the listeners alone."""
        for listener in self._listeners:
            _tell(listener, event)

    def end(self) -> None:
        """End the step that was begun last."""
        if self._step is not None:
            ran = self.count_ended_tasks() - self._tasks_before if self.counted else 0
            tasks = f", {ran:,} task{'' if ran == 1 else 's'}" if ran > 0 else ""
            seconds = time.perf_counter() - self._began
            logs.info("%s: %s took %.1f s%s", self.name, self._step, seconds, tasks)
            self.tell(StepDone(self._step, seconds, ran or None))
        self._step = None

    def _say(self, event: Step | Note) -> None:
        logs.info("%s: %s", self.name, event.text)
        self.tell(event)
        if self._report is not None:
            self._report(event)


def _none() -> int:
    return 0
