"""The writing of a release to a store, which can rename nothing: one file at a time, and each of them whole.

The manifest names the digest of every table and is written after them: a staged bundle without one is no bundle. Publishing
copies the tables, then the manifest, then `_SUCCESS`, without which nobody reads it as a release. All of this can be done
again, by another driver too: the ledger names one bundle, so all write the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.bundle.files import MANIFEST, STAGED_NAME, STAGING, SUCCESS
from dpspark.bundle.storage import Place, StorePath
from dpspark.errors import OutputError

EMPTY = hashlib.sha256(b"").hexdigest()


def stage(output: StorePath, entry_id: str, tables: Mapping[str, pa.Table], manifest: dict[str, Any]) -> str:
    files = {}
    for name, table in tables.items():
        written = io.BytesIO()
        pq.write_table(table, written)
        files[f"{name}.parquet"] = written.getvalue()
    digests = {name: {"sha256": _digest(content)} for name, content in files.items()}
    text = json.dumps({**manifest, "files": digests}, indent=2, ensure_ascii=False) + "\n"
    files[MANIFEST] = text.encode("utf-8")  # the last one
    digest = _digest(files[MANIFEST])
    folder = output / STAGING / f"{entry_id}.{digest}"
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return digest


def staged_digests(output: StorePath, entry_id: str) -> list[str]:
    found = (path.name.removeprefix(f"{entry_id}.") for path in staged_paths(output, entry_id))
    return sorted(digest for digest in found if is_staged(output / STAGING / f"{entry_id}.{digest}", digest))


def staged_paths(output: StorePath, entry_id: str) -> list[StorePath]:
    """List all that a reservation has there, complete or not. What is left of an emptied directory does not count."""
    found = [path for path in (output / STAGING).iterdir() if path.name.startswith(f"{entry_id}.")]
    return [path for path in found if any(path.iterdir())]


def staged_bundles(output: StorePath) -> list[StorePath]:
    found = [path for path in (output / STAGING).iterdir() if STAGED_NAME.fullmatch(path.name)]
    return [path for path in found if _digest_at(path) is not None]


def is_staged(staged: StorePath, digest: str) -> bool:
    return _digest_at(staged) == digest


def discard(staged: StorePath) -> None:
    with suppress(OSError):
        (staged / MANIFEST).unlink()  # first, so that no half of it is taken for the whole
    with suppress(OSError):
        staged.remove()


def publish(staged: StorePath, final: StorePath, digest: str) -> None:
    found = _digest_at(final)
    if found not in (None, digest):
        raise OutputError(f"{final} holds another bundle. Choose another output.path or release.version.")
    if found is None:
        try:
            _copy(staged, final, digest)
        except FileNotFoundError:
            # Who published it meanwhile has taken away what was staged.
            if not ((final / SUCCESS).exists() and _digest_at(final) == digest):
                raise
    if not (final / SUCCESS).exists():
        (final / SUCCESS).write_bytes(b"")


def _copy(staged: StorePath, final: StorePath, digest: str) -> None:
    """Copy the tables, then the manifest: where it is, they are."""
    manifest = (staged / MANIFEST).read_bytes()
    if _digest(manifest) != digest:
        raise damaged_error(staged)
    for name, expected in json.loads(manifest)["files"].items():
        content = (staged / name).read_bytes()
        if _digest(content) != expected["sha256"]:
            raise damaged_error(staged)
        (final / name).write_bytes(content)
    (final / MANIFEST).write_bytes(manifest)


def check_writable(output: StorePath) -> None:
    """Write a file, delete it, and do so again: to some servers what is left of an emptied directory is a file."""
    probe = output / STAGING / f"probe.{uuid.uuid4().hex}"
    probe.write_bytes(b"")
    try:
        probe.unlink()
        probe.write_bytes(b"")
        probe.unlink()
    except OSError:
        failed = OutputError(
            f"output '{output}': the store can be written, but no longer once a file there was deleted: it takes the mark of "
            "an empty directory for a file (as rclone's server does), or nothing may be deleted.\n"
            "Let the job delete there, or choose another output.path or --out."
        )
    else:
        return
    raise failed


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_at(folder: StorePath) -> str | None:
    """Hash the manifest there. On HDFS a file is empty until it is written: that is none."""
    try:
        found = _digest((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    return None if found == EMPTY else found


def damaged_error(staged: Place) -> OutputError:
    """Make the error for a staged bundle that was changed."""
    return OutputError(f"{staged} was changed since it was staged. It was not published; restore it, and run again.")
