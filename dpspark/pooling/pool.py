"""Make a pool of releases, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.opening import read_content
from dpspark.bundle.files import MANIFEST
from dpspark.bundle.names import plain_name
from dpspark.bundle.storage import Place
from dpspark.errors import ConfError
from dpspark.pooling.alike import Part, check_alike
from dpspark.pooling.certificate import pool_manifest
from dpspark.pooling.sums import sum_tables

PARTS = "parts"  # the directory of the parts' own bundles, in that of a pool
OVERLAPS = ("none", "unknown")
LONGEST = 100


@dataclass(frozen=True)
class Pool:
    """A pool: its parts, and what follows from them."""

    parts: tuple[Part, ...]
    manifest: dict[str, Any]  # without date, versions and files
    tables: dict[str, pa.Table]


def place_of_part(folder: Place, number: int) -> Place:
    """Say where the files of a part are, counted from 1."""
    return folder / PARTS / str(number)


def make_pool(parts: Sequence[Part], name: str | None, version: str | None, overlap: str) -> Pool:
    """Add releases up, or refuse it with the reason."""
    if overlap not in OVERLAPS:
        raise ConfError(f"overlap={overlap!r}; expected one of {', '.join(OVERLAPS)}.")
    check_alike(parts, overlap)
    named = _names(parts, name, version)
    return Pool(tuple(parts), pool_manifest(parts, *named, overlap), sum_tables(parts))


def leaves(content: Content, overlap: str) -> list[Part]:
    """Take a release, or the parts of a pool in its place: a pool of pools is one of all their parts."""
    if content.group:
        raise ConfError(f"pool: {content.name} is one group of a release. Give the whole release.")
    told = content.manifest.get("pool")
    if told is None:
        return [Part.of(content)]
    if told["overlap"] == "unknown" and overlap == "none":
        raise ConfError(
            f"pool: {content.name} is a pool of parts whose people may overlap. Give --overlap unknown, or its parts."
        )
    found = []
    for number, expected in enumerate(told["parts"], 1):
        place = place_of_part(content.path, number)
        if not (place / MANIFEST).is_file():
            raise ConfError(f"pool: {content.name} is a pool without its parts' files. Give its parts themselves.")
        part = Part.of(read_content(place))
        if part.digest != expected["manifest_sha256"]:
            raise ConfError(f"pool: {content.name} is a pool whose part {number} is not the one that it names.")
        found.append(part)
    return found


def _names(parts: Sequence[Part], name: str | None, version: str | None) -> tuple[str, str]:
    """Choose a name and a version: what all parts have, or the first's and the last's."""
    named = [part.manifest["release"] for part in parts]
    chosen = [_between([each[key] for each in named]) for key in ("name", "version")]
    if (chosen[0], chosen[1]) in {(each["name"], each["version"]) for each in named}:
        chosen[1] = f"{chosen[1]}-pool"
    found = [given or own for given, own in zip((name, version), chosen, strict=True)]
    try:
        return plain_name(found[0]), plain_name(found[1])
    except ValueError as error:
        raise ConfError(f"pool: name or version: {error}") from None


def _between(names: Sequence[str]) -> str:
    return names[0] if len(set(names)) == 1 else f"{names[0]}_{names[-1]}"[:LONGEST]


def shown_place(manifest: dict[str, Any]) -> Path:
    """Name a pool that was not written, where a release has its place."""
    return Path("{name}_{version}_(not_written)".format(**manifest["release"]))
