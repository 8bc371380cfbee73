"""The progress of a release in the cell that runs it: the step and a bar of Spark tasks; in the end, one quiet line."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from typing import Any

from dpspark.bundle.storage import near
from dpspark.show.notebook import in_notebook

Report = Callable[[str], None]
BAR_STEPS = 40  # as on a terminal: where tasks may not be counted, the bar does not tell their number either


@contextmanager
def shown(name: str, report: Report | None) -> Iterator[Report]:
    """The caller's own report; without one, the cell of a notebook; elsewhere nothing."""
    if report is not None:
        yield report
        return
    if not in_notebook():
        yield _silence
        return
    cell = Cell(name)
    try:
        yield cell
    except BaseException:
        cell.end(failed=True)
        raise
    cell.end()


def _silence(step: str) -> None:
    """A script prints nothing but what it should know before the budget is spent."""
    from dpspark.releasing.steps import FORESEEN

    if step.startswith(FORESEEN):
        warnings.warn(step, UserWarning, stacklevel=2)


class Cell:
    """Called with a step, it shows it; `tasks` draws a bar beside it. Whatever fails here, the release goes on."""

    def __init__(self, name: str):
        self._name, self._step = name, ""
        self._notes: list[str] = []
        self._began = self._step_began = time.perf_counter()
        self._lock = threading.Lock()  # tasks are told by a thread of their own
        self._handle: Any = None
        self._shown: tuple[str, str] | None = None

    def __call__(self, step: str) -> None:
        from dpspark.releasing.steps import NOTES

        with self._lock:
            if step.startswith(NOTES):
                what, colon, place = step.partition(": ")
                self._notes.append(f"{what}{colon}{near(place)}")
            else:
                self._step, self._step_began = step, time.perf_counter()
            self._draw(f"{self._step} …" if self._step else "")

    def tasks(self, done: int, total: int, counted: bool = True) -> None:
        with self._lock:
            if total == 0:
                return
            seconds = f"{time.perf_counter() - self._step_began:.0f} s"
            self._draw(
                f"{self._step} …",
                f'<progress max="{BAR_STEPS}" value="{BAR_STEPS * done // total}" '
                'style="width: 14em; vertical-align: middle"></progress>',
                f"{done}/{total} tasks, {seconds}" if counted else seconds,
            )

    def end(self, failed: bool = False) -> None:
        with self._lock:
            if failed:
                self._draw(f"stopped at: {self._step or 'the start'}")
            elif self._step:
                self._draw(f"released in {time.perf_counter() - self._began:.1f} s")
            else:  # published before: a note says so
                self._draw("")

    def _draw(self, step: str, bar: str = "", tasks: str = "") -> None:
        lines = [f"{self._name}: {line}" for line in (*self._notes, " ".join(filter(None, [step, tasks]))) if line]
        html = "<br>".join(escape(f"{self._name}: {line}") for line in self._notes)
        if step:
            now = " ".join(filter(None, [escape(f"{self._name}: {step}"), bar, escape(tasks)]))
            html = f"{html}<br>{now}" if html else now
        with suppress(Exception):  # the front end may be gone
            self._show("\n".join(lines), f'<div style="opacity: 0.8; font-size: 0.92em">{html}</div>')

    def _show(self, text: str, html: str) -> None:
        if self._shown == (text, html):
            return
        from IPython.display import display

        content = {"text/plain": text, "text/html": html}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)
        self._shown = text, html
