"""The release bundle: manifest and Parquet, written once, read by anyone. Every schema is in this file."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.errors import ConfError, OutputError
from dpspark.released import (
    GROUPED,
    GramRelease,
    GroupedRelease,
    LinesRelease,
    QuantilesRelease,
    RegressionRelease,
    Release,
)
from dpspark.tables import SCHEMAS

FORMAT = 1
MANIFEST = "manifest.json"
SUCCESS = "_SUCCESS"
STAGING = ".staging"
PARTIAL = ".part"
SIGNATURE = "signature.json"
LARGEST_JSON = 1 << 25
WITHOUT_GROUPS = ("squared_weights", "diagnostics")
KINDS: dict[str, type[Release]] = {
    "gram": GramRelease,
    "regression": RegressionRelease,
    "theil_sen": LinesRelease,
    "quantiles": QuantilesRelease,
}


def stage(output: Path, entry_id: str, tables: Mapping[str, pa.Table], manifest: dict[str, Any]) -> str:
    """Write a complete bundle beside its final place, durably; it appears under its name whole or not at all.

    Returns that name: the digest of its manifest, which has those of its tables. Whether it is ever published is the
    ledger's to say.
    """
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
        os.rename(partial, staging_path(output, entry_id, digest))
        _fsync(partial.parent)
        _fsync(output)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise _unfinished(output, error) from None
    return digest


def staging_path(output: Path, entry_id: str, digest: str) -> Path:
    return output / STAGING / f"{entry_id}.{digest}"


def staged_digests(output: Path, entry_id: str) -> list[str]:
    """The complete bundles of a reservation that are staged here: several, if drivers that could not see each other drew."""
    found = (path.name.removeprefix(f"{entry_id}.") for path in (output / STAGING).glob(f"{entry_id}.*"))
    return sorted(digest for digest in found if not digest.endswith(PARTIAL))


def discard_staged(output: Path, entry_id: str, but: str | None = None) -> None:
    """Remove draws that no one saw, or will see; `but` one."""
    for path in (output / STAGING).glob(f"{entry_id}.*"):
        if but is None or path != staging_path(output, entry_id, but):
            shutil.rmtree(path, ignore_errors=True)


def publish(staged: Path, final: Path, digest: str) -> None:
    """Move a staged bundle to its place, `_SUCCESS` last, or finish what another driver began. It is never put over another."""
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(staged, final)
        except OSError:
            found = manifest_digest(final)
            if found is None:
                raise
            if found != digest:
                raise OutputError(
                    f"{final} holds another bundle. Choose another output.path or release.version."
                ) from None
        for file in final.iterdir():
            os.chmod(file, 0o644)
        os.chmod(final, 0o755)
        _fsync(final.parent)
        _fsync(final.parent.parent)
        (final / SUCCESS).touch()
        _fsync(final / SUCCESS)
        _fsync(final)
    except OSError as error:
        raise _unfinished(final, error) from None


def check_place(output: Path, name: str, version: str) -> None:
    """Refuse a place that leads out of the output root, by a link or by its name. The root itself may be a link."""
    root = os.path.realpath(output)
    for parts in ((".staging",), (name, version)):
        straight = os.path.join(root, *parts)
        if os.path.realpath(os.path.join(output, *parts)) != straight:
            raise OutputError(
                f"output {str(output)!r}: {'/'.join(parts)} in it is a link to elsewhere, or leads out of it.\n"
                "Remove the link, or choose another output.path or --out."
            )


def check_writable(output: Path) -> None:
    probe = output / STAGING / f"probe.{uuid.uuid4().hex}"
    try:
        probe.mkdir(parents=True, mode=0o700)
        probe.rmdir()
        os.chmod(probe.parent, 0o700)
    except OSError as error:
        raise _unwritable(output, error) from None


def read_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest at a path, finished or not; None if there is none."""
    content = read_json(path / MANIFEST)
    if content is None:
        return None
    if content.get("format") != FORMAT:
        raise OutputError(f"{path}: its {MANIFEST} is not of a release that this version can read.")
    try:
        check_shape(content)
    except ValueError:
        raise OutputError(f"release {str(path)!r} is damaged: its {MANIFEST} lacks what a release has.") from None
    return content


def manifest_digest(path: Path) -> str | None:
    """What tells one bundle from all others; None if there is none."""
    try:
        return hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def file_digest(path: Path) -> str:
    try:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise OutputError(f"{str(path)!r}: {error.strerror or 'cannot be read'}.") from None


def read_json(path: Path) -> dict[str, Any] | None:
    """A file of keys and values, whoever wrote it; None if there is none."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a file")
        with path.open("rb") as file:
            text = file.read(LARGEST_JSON + 1)
        if len(text) > LARGEST_JSON:
            raise ValueError("too long")
        content = json.loads(text.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_once)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError):
        raise OutputError(f"{str(path.parent)!r}: its {path.name} cannot be read.") from None
    if not isinstance(content, dict):
        raise OutputError(f"{str(path.parent)!r}: its {path.name} is not of a release that this version can read.")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key that is there twice would be one thing to a reader and another to a program."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def read_release(path: str | Path, *, as_published: bool = True) -> Release:
    """Open a published release, of which every table must be as published unless that is yet to be checked."""
    folder = Path(path)
    if not folder.is_dir():
        raise ConfError(f"release {str(path)!r}: no such directory. Give the one that holds {MANIFEST}.")
    manifest = read_manifest(folder)
    if manifest is None:
        raise ConfError(f"release {str(path)!r}: no {MANIFEST} in it. Give <output>/<name>/<version>.")
    if not (folder / SUCCESS).exists():
        raise OutputError(f"release {str(path)!r} is unfinished. Run its release job again.")
    try:
        for name, digest in manifest["files"].items():
            if as_published and (folder / name).is_file() and file_digest(folder / name) != digest["sha256"]:
                raise OutputError(f"release {str(path)!r} is damaged: {name} is not the one that was published.")
        tables = {Path(name).stem: _read_table(folder / name, manifest) for name in manifest["files"]}
        return _class_of(manifest)(folder, manifest, tables)
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError):
        raise OutputError(f"release {str(path)!r} is damaged: its tables and its {MANIFEST} do not fit.") from None


def check_shape(manifest: dict[str, Any]) -> None:
    """Refuse a manifest that readers would stumble over, and table names that lead out of the release's directory."""
    from dpspark.manifest_shape import Manifest

    Manifest.model_validate(manifest)


def _class_of(manifest: dict[str, Any]) -> type[Release]:
    kind = manifest["release"]["kind"]
    return GroupedRelease if kind in GROUPED and _group_by(manifest) else KINDS[kind]


def _group_by(manifest: dict[str, Any]) -> list[str]:
    return manifest["spec"]["release"].get("group_by") or []


def _read_table(path: Path, manifest: dict[str, Any]) -> pa.Table:
    """A table as a release writes it, whoever wrote it: its columns and types are checked before a value is read."""
    if not path.is_file():  # a pipe would never end
        raise ValueError("not a file")
    expected = SCHEMAS[path.stem]
    if path.stem not in WITHOUT_GROUPS:
        expected = pa.schema([*(pa.field(name, pa.string()) for name in _group_by(manifest)), *expected])
    with pq.ParquetFile(path) as file:  # pq.read_table would import much more
        if not file.schema_arrow.equals(expected, check_metadata=False):
            raise ValueError("other columns than a release has")
        return file.read().replace_schema_metadata(None)  # what pandas would go by


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _unwritable(path: Path, error: OSError) -> OutputError:
    return OutputError(f"output {str(path)!r}: {_reason(error)}. Choose another output.path or --out.")


def _unfinished(path: Path, error: OSError) -> OutputError:
    """A budget is reserved for this very output by now."""
    return OutputError(
        f"output {str(path)!r}: {_reason(error)}. It was not published.\n"
        "When that is mended, run the same release again: nothing is charged twice."
    )


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else "it cannot be written"  # libraries put more into their texts
