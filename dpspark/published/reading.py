"""Open a published release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.bundle.files import (
    MANIFEST,
    file_digest,
    group_by,
    is_finished,
    read_manifest,
    read_table,
    unreadable_release,
)
from dpspark.bundle.storage import Place, place_of
from dpspark.errors import ConfError, OutputError
from dpspark.published.release import (
    GROUPED,
    GramRelease,
    GroupedRelease,
    LinesRelease,
    QuantilesRelease,
    RegressionRelease,
    Release,
)

KINDS: dict[str, type[Release]] = {
    "gram": GramRelease,
    "regression": RegressionRelease,
    "theil_sen": LinesRelease,
    "quantiles": QuantilesRelease,
}


def read_release(path: str | Place, *, as_published: bool = True) -> Release:
    """Open a published release, of which every table must be as published unless that is yet to be checked."""
    folder = place_of(path)
    try:
        if not folder.is_dir():
            raise ConfError(f"release {str(path)!r}: no such directory. Give the one that holds {MANIFEST}.")
        finished = is_finished(folder)
    except OSError:
        raise unreadable_release(path) from None
    manifest = read_manifest(folder)
    if manifest is None:
        raise ConfError(f"release {str(path)!r}: no {MANIFEST} in it. Give <output>/<name>/<version>.")
    if not finished:
        raise OutputError(f"release {str(path)!r} is unfinished. Run its release job again.")
    try:
        for name, digest in manifest["files"].items():
            if as_published and (folder / name).is_file() and file_digest(folder / name) != digest["sha256"]:
                raise OutputError(f"release {str(path)!r} is damaged: {name} is not the one that was published.")
        tables = {Path(name).stem: read_table(folder / name, manifest) for name in manifest["files"]}
        return _class_of(manifest)(folder, manifest, tables)
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError):
        raise OutputError(f"release {str(path)!r} is damaged: its tables and its {MANIFEST} do not fit.") from None


def _class_of(manifest: dict[str, Any]) -> type[Release]:
    kind = manifest["release"]["kind"]
    return GroupedRelease if kind in GROUPED and group_by(manifest) else KINDS[kind]
