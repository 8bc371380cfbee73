"""Progress for schedulers: a JSON object for each thing that happens, on a line of its own."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from dpspark.errors import printable
from dpspark.show.progress import Event, Loop, Note, Reading, Step, StepDone, Tasks

SECONDS_BETWEEN_LINES = 2.0


class ProgressLines:
    """A listener that writes JSON lines to stderr.

    A line has a `state`: started, progress and done are of a step, note is for whoever reads the log, and the last one is
    finished or failed.
    """

    def __init__(self) -> None:
        self._about: dict[str, str] = {}
        self._lock = threading.Lock()
        self._step, self._began, self._megabytes = "", 0.0, 0
        self._told_at: float | None = None

    def about(self, name: str, version: str) -> None:
        """Name the release in every line from here on."""
        self._about = {"release": name, "version": version}

    def __call__(self, event: Event) -> None:
        match event:
            case Step(text):
                self._step, self._began, self._megabytes, self._told_at = text, time.perf_counter(), 0, None
                self._write("started", step=text)
            case Note(text=text):
                self._write("note", message=text)
            case Reading(megabytes):
                self._megabytes = megabytes or 0
            case Tasks(done, total, counted):
                self._tasks(done, total, counted)
            case Loop(what, done, total) if done < total and self._is_time():
                self._progress(**{f"{what}_done": done, f"{what}_total": total})
            case StepDone(step, seconds, tasks):
                ran = {} if tasks is None else {"tasks": tasks}
                self._write("done", step=step, seconds=round(seconds, 3), **ran)

    def finished(self, path: str) -> None:
        """Write the last line of a release that was published."""
        self._write("finished", path=path)

    def failed(self, message: str, exit_code: int) -> None:
        """Write the last line of a release that was not."""
        self._write("failed", message=printable(message), exit_code=exit_code)

    def _tasks(self, done: int, total: int, counted: bool) -> None:
        if total == 0 or not self._is_time():
            return
        found = {"tasks_done": done, "tasks_total": total} if counted else {}
        if counted and self._megabytes:
            found["megabytes"] = self._megabytes
        self._progress(**found)

    def _is_time(self) -> bool:
        now = time.perf_counter()
        if self._told_at is not None and now - self._told_at < SECONDS_BETWEEN_LINES:
            return False
        self._told_at = now
        return True

    def _progress(self, **found: int) -> None:
        self._write("progress", step=self._step, seconds=round(time.perf_counter() - self._began, 3), **found)

    def _write(self, state: str, **values: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, **self._about, "state": state, **values}, ensure_ascii=False)
        with self._lock, suppress(Exception):  # nobody may listen any more
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
