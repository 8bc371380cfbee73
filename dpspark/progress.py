"""What a command shows while it works, on a terminal alone: its steps, and a bar of Spark tasks that goes again."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress

import click

WIDEST = 40
ERASE = "\r\x1b[K"


class Terminal:
    """Called with a step, it shows it on stderr, so that stdout can be piped; `tasks` draws a bar below it.

    Quiet when nobody looks, but for what a log must show.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn = False
        self._began = time.perf_counter()

    def __call__(self, step: str) -> None:
        from dpspark.executors import NO_EXECUTOR
        from dpspark.privacy.balance import LOW_BUDGET
        from dpspark.steps import ALREADY_PUBLISHED
        from dpspark.turns import WAITING

        with self._lock:
            self._erase()
            self._began = time.perf_counter()
            if step.startswith((ALREADY_PUBLISHED, LOW_BUDGET, WAITING, NO_EXECUTOR)):
                click.echo(step, err=True)
            elif is_terminal():
                click.echo(click.style(f"  {step} ...", dim=True), err=True)

    def tasks(self, done: int, total: int, counted: bool = True) -> None:
        """Redraw the bar; without tasks, take it away."""
        with self._lock:
            if total == 0 or not is_terminal() or os.environ.get("TERM") == "dumb":
                self._erase()
                return
            line = bar(done, total, time.perf_counter() - self._began, columns(), counted)
            self._drawn = True
            _write(ERASE + line)

    def _erase(self) -> None:
        if self._drawn:
            self._drawn = False
            _write(ERASE)


def bar(done: int, total: int, seconds: float, width: int, counted: bool = True) -> str:
    """One line, shorter than the terminal is wide, so that it can be drawn over."""
    tasks = f"{done:{len(str(total))}}/{total} tasks" if counted else ""
    text = f"{tasks}{seconds:8.1f} s"  # of even width
    room = min(WIDEST, width - len(text) - 6)  # two spaces, brackets, a space, and the last column stays free
    if room >= 4:
        filled = room * done // total
        text = f"[{'#' * filled}{'.' * (room - filled)}] {text}"
    return f"  {text}"[: max(0, width - 1)]


def is_terminal() -> bool:
    with suppress(Exception):  # closed, or none at all
        return sys.stderr.isatty()
    return False


def columns() -> int:
    with suppress(Exception):
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    return 80


def _write(text: str) -> None:
    with suppress(Exception):  # the terminal may be gone
        sys.stderr.write(text)
        sys.stderr.flush()
