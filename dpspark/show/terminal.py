"""Progress on a terminal: the steps of a command, and a bar that goes again."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress

import click

from dpspark.show.colour import takes_colour
from dpspark.show.progress import Event, Loop, Note, Reading, Step, Tasks

WIDEST = 40
ERASE = "\r\x1b[K"
SECONDS_BETWEEN_DRAWINGS = 0.1


class Terminal:
    """A listener that shows steps on stderr, so that stdout can be piped, and draws a bar below them.

    Quiet when nobody looks, but for notes, which a log must show.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn = False
        self._began = time.perf_counter()
        self._megabytes = 0
        self._counts, self._drawn_at = ("", 0), 0.0

    def __call__(self, event: Event) -> None:
        match event:
            case Step(text):
                shown = f"  {text} ..."
                self._say(click.style(shown, dim=True) if takes_colour(sys.stderr) else shown, always=False)
            case Note(text=text):
                self._say(text, always=True)
            case Reading(megabytes):
                self._megabytes = megabytes or 0
            case Tasks(done, total, counted):
                self._draw(done, total, "tasks" if counted else "")
            case Loop(what, done, total):
                self._draw_loop(what, done, total)

    def about(self, name: str, version: str) -> None:
        """Say nothing: whoever looks at a terminal knows the release."""

    def finished(self, path: str) -> None:
        """Say nothing: the path is shown on stdout."""

    def _say(self, text: str, always: bool) -> None:
        """Show a line, and count time and megabytes from here on."""
        with self._lock:
            self._erase()
            self._began, self._megabytes = time.perf_counter(), 0
            if always or is_terminal():
                click.echo(text, err=True)

    def _draw_loop(self, what: str, done: int, total: int) -> None:
        """Redraw the bar now and then, however often a loop tells."""
        now = time.perf_counter()
        if self._counts != (what, total):
            self._counts, self._began, self._drawn_at = (what, total), now, now
        if done >= total:
            self._draw(0, 0, what)
        elif now - self._drawn_at >= SECONDS_BETWEEN_DRAWINGS:
            self._drawn_at = now
            self._draw(done, total, what)

    def _draw(self, done: int, total: int, what: str) -> None:
        """Redraw the bar; where there is nothing to count, take it away."""
        with self._lock:
            if total == 0 or not is_terminal() or os.environ.get("TERM") == "dumb":
                self._erase()
                return
            seconds = time.perf_counter() - self._began
            self._drawn = True
            _write(ERASE + bar(done, total, seconds, columns(), what, self._megabytes))

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = False
            _write(ERASE)


def bar(done: int, total: int, seconds: float, width: int, what: str = "tasks", megabytes: int = 0) -> str:
    """Lay out one line, shorter than the terminal is wide, so that it can be drawn over. Without `what`, it has no counts."""
    counted = f"{done:{len(str(total))}}/{total} {what}" if what else ""
    text = f"{counted}{seconds:8.1f} s"  # of even width
    if what and megabytes:  # tasks are about as large as each other
        longer = f"{counted}  {megabytes * done // total:{len(str(megabytes))}}/{megabytes} MB{seconds:8.1f} s"
        text = longer if len(longer) + 10 <= width else text
    room = min(WIDEST, width - len(text) - 6)  # two spaces, brackets, a space, and the last column stays free
    if room >= 4:
        filled = room * done // total
        text = f"[{'#' * filled}{'.' * (room - filled)}] {text}"
    return f"  {text}"[: max(0, width - 1)]


def is_terminal() -> bool:
    """Return whether stderr is a terminal."""
    with suppress(Exception):  # closed, or none at all
        return sys.stderr.isatty()
    return False


def columns() -> int:
    """Return how wide the terminal is."""
    with suppress(Exception):
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return 80


def _write(text: str) -> None:
    with suppress(Exception):  # the terminal may be gone
        sys.stderr.write(text)
        sys.stderr.flush()
