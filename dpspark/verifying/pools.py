"""Is a pool what it says? Every part by itself, and all that the pool says again from its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from dpspark.analysis.content.base import Content
from dpspark.analysis.content.opening import read_content
from dpspark.bundle.files import MANIFEST, manifest_digest
from dpspark.bundle.storage import Place
from dpspark.errors import DpsparkError
from dpspark.pooling.alike import Part
from dpspark.pooling.pool import PARTS, Pool, make_pool, place_of_part
from dpspark.verifying.certificate import ARITHMETIC

Found = tuple[str, Literal["ok", "failed"], str]  # a check, its result and its detail
OWN = ("created_at", "versions", "files")  # what does not follow from the parts


def check_pool(release: Content, failures: Callable[[Place], list[str]]) -> Iterator[Found]:
    """Yield the checks of a pool; `failures` verifies a release by itself, and says what is wrong with it."""
    named, parts = release.manifest["pool"]["parts"], []
    for number, expected in enumerate(named, 1):
        place, title = place_of_part(release.path, number), f"part {number}"
        if manifest_digest(place) != expected["manifest_sha256"]:
            yield title, "failed", f"no {MANIFEST} in {PARTS}/{number} with the hash that the pool names"
            return
        try:
            wrong = failures(place)
            parts.append(Part(read_content(place), expected["manifest_sha256"]))
        except DpsparkError as error:
            wrong = [str(error).splitlines()[0]]
        if wrong:
            yield title, "failed", f"{expected['name']} {expected['version']}: {'; '.join(wrong)}"
            return
        yield title, "ok", f"{expected['name']} {expected['version']}, verified by itself"
    others = sorted(path.name for path in (release.path / PARTS).iterdir())
    if others != sorted(str(number + 1) for number in range(len(named))):
        yield "parts", "failed", f"something in {PARTS} that is no part of the pool"
        return
    yield from _recomputed(release, parts)


def _recomputed(release: Content, parts: list[Part]) -> Iterator[Found]:
    told, stated = release.manifest["release"], release.manifest["pool"]
    try:
        made = make_pool(parts, told["name"], told["version"], stated["overlap"])
    except (DpsparkError, *ARITHMETIC) as error:
        yield "guarantee", "failed", f"the parts do not add up: {str(error).splitlines()[0]}"
        return
    wrong = sorted(_unlike(release.manifest, made.manifest))
    how = "the largest of the parts', assumed that one is in one part" if stated["overlap"] == "none" else "the sum"
    privacy = made.manifest["privacy"]
    budget = ", ".join(f"{key}={privacy[key]:g}" for key in ("epsilon", "delta", "rho") if privacy[key])
    detail = f"not as recomputed from the parts: {', '.join(wrong)}" if wrong else f"{budget}: {how}"
    yield "guarantee", "failed" if wrong else "ok", detail
    same = _same_tables(release, made)
    words = "every entry is the sum of the parts'" if same else "not the sums of the parts' tables"
    yield "tables", "ok" if same else "failed", words


def _unlike(stated: dict[str, Any], made: dict[str, Any]) -> set[str]:
    """Name the keys of a pool's manifest that do not follow from its parts."""
    keys = (set(stated) | set(made)) - set(OWN)
    return {key for key in keys if _plain(stated.get(key)) != _plain(made.get(key))}


def _plain(value: Any) -> Any:
    """A manifest's values as JSON has them."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return (type(value) is bool, value)


def _same_tables(release: Content, made: Pool) -> bool:
    if set(release.tables) != set(made.tables):
        return False
    pairs = ((table.combine_chunks(), made.tables[name].combine_chunks()) for name, table in release.tables.items())
    return all(_equal(a, b) for a, b in pairs)


def _equal(a: Any, b: Any) -> bool:
    """The same numbers to the last bit; the scaled table has none for its noise."""
    names = [name for name in a.schema.names if not (name == "noise_std" and a[name].to_pandas().isna().all())]
    return bool(a.schema == b.schema and a.select(names).equals(b.select(names)))
