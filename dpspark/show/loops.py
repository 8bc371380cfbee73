"""How far a long loop on the driver is, for whoever listens: `what` is counted, how many are done, and of how many.

For counts that follow from files, options and released columns: never of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

Listener = Callable[[str, int, int], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def tell(what: str, done: int, total: int) -> None:
    listener = _listener.get()
    if listener is not None:
        with suppress(Exception):  # what shows progress cannot stop the work
            listener(what, done, total)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Loops tell this listener meanwhile; at the end, an error's too, it hears that nothing is counted any more."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        tell("", 0, 0)
        _listener.reset(before)
