"""Where Spark and its Python workers meet on this machine: Unix sockets in a directory for this user alone.

Spark's own place for them is the shared temporary directory, where they stay behind and others can try them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST = 103  # bytes of a socket's path: macOS allows one less than Linux's 107
NAME = len("/dpspark-12345678/.12345678-1234-1234-1234-123456789abc.sock")


@contextmanager
def socket_settings() -> Iterator[dict[str, str]]:
    """Settings of a local session; older Sparks do not know them and use TCP."""
    places = [place for place in (tempfile.gettempdir(), "/tmp") if len(os.fsencode(place)) + NAME <= LONGEST]
    place = next((place for place in places if os.access(place, os.W_OK)), None)
    if place is None:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="dpspark-", dir=place, ignore_cleanup_errors=True) as directory:
        yield {
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.unix.domain.socket.dir": directory,
        }
