"""Open a published release and read what it holds."""

from __future__ import annotations

from pathlib import Path

from dpspark.analysis.content.base import Content, refuse_damaged
from dpspark.analysis.content.gram import GramContent
from dpspark.analysis.content.groups import GROUPED, GroupedContent
from dpspark.analysis.content.lines import LinesContent
from dpspark.analysis.content.quantiles import QuantilesContent
from dpspark.analysis.content.regression import RegressionContent
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

KINDS: dict[str, type[Content]] = {
    "gram": GramContent,
    "regression": RegressionContent,
    "theil_sen": LinesContent,
    "quantiles": QuantilesContent,
}


def read_content(path: str | Place, *, as_published: bool = True) -> Content:
    """Read a published release, of which every table must be as published unless that is yet to be checked."""
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
    with refuse_damaged(path):
        for name, digest in manifest["files"].items():
            if as_published and (folder / name).is_file() and file_digest(folder / name) != digest["sha256"]:
                raise OutputError(f"release {str(path)!r} is damaged: {name} is not the one that was published.")
        tables = {Path(name).stem: read_table(folder / name, manifest) for name in manifest["files"]}
        kind = manifest["release"]["kind"]
        holds = GroupedContent if kind in GROUPED and group_by(manifest) else KINDS[kind]
        return holds(folder, manifest, tables)
