"""The writing of a release: it is staged beside its place, then published whole.

On a disk a directory is renamed. Stores cannot do that: see store_staging.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.bundle import store_staging
from dpspark.bundle.files import MANIFEST, PARTIAL, STAGED_NAME, STAGING, SUCCESS, manifest_digest
from dpspark.bundle.storage import Place, StorePath
from dpspark.errors import OutputError


def stage(output: Place, entry_id: str, tables: Mapping[str, pa.Table], manifest: dict[str, Any]) -> str:
    """Write a complete bundle beside its final place, durably; it appears under its name whole or not at all.

    Returns that name: the digest of its manifest, which has those of its tables. The ledger decides whether it is published.
    """
    try:
        if isinstance(output, StorePath):
            return store_staging.stage(output, entry_id, tables, manifest)
        return _stage(output, entry_id, tables, manifest)
    except OSError as error:
        raise _unfinished(output, error) from None


def _stage(output: Path, entry_id: str, tables: Mapping[str, pa.Table], manifest: dict[str, Any]) -> str:
    partial = output / STAGING / f"{entry_id}.{uuid.uuid4().hex}{PARTIAL}"
    try:
        partial.mkdir(mode=0o700, parents=True)
        digests = {}
        for name, table in tables.items():
            path = partial / f"{name}.parquet"
            pq.write_table(table, path)
            os.chmod(path, 0o600)
            _fsync(path)
            digests[path.name] = {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        content = json.dumps({**manifest, "files": digests}, indent=2, ensure_ascii=False) + "\n"
        (partial / MANIFEST).write_text(content, encoding="utf-8")
        os.chmod(partial / MANIFEST, 0o600)
        _fsync(partial / MANIFEST)
        _fsync(partial)
        digest = manifest_digest(partial)
        assert digest is not None
        os.rename(partial, str(staging_path(output, entry_id, digest)))
        _fsync(partial.parent)
        _fsync(output)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return digest


def staging_path(output: Place, entry_id: str, digest: str) -> Place:
    return output / STAGING / f"{entry_id}.{digest}"


def is_staged(output: Place, entry_id: str, digest: str) -> bool:
    staged = staging_path(output, entry_id, digest)
    return staged.exists() if isinstance(staged, Path) else _ask(lambda: store_staging.is_staged(staged, digest))


def staged_digests(output: Place, entry_id: str) -> list[str]:
    """List the complete bundles of a reservation that are staged here: several, if drivers drew without seeing each other."""
    if isinstance(output, StorePath):
        return _ask(lambda: store_staging.staged_digests(output, entry_id))
    found = (path.name.removeprefix(f"{entry_id}.") for path in staged_paths(output, entry_id))
    return sorted(digest for digest in found if not digest.endswith(PARTIAL))


def staged_bundles(output: Place) -> list[Place]:
    """List all bundles that are staged here with a manifest, of whatever reservation."""
    if isinstance(output, StorePath):
        return _ask(lambda: store_staging.staged_bundles(output))
    try:
        found = sorted((output / STAGING).iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _unwritable(output, error) from None
    return [path for path in found if STAGED_NAME.fullmatch(path.name)]


def check_whole(staged: Place, digest: str) -> None:
    """Refuse a staged bundle that is not the one that was staged."""
    try:
        content = (staged / MANIFEST).read_bytes()
        whole = hashlib.sha256(content).hexdigest() == digest and not (isinstance(staged, Path) and staged.is_symlink())
        files = json.loads(content)["files"].items() if whole else ()
        whole = whole and all(hashlib.sha256((staged / n).read_bytes()).hexdigest() == f["sha256"] for n, f in files)
    except (OSError, ValueError):
        whole = False
    if not whole:
        raise store_staging.damaged_error(staged)


def staged_paths(output: Place, entry_id: str) -> Sequence[Place]:
    """List all that a reservation has there, complete or not."""
    if isinstance(output, StorePath):
        return _ask(lambda: store_staging.staged_paths(output, entry_id))
    return sorted((output / STAGING).glob(f"{entry_id}.*"))


def discard_staged(output: Place, entry_id: str) -> None:
    """Remove draws that no one saw, or will see."""
    for path in staged_paths(output, entry_id):
        shutil.rmtree(path, ignore_errors=True) if isinstance(path, Path) else store_staging.discard(path)


def publish(staged: Place, final: Place, digest: str) -> None:
    """Move a staged bundle to its place, `_SUCCESS` last, or finish what another driver began; never put it over another."""
    try:
        if isinstance(staged, StorePath) and isinstance(final, StorePath):
            store_staging.publish(staged, final, digest)
        elif isinstance(staged, Path) and isinstance(final, Path):
            _publish(staged, final, digest)
    except OSError as error:
        raise _unfinished(final, error) from None


def _publish(staged: Path, final: Path, digest: str) -> None:
    if staged.exists():
        check_whole(staged, digest)
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(staged, final)
    except OSError:
        found = manifest_digest(final)
        if found is None:
            raise
        if found != digest:
            raise OutputError(f"{final} holds another bundle. Choose another output.path or release.version.") from None
    for file in final.iterdir():
        os.chmod(file, 0o644)
    os.chmod(final, 0o755)
    _fsync(final.parent)
    _fsync(final.parent.parent)
    (final / SUCCESS).touch()
    _fsync(final / SUCCESS)
    _fsync(final)


def check_place(output: Place, name: str, version: str) -> None:
    """Refuse a place that leads out of the output root, by a link or by its name. The root itself may be a link."""
    if isinstance(output, StorePath):  # there are no links
        return
    root = os.path.realpath(output)
    for parts in ((".staging",), (name, version)):
        straight = os.path.join(root, *parts)
        if os.path.realpath(os.path.join(output, *parts)) != straight:
            raise OutputError(
                f"output {str(output)!r}: {'/'.join(parts)} in it is a link to elsewhere, or leads out of it.\n"
                "Remove the link, or choose another output.path or --out."
            )


def check_writable(output: Place) -> None:
    """Refuse an output that cannot be written."""
    try:
        if isinstance(output, StorePath):
            return store_staging.check_writable(output)
        probe = output / STAGING / f"probe.{uuid.uuid4().hex}"
        probe.mkdir(parents=True, mode=0o700)
        probe.rmdir()
        os.chmod(probe.parent, 0o700)
    except OSError as error:
        raise _unwritable(output, error) from None


def check_would_write(output: Place) -> None:
    """Refuse an output that cannot be written; leave nothing behind, not even the output's own directory."""
    try:
        if isinstance(output, StorePath):
            return store_staging.check_writable(output)
        there = next(path for path in (output / STAGING, output, *output.absolute().parents) if path.exists())
        probe = there / f".dpspark-probe.{uuid.uuid4().hex}"
        probe.mkdir(mode=0o700)
        probe.rmdir()
    except OSError as error:
        raise _unwritable(output, error) from None


def _ask(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except OSError:
        failed = OutputError(
            "the output's store does not answer. Run the same release again: nothing is charged twice."
        )
    raise failed


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Place, error: OSError) -> OutputError:
    return OutputError(f"output {str(path)!r}: {_reason(error)}. Choose another output.path or --out.")


def _unfinished(path: Place, error: OSError) -> OutputError:
    """Make the error for an output that fails after its budget was reserved."""
    return OutputError(
        f"output {str(path)!r}: {_reason(error)}. It was not published.\n"
        "When that is mended, run the same release again: nothing is charged twice."
    )


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else "it cannot be written"  # libraries put more into their texts
