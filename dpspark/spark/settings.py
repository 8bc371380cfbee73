"""Settings of a session that a release needs for a while, and that other threads' releases may need too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dpspark.errors import DpsparkError


@dataclass
class _Held:
    before: str | None
    value: str
    holders: int = 0


_lock = threading.Lock()
_held: dict[tuple[str, str], _Held] = {}


@contextmanager
def hold_settings(spark: Any, settings: dict[str, str]) -> Iterator[None]:
    """Set these until the end of the block. The last of several blocks at once brings back what was there before."""
    session, taken = _identity(spark), []
    try:
        for key, value in settings.items():
            with _lock:
                found = _held.get((session, key)) or _Held(spark.conf.get(key, None), value)
                if found.value != value:
                    raise DpsparkError(
                        f"Another release runs in this Spark session, with {key}={found.value!r}; this one needs {value!r}.\n"
                        "Run one after the other, or give each a session of its own (spark.newSession())."
                    )
                spark.conf.set(key, value)
                found.holders += 1
                _held[session, key] = found
                taken.append(key)
        yield
    finally:
        for key in taken:
            with _lock:
                found = _held[session, key]
                found.holders -= 1
                if not found.holders:
                    del _held[session, key]
                    with suppress(Exception):  # a server that is lost has no settings
                        spark.conf.unset(key) if found.before is None else spark.conf.set(key, found.before)


def _identity(spark: Any) -> str:
    """Identify the session itself: Python may have several objects for one."""
    try:
        return str(spark.session_id)  # of a Spark Connect server
    except Exception:
        return str(spark._jsparkSession.hashCode())
