"""The `dpspark` logger: at INFO, what runs, on how many tasks, and how long it took. Never counts of rows, nor values."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOGGER = logging.getLogger("dpspark")
LOGGER.addHandler(logging.NullHandler())
LINE = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_others_silent_since: list[int] = []  # what logging.disable() was set to before


@contextmanager
def others_silent() -> Iterator[None]:
    """Let nothing be logged meanwhile but by dpspark: other libraries log what their calls were, and failed on."""
    before = logging.root.manager.disable
    _others_silent_since.append(before)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        _others_silent_since.pop()
        logging.disable(before)


def wanted() -> bool:
    """Return whether somebody reads the log at INFO."""
    disabled = _others_silent_since[0] if _others_silent_since else LOGGER.manager.disable
    return not LOGGER.disabled and max(LOGGER.getEffectiveLevel(), disabled + 1) <= logging.INFO


def info(text: str, *values: object) -> None:
    """Log a line, while all others are silent too."""
    if wanted():
        LOGGER.handle(LOGGER.makeRecord(LOGGER.name, logging.INFO, __file__, 0, text, values, None))


@contextmanager
def on_stderr() -> Iterator[None]:
    """Log at INFO on stderr, with time stamps, for a command that was asked for it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(LINE))
    level, propagate = LOGGER.level, LOGGER.propagate
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    try:
        yield
    finally:
        LOGGER.propagate = propagate
        LOGGER.setLevel(level)
        LOGGER.removeHandler(handler)
