"""Progress where nobody listens: in a notebook, the cell that runs a release shows it; a script is only warned."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html import escape
from typing import Any

from dpspark.show.notebook import in_notebook
from dpspark.show.progress import Event, Note, NoteKind, Report, Step, Tasks, is_heard, listening

BAR_STEPS = 40  # as on a terminal: where tasks may not be counted, the bar does not tell their number either


@contextmanager
def reporting(name: str, report: Callable[[str], None] | None) -> Iterator[Report | None]:
    """Choose who is told of a release: the caller's report or listeners; else the cell of a notebook, or a script."""
    if report is not None:
        yield lambda event: report(event.text)
    elif is_heard():
        yield None
    elif in_notebook():
        with _shown_in_cell(Cell(name)):
            yield None
    else:
        yield _warn_if_foreseen


@contextmanager
def _shown_in_cell(cell: Cell) -> Iterator[None]:
    try:
        with listening(cell):
            yield
    except BaseException:
        cell.end(failed=True)
        raise
    cell.end()


def _warn_if_foreseen(event: Step | Note) -> None:
    """Print nothing in a script but what it should know before the budget is spent."""
    if isinstance(event, Note) and event.kind is NoteKind.FORESEEN:
        warnings.warn(event.text, UserWarning, stacklevel=2)


class Cell:
    """A listener that shows the step and a bar of Spark tasks; in the end, one quiet line. If it fails, the work goes on."""

    def __init__(self, name: str):
        self._name, self._step = name, ""
        self._notes: list[str] = []
        self._began = self._step_began = time.perf_counter()
        self._lock = threading.Lock()  # tasks are told by a thread of their own
        self._handle: Any = None
        self._shown: tuple[str, str] | None = None

    def __call__(self, event: Event) -> None:
        with self._lock:
            match event:
                case Step(text):
                    self._step, self._step_began = text, time.perf_counter()
                    self._draw(f"{text} …")
                case Note(_, text, short):
                    self._notes.append(short or text)
                    self._draw(f"{self._step} …" if self._step else "")
                case Tasks(done, total, counted) if total:
                    self._draw_bar(done, total, counted)

    def end(self, failed: bool = False) -> None:
        """Leave one line: how the release ended."""
        with self._lock:
            if failed:
                self._draw(f"stopped at: {self._step or 'the start'}")
            elif self._step:
                self._draw(f"released in {time.perf_counter() - self._began:.1f} s")
            else:  # published before: a note says so
                self._draw("")

    def _draw_bar(self, done: int, total: int, counted: bool) -> None:
        seconds = f"{time.perf_counter() - self._step_began:.0f} s"
        self._draw(
            f"{self._step} …",
            f'<progress max="{BAR_STEPS}" value="{BAR_STEPS * done // total}" '
            'style="width: 14em; vertical-align: middle"></progress>',
            f"{done}/{total} tasks, {seconds}" if counted else seconds,
        )

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
