"""The release bundle: manifest and Parquet tables, written once (by staging.py) and read by anyone."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.bundle.schemas import EARLIER_SCHEMAS, SCHEMAS
from dpspark.bundle.storage import Place
from dpspark.errors import OutputError
from dpspark.source.group_keys import find_type

FORMAT = 1
MANIFEST = "manifest.json"
SUCCESS = "_SUCCESS"
STAGING = ".staging"
PARTIAL = ".part"
STAGED_NAME = re.compile(r"(?P<id>[0-9a-f]{32})\.(?P<digest>[0-9a-f]{64})")  # a reservation, and its draw
SIGNATURE = "signature.json"
LARGEST_JSON = 1 << 25
WITHOUT_GROUPS = ("squared_weights", "diagnostics", "line_cells")
HIERARCHY = "hierarchy"  # the table of the levels of groups: public, and no result


def read_manifest(path: Place) -> dict[str, Any] | None:
    """Read the manifest at a path, finished or not; None if there is none."""
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
    """Hash the manifest, which tells one bundle from all others; None if there is none."""
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
    """Hash a file."""
    try:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise OutputError(f"{str(path)!r}: {error.strerror or 'cannot be read'}.") from None


def read_json(path: Place) -> dict[str, Any] | None:
    """Read a file of keys and values, whoever wrote it; None if there is none."""
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
    """Refuse a key that is there twice: a reader would see one value and a program another."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number")


def is_finished(path: Place) -> bool:
    """Tell whether the release there was published to the end."""
    try:
        return (path / SUCCESS).exists()
    except OSError:
        raise unreadable_release(path) from None


def unreadable_release(path: str | Place) -> OutputError:
    """Make the error for a release that cannot be read."""
    return OutputError(f"release {str(path)!r}: it cannot be read. Check the address, and who may read it.")


def check_shape(manifest: dict[str, Any]) -> None:
    """Refuse a manifest that readers would stumble over, and table names that lead out of the release's directory."""
    from dpspark.bundle.manifest_shape import Manifest

    Manifest.model_validate(manifest)


def group_by(manifest: dict[str, Any]) -> list[str]:
    """List the columns of the groups; none if the release has no groups."""
    return manifest["spec"]["release"].get("group_by") or []


def levels(manifest: dict[str, Any]) -> list[str]:
    """List the levels of the groups, the coarsest first; none if the release has no hierarchy."""
    asked = manifest["spec"]["release"].get("hierarchy") or []
    return [level if isinstance(level, str) else level[-1] for level in asked]


def _level_fields(manifest: dict[str, Any]) -> list[pa.Field]:
    """Find the fields of the levels above the finest, which is that of the groups."""
    types = manifest["release"].get("level_types") or {}
    return [pa.field(name, find_type(types[name])) for name in levels(manifest)[:-1]]


def _key_fields(manifest: dict[str, Any]) -> list[pa.Field]:
    """Find the fields of the groups' columns. Releases of 0.2 have them as text, and do not say so."""
    types = manifest["release"].get("group_types") or {}
    return [pa.field(name, find_type(types.get(name, "string"))) for name in group_by(manifest)]


def read_table(path: Place, manifest: dict[str, Any]) -> pa.Table:
    """Read a table of a release, whoever wrote it: its columns and types are checked before a value is read."""
    if not path.is_file():  # a pipe would never end
        raise ValueError("not a file")
    keys = [] if path.stem in WITHOUT_GROUPS else _key_fields(manifest)
    known = [of[path.stem] for of in (SCHEMAS, EARLIER_SCHEMAS) if path.stem in of]
    expected = [pa.schema([*keys, *schema]) for schema in known]
    if path.stem == HIERARCHY:
        expected = [pa.schema([*_level_fields(manifest), *keys])]
    with pq.ParquetFile(
        path if isinstance(path, Path) else path.open()
    ) as file:  # pq.read_table would import much more
        if not any(file.schema_arrow.equals(schema, check_metadata=False) for schema in expected):
            raise ValueError("other columns than a release has")
        return file.read().replace_schema_metadata(None)  # what pandas would go by
