"""The reservation that a run goes on with: the ledger's own, or that of a draw which the ledger does not know.

A ledger that was restored from before a reservation has no charge for it, and its draw may lie complete in the output. To
draw again would be a second answer to the same question. So the draw is charged now, under its own reservation, and is
the release. Where that cannot be told for sure, nothing is charged or drawn.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dpspark.bundle.files import MANIFEST, STAGED_NAME, manifest_digest, read_json, read_manifest
from dpspark.bundle.staging import check_whole, staged_bundles
from dpspark.bundle.storage import Place
from dpspark.errors import LedgerError, OutputError
from dpspark.ledger.ledger import Entry, Ledger
from dpspark.privacy.events import Event
from dpspark.releasing.earlier import check_same_place, drawn_before
from dpspark.show.progress import Note, NoteKind
from dpspark.spec.charges import charged_events, protection
from dpspark.spec.choose import Mechanism
from dpspark.spec.extras import spending
from dpspark.spec.spec import Spec, hash_of

ADOPTED = "an earlier run drew this release, and this ledger has no charge for it: charged now, and not drawn again"
WHAT_TO_DO = "Give this one a new release.version; or delete that, if nobody read it, and run again."


@dataclass(frozen=True)
class Draw:
    """A complete bundle of this release that is not published."""

    id: str
    place: Place
    manifest: dict[str, Any]


def begun_before(
    spec: Spec, mechanism: Mechanism, ledger: Ledger, output: Place, final: Place, note: Callable[[Note], None]
) -> Entry | None:
    """The entry to go on with, charged now if its draw is here and the ledger lost it; None: nothing was begun."""
    entry = ledger.find(spec.ledger.dataset, spec.release.name, spec.release.version)
    if entry is not None:
        check_same_place(entry, final)
        if drawn_before(entry, output, final) is not None:
            return entry
    draw = unknown_draw(spec, entry, ledger, output, final)
    if draw is None:
        return entry
    entry = _charge(spec, mechanism, ledger, final, draw)
    note(Note(NoteKind.ADOPTED, ADOPTED))
    return entry


def unknown_draw(spec: Spec, entry: Entry | None, ledger: Ledger, output: Place, final: Place) -> Draw | None:
    """A draw of this release that is staged or half published here, and is of no reservation in the ledger.

    Refused where it is of another spec or dataset, was changed, or cannot be read: this name and version are used then, or
    may be; and beside an `entry` without a draw. What has no manifest is half written, and no draw.
    """
    places = {path: match for path in staged_bundles(output) if (match := STAGED_NAME.fullmatch(path.name))}
    known = ledger.known(match["id"] for match in places.values())  # after the listing: who stages has reserved
    found = list(_half_published(spec, ledger, final))
    for place, match in places.items():
        if match["id"] not in known and _is_of(spec, place):
            found.append(_checked(spec, place, match["id"], match["digest"]))
    if len({draw.id for draw in found}) > 1:
        raise _refused(found[-1].place, f"holds another draw of this release than {found[0].place}")
    if found and entry is not None:
        raise _not_ours(found[0])
    return found[0] if found else None


def _half_published(spec: Spec, ledger: Ledger, final: Place) -> Iterator[Draw]:
    """Yield the draw at its place, without the file that says that it is complete."""
    manifest = read_manifest(final)
    if manifest is None or ledger.known([manifest["ledger"]["id"]]):
        return
    digest = str(manifest_digest(final))
    if not STAGED_NAME.fullmatch(f"{manifest['ledger']['id']}.{digest}"):
        raise _refused(final, "is unfinished, and its manifest names no reservation")
    yield _checked(spec, final, manifest["ledger"]["id"], digest)


def _is_of(spec: Spec, place: Place) -> bool:
    """Tell whether a manifest has this name and version, whatever version of dpspark wrote it."""
    try:
        named = (read_json(place / MANIFEST) or {})["release"]
        return (named["name"], named["version"]) == (spec.release.name, spec.release.version)
    except (OutputError, KeyError, TypeError):
        raise _refused(place, "cannot be read, and may be a draw of this release") from None


def _checked(spec: Spec, place: Place, entry_id: str, digest: str) -> Draw:
    try:
        check_whole(place, digest)
        manifest = read_manifest(place)
    except OutputError:
        raise _refused(
            place, "holds a draw of this release, and was changed, or cannot be read by this version"
        ) from None
    if manifest is None or manifest["ledger"]["id"] != entry_id:
        raise _refused(place, "was changed since it was staged")
    if not manifest["spec_hash"] == hash_of(manifest["spec"]) == spec.hash:
        raise _refused(place, "holds a draw of this name and version from another spec")
    if manifest["ledger"]["dataset"] != spec.ledger.dataset:
        raise _refused(place, "holds a draw of this name and version for another dataset of a ledger")
    return Draw(entry_id, place, manifest)


def _charge(spec: Spec, mechanism: Mechanism, ledger: Ledger, final: Place, draw: Draw) -> Entry:
    named, dataset, budget = spec.release, spec.ledger.dataset, spec.privacy.budget
    run = _events(spec, mechanism, draw.manifest), protection(spec)
    charged = (dataset, named.name, named.version, spec.hash, budget, str(final), *run)
    entry = ledger.reserve(*charged, entry_id=draw.id)
    if entry.id != draw.id:  # another run reserved meanwhile
        raise _not_ours(draw)
    return entry


def _events(spec: Spec, mechanism: Mechanism, manifest: dict[str, Any]) -> tuple[Event, ...] | None:
    """List what was run, if this version would run the same; else only what the draw claims is known: None."""
    now = json.loads(json.dumps({"mechanism": mechanism.facts(), "spending": spending(spec, mechanism)}))
    drawn = manifest["mechanism"]
    same = all(drawn.get(key) == value for key, value in now["mechanism"].items())
    return charged_events(spec, mechanism) if same and manifest["privacy"]["spending"] == now["spending"] else None


def _not_ours(draw: Draw) -> LedgerError:
    return _refused(draw.place, "holds a draw of this release, made on a charge that this ledger does not have")


def _refused(place: Place, what: str) -> LedgerError:
    return LedgerError(f"{place} {what}. Its noise is not drawn again.\n{WHAT_TO_DO}")
