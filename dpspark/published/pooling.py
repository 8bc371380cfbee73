"""`dpspark pool` and `dpspark.pool`: releases of disjoint people added up, as a release of its own."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GroupedContent
from dpspark.analysis.content.opening import read_content
from dpspark.bundle.files import MANIFEST, SIGNATURE, SUCCESS, group_by
from dpspark.bundle.storage import Place, StorePath, place_of
from dpspark.errors import ConfError, OutputError
from dpspark.pooling.alike import Part
from dpspark.pooling.pool import PARTS, Pool, leaves, make_pool, shown_place
from dpspark.published.reading import as_release, read_release
from dpspark.published.release import Release
from dpspark.verifying.verification import verify
from dpspark.version import __version__


def pool(
    releases: Sequence[Release[Any, Any] | str | Path],
    out: str | Path | None = None,
    *,
    overlap: str = "none",
    name: str | None = None,
    version: str | None = None,
) -> Release[Any, Any]:
    """Add up the matrices of releases of disjoint people, such as regions or months: a release of all of them, at no cost.

    `overlap` says whether people may be in the data of several: none (their budgets' largest holds) or unknown (their sum).
    With `out` the pool is written there as a bundle, with its parts; without it, it is in memory alone.
    """
    if isinstance(releases, str | Path | Release):
        raise ConfError("pool: give a list of releases, e.g. dpspark.pool([a, b]).")
    contents = [one.content if isinstance(one, Release) else read_content(one) for one in releases]
    parts = [part for content in contents for part in leaves(content, overlap)]
    made = make_pool(parts, name, version, overlap)
    _check_parts(made.parts)
    manifest = {
        **made.manifest,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"dpspark": __version__},
    }
    if out is not None:
        place = place_of(str(out))
        write_pool(made, manifest, place)
        return read_release(place)
    holds = GroupedContent if group_by(manifest) else GramContent
    return as_release(holds(shown_place(manifest), {**manifest, "files": {}}, made.tables))


def _check_parts(parts: Sequence[Part]) -> None:
    """Refuse a part whose own guarantee cannot be recomputed: the pool's stands on it."""
    for part in parts:
        failed = [check for check in verify(part.content.path).checks if check.result == "failed"]
        if failed:
            raise OutputError(
                f"pool: {part.content.name} in {str(part.content.path)!r} is not what it says: {failed[0].name}: "
                f"{failed[0].detail}. dpspark verify says more."
            )


def write_pool(made: Pool, manifest: dict[str, Any], place: Place) -> None:
    """Write a pool with its parts; it appears whole or not at all. Nothing is written over."""
    try:
        if place.exists():
            raise OutputError(f"pool: {str(place)!r} is there already. Choose another place.")
        if isinstance(place, StorePath):
            _write(made, manifest, place)
            return
        partial = place.absolute().parent / f".{place.name}.{uuid.uuid4().hex}"
        try:
            _write(made, manifest, partial)
            os.rename(partial, place)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it cannot be written"
        raise OutputError(f"pool: {str(place)!r}: {reason}. Choose another place.") from None


def _write(made: Pool, manifest: dict[str, Any], place: Place) -> None:
    digests = {}
    for number, part in enumerate(made.parts, 1):
        for name, content in _files_of(part):
            _put(place / PARTS / str(number) / name, content)
    for name, table in made.tables.items():
        buffer = BytesIO()
        pq.write_table(table, buffer)
        _put(place / f"{name}.parquet", buffer.getvalue())
        digests[f"{name}.parquet"] = {"sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}
    text = json.dumps({**manifest, "files": digests}, indent=2, ensure_ascii=False) + "\n"
    _put(place / MANIFEST, text.encode())
    _put(place / SUCCESS, b"")


def _files_of(part: Part) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a part as they are, its signature too, and the mark that it is finished last."""
    folder = part.content.path
    for name in (*part.manifest["files"], MANIFEST):
        yield name, (folder / name).read_bytes()
    if (folder / SIGNATURE).is_file():
        yield SIGNATURE, (folder / SIGNATURE).read_bytes()
    yield SUCCESS, b""


def _put(path: Place, content: bytes) -> None:
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
