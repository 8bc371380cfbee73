"""Runs of one release take turns.

This saves a second read of the data, and no more: which draw is published is the ledger's to say, on a file system without
locks too.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpspark.show.progress import Note, NoteKind

WAITING = "another run of this release is at work"


@contextmanager
def taking_turns(lock: Path, note: Callable[[Note], None]) -> Iterator[None]:
    """Wait until no other run holds this lock. The system lets go of it when its holder ends, however it ends."""
    handle = _acquire(lock, note)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):
                lock.unlink()  # while it is still held, so that no other run's is removed
            os.close(handle)


def _acquire(lock: Path, note: Callable[[Note], None]) -> int | None:
    """Take the lock, and return its handle; None where there are no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    while True:
        try:
            handle = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                note(Note(NoteKind.WAITING, f"{WAITING} ({_holder(handle)}): waiting for it"))
                fcntl.flock(handle, fcntl.LOCK_EX)
        except BaseException as error:  # Ctrl-C too
            os.close(handle)
            if isinstance(error, OSError):
                return None
            raise
        if _is_at(handle, lock):
            with suppress(OSError):
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return handle
        os.close(handle)  # its holder removed it meanwhile


def _holder(handle: int) -> str:
    return os.pread(handle, 200, 0).decode(errors="replace") or "just started"


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False
