"""A context that several threads need at once: the first begins it, the last ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any


class Shared:
    """A context that the first of several blocks enters, and the last one leaves. All get what the first one got."""

    def __init__(self, make: Callable[..., AbstractContextManager[Any]]):
        self._make = make
        self._lock = threading.RLock()
        self._users = 0
        self._ending = ExitStack()
        self._value: Any = None

    @contextmanager
    def __call__(self, *arguments: Any) -> Iterator[Any]:
        with self._lock:
            if not self._users:
                self._value = self._ending.enter_context(self._make(*arguments))
            self._users += 1
        try:
            yield self._value
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._value = None
                    self._ending.close()
