"""Unix sockets through which Spark and its Python workers meet on this machine, in a directory for this user alone.

Spark would put them into the shared temporary directory, where they stay behind and others can try them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import threading

LONGEST = 103  # bytes of a socket's path: macOS allows one less than Linux's 107
NAME = len("/dpspark-12345678/.12345678-1234-1234-1234-123456789abc.sock")

_lock = threading.Lock()
_made: dict[int, str] = {}  # of this process, by its id: a fork has a Java of its own


def socket_settings() -> dict[str, str]:
    """Write the settings of a local session; older Sparks do not know them and use TCP."""
    directory = _directory()
    if directory is None:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": directory,
    }


def _directory() -> str | None:
    """Find or make one directory for the whole process: Java outlives its sessions, and remembers the first one's."""
    with _lock:
        made = _made.get(os.getpid())
        if made is not None and _is_private(made):
            return made
        places = [place for place in (tempfile.gettempdir(), "/tmp") if len(os.fsencode(place)) + NAME <= LONGEST]
        place = next((place for place in places if os.access(place, os.W_OK)), None)
        if place is None:
            return None
        made = tempfile.mkdtemp(prefix="dpspark-", dir=place)
        _made[os.getpid()] = made
        atexit.register(_remove, made, os.getpid())
        return made


def _is_private(directory: str) -> bool:
    """Tell whether the directory is ours alone; make it again if a cleaner of old files took it away."""
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    found = os.lstat(directory)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and stat.S_IMODE(found.st_mode) == 0o700


def _remove(directory: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)
