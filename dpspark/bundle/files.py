"""The release bundle: manifest and Parquet, written once, read by anyone. staging.py writes it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.source.group_keys import type_named
from dpspark.errors import ConfError, OutputError
from dpspark.bundle.storage import Place, place_of
from dpspark.published.release import (
    GROUPED,
    GramRelease,
    GroupedRelease,
    LinesRelease,
    QuantilesRelease,
    RegressionRelease,
    Release,
)
from dpspark.releasing.tables import EARLIER_SCHEMAS, SCHEMAS

FORMAT = 1
MANIFEST = "manifest.json"
SUCCESS = "_SUCCESS"
STAGING = ".staging"
PARTIAL = ".part"
STAGED_NAME = re.compile(r"(?P<id>[0-9a-f]{32})\.(?P<digest>[0-9a-f]{64})")  # a reservation, and its draw
SIGNATURE = "signature.json"
LARGEST_JSON = 1 << 25
WITHOUT_GROUPS = ("squared_weights", "diagnostics")
KINDS: dict[str, type[Release]] = {
    "gram": GramRelease,
    "regression": RegressionRelease,
    "theil_sen": LinesRelease,
    "quantiles": QuantilesRelease,
}


def read_manifest(path: Place) -> dict[str, Any] | None:
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


def manifest_digest(path: Place) -> str | None:
    """What tells one bundle from all others; None if there is none."""
    try:
        content = (path / MANIFEST).read_bytes()
        return hashlib.sha256(content).hexdigest() if content or isinstance(path, Path) else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        if isinstance(path, Path):
            raise
        raise OutputError(f"{str(path)!r}: its {MANIFEST} cannot be read.") from None


def file_digest(path: Place) -> str:
    try:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise OutputError(f"{str(path)!r}: {error.strerror or 'cannot be read'}.") from None


def read_json(path: Place) -> dict[str, Any] | None:
    """A file of keys and values, whoever wrote it; None if there is none."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("not a file")
        with path.open("rb") as file:
            text = file.read(LARGEST_JSON + 1)
        if len(text) > LARGEST_JSON:
            raise ValueError("too long")
        if not text and not isinstance(path, Path):
            return None  # a writer that was stopped leaves an empty file in a store
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


def is_finished(path: Place) -> bool:
    """Whether what is there was published to the end."""
    try:
        return (path / SUCCESS).exists()
    except OSError:
        raise _unreadable(path) from None


def _unreadable(path: str | Place) -> OutputError:
    return OutputError(f"release {str(path)!r}: it cannot be read. Check the address, and who may read it.")


def read_release(path: str | Place, *, as_published: bool = True) -> Release:
    """Open a published release, of which every table must be as published unless that is yet to be checked."""
    folder = place_of(path)
    try:
        if not folder.is_dir():
            raise ConfError(f"release {str(path)!r}: no such directory. Give the one that holds {MANIFEST}.")
        finished = is_finished(folder)
    except OSError:
        raise _unreadable(path) from None
    manifest = read_manifest(folder)
    if manifest is None:
        raise ConfError(f"release {str(path)!r}: no {MANIFEST} in it. Give <output>/<name>/<version>.")
    if not finished:
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
    from dpspark.bundle.manifest_shape import Manifest

    Manifest.model_validate(manifest)


def _class_of(manifest: dict[str, Any]) -> type[Release]:
    kind = manifest["release"]["kind"]
    return GroupedRelease if kind in GROUPED and _group_by(manifest) else KINDS[kind]


def _group_by(manifest: dict[str, Any]) -> list[str]:
    return manifest["spec"]["release"].get("group_by") or []


def _key_fields(manifest: dict[str, Any]) -> list[pa.Field]:
    """The columns of the groups. Releases of 0.2 have them as text, and do not say so."""
    types = manifest["release"].get("group_types") or {}
    return [pa.field(name, type_named(types.get(name, "string"))) for name in _group_by(manifest)]


def _read_table(path: Place, manifest: dict[str, Any]) -> pa.Table:
    """A table as a release writes it, whoever wrote it: its columns and types are checked before a value is read."""
    if not path.is_file():  # a pipe would never end
        raise ValueError("not a file")
    keys = [] if path.stem in WITHOUT_GROUPS else _key_fields(manifest)
    known = [of[path.stem] for of in (SCHEMAS, EARLIER_SCHEMAS) if path.stem in of]
    expected = [pa.schema([*keys, *schema]) for schema in known]
    with pq.ParquetFile(
        path if isinstance(path, Path) else path.open()
    ) as file:  # pq.read_table would import much more
        if not any(file.schema_arrow.equals(schema, check_metadata=False) for schema in expected):
            raise ValueError("other columns than a release has")
        return file.read().replace_schema_metadata(None)  # what pandas would go by
