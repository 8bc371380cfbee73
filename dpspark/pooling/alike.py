"""What releases must have in common to be added up, and why each of them is refused otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpspark.analysis.content.base import Content
from dpspark.analysis.remarks import definitions
from dpspark.bundle.files import MANIFEST, file_digest, group_by
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.noisy import AdditiveNoise, noise_from_manifest

Read = Callable[[dict[str, Any]], Any]

SAMPLED = (
    "pool: {name} is by {mechanism}, which draws a matrix around the data's, with noise that grows with it: the noise of a sum "
    "is not known then. Matrices by gaussian, laplace and wishart add up."
)
KIND = (
    "pool: {name} is of kind {kind}. Matrices of kind gram add up: release that, and the pool serves any regression of "
    "its columns."
)


@dataclass(frozen=True)
class Part:
    """A release that goes into a pool."""

    content: Content
    digest: str  # of its manifest

    @classmethod
    def of(cls, content: Content) -> Part:
        """Take a release as it is on disk."""
        return cls(content, file_digest(content.path / MANIFEST))

    @property
    def manifest(self) -> dict[str, Any]:
        return self.content.manifest

    @property
    def noise(self) -> AdditiveNoise:
        """The noise of its matrix."""
        found = noise_from_manifest(self.manifest["mechanism"]["noise"])
        if not isinstance(found, AdditiveNoise):
            mechanism = self.manifest["mechanism"]["name"]
            raise ConfError(SAMPLED.format(name=self.content.name, mechanism=mechanism))
        return found


def _columns(manifest: dict[str, Any]) -> list[str]:
    return [column["name"] for column in manifest["columns"]]


def _categories(manifest: dict[str, Any]) -> list[Any]:
    return [[repr(each) for each in column.get("categories") or ()] for column in manifest["columns"]]


def _bounds(manifest: dict[str, Any]) -> list[Any]:
    return [(column.get("lower"), column.get("upper")) for column in manifest["columns"]]


def _zone(manifest: dict[str, Any]) -> Any:
    return (manifest.get("source") or {}).get("timezone") if definitions(manifest) else None


# What must be alike, how it is read, and what to do.
ALIKE: tuple[tuple[str, Read, str], ...] = (
    ("columns", _columns, "The entries of their matrices are of different things."),
    ("categories", _categories, "The entries of their matrices are of different things."),
    (
        "bounds",
        _bounds,
        "Their values were clipped and scaled in different ways. Release all parts with the same public bounds; bounds that "
        "are private are drawn anew in each.",
    ),
    ("products of columns", lambda m: m.get("products"), "The entries of their matrices are of different things."),
    ("computed columns", definitions, "A column of one name is not the same number in them."),
    ("time zones of computed columns", _zone, "A column of one name is not the same number in them."),
    ("neighbours", lambda m: m["privacy"]["neighbours"], "They protect against different changes."),
    ("null policies", lambda m: m.get("nulls"), "A row with a missing value counts in one and not in the other."),
    ("weights", lambda m: m.get("weight"), "Their rows count in different ways."),
    ("row norms", lambda m: m.get("row_norm"), "Their rows were shortened in different ways."),
    ("groups' columns", group_by, "Pool releases of the same groups, or one group's."),
    ("types of groups' columns", lambda m: m["release"].get("group_types"), "Their keys cannot be compared."),
    ("units of protection", lambda m: m["privacy"].get("unit"), "They protect different things: a row, or a person."),
    (
        "currencies",
        lambda m: m["privacy"]["rho"] is not None,
        "A budget in rho and one in epsilon have no largest. Release all parts with one of them.",
    ),
    (
        "numbers of rows",
        lambda m: m["privacy"].get("count_is_exact", False),
        "In one it is published as it is, in the other with noise.",
    ),
)


def check_alike(parts: Sequence[Part], overlap: str) -> None:
    """Refuse releases that do not add up, with the reason."""
    if len(parts) < 2:
        raise ConfError("pool: give two releases at least.")
    for part in parts:
        if part.manifest["release"]["kind"] != "gram":
            raise ConfError(KIND.format(name=part.content.name, kind=part.content.kind))
        assert part.noise is not None  # or it is refused
    first, *others = parts
    for what, read, because in ALIKE:
        for other in others:
            if read(first.manifest) != read(other.manifest):
                raise ConfError(
                    f"pool: {first.content.name} and {other.content.name} have unlike {what}"
                    f"{_which(what, first.manifest, other.manifest)}. {because}"
                )
    _check_once(parts)


def _which(what: str, first: dict[str, Any], other: dict[str, Any]) -> str:
    """Name the columns that differ, where that says more."""
    if what == "columns":
        apart = sorted(set(_columns(first)) ^ set(_columns(other)))
        return f" ({', '.join(apart)})" if apart else " (in another order)"
    read = {"bounds": _bounds, "categories": _categories}.get(what)
    if read is None:
        return ""
    pairs = zip(_columns(first), read(first), read(other), strict=True)
    return f" of {', '.join(name for name, a, b in pairs if a != b)}"


def _check_once(parts: Sequence[Part]) -> None:
    """Refuse a release that is there twice, as it is or as another copy: its people and its noise would count twice."""
    seen: dict[Any, str] = {}
    for part in parts:
        for mark in _marks(part):
            if mark in seen:
                raise ConfError(f"pool: {part.content.name} is there twice, as {seen[mark]}. Give each release once.")
        for mark in _marks(part):
            seen[mark] = part.content.name


def _marks(part: Part) -> Iterator[Any]:
    """Yield what tells one release from all others."""
    manifest = part.manifest
    yield part.digest
    yield tuple(sorted((name, file["sha256"]) for name, file in manifest["files"].items()))
    yield part.content.tables["second_moment"]["value"].to_numpy().tobytes()  # whatever wrote the file
    named, charged = manifest["release"], manifest["ledger"]
    yield charged["dataset"], charged["id"], named["name"], named["version"]
