"""Directories of the user's own, for files that are made once and run later. Nobody else may write there."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def cache_directories() -> list[Path]:
    """List the places to keep files in, best first: the user's cache, then the temporary directory."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    first = Path(chosen) if chosen else Path(os.path.expanduser("~")) / ".cache"
    return [first / "dpspark", Path(tempfile.gettempdir()) / f"dpspark-{user}"]


def own_directory(path: Path) -> Path:
    """Make the directory, for its owner alone. OSError if others own it or can write to it: they could change what is run."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not belongs_to_user(path) or path.stat().st_mode & 0o022:
        raise PermissionError(f"{path} belongs to another user, or others can write to it")
    return path


def belongs_to_user(path: Path) -> bool:
    """Tell whether a file or directory is this user's, and no link that another could have put there."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return not stat.S_ISLNK(found.st_mode) and (not hasattr(os, "getuid") or found.st_uid == os.getuid())
