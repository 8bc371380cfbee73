"""What an earlier run of the same release left: a published release, a draw, a reservation for other noise."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple

from dpspark.bundle.files import is_finished, manifest_digest, read_manifest
from dpspark.bundle.staging import staged_digests
from dpspark.bundle.storage import Place, place_of
from dpspark.errors import LedgerError
from dpspark.ledger.ledger import Entry, check_unchanged
from dpspark.privacy.events import Event
from dpspark.published.reading import read_release
from dpspark.published.release import Release
from dpspark.spec.spec import Spec


def published_before(spec: Spec, entry: Entry | None, final: Place) -> Release | None:
    """The release, if this very spec was published under its name and version; refused if another spec was."""
    if entry is not None:
        _check_defaults(spec, entry.spec_hash)
        check_unchanged(entry, spec.hash)
        if entry.state == "committed":
            return _committed(entry)
    manifest = read_manifest(final)
    if manifest is None or (entry is not None and manifest["ledger"]["id"] == entry.id):
        return None
    _check_defaults(spec, manifest["spec_hash"])
    if manifest["spec_hash"] != spec.hash:
        raise LedgerError(f"{final} holds a release made from another spec. Give this one a new release.version.")
    if not is_finished(final):
        return None  # to be finished: reservation.py
    return read_release(final)


def _check_defaults(spec: Spec, found: str) -> None:
    """What an older version made by its defaults is not what this conf asks for by now: say how to have it."""
    if found == spec.hash_by_percentile:
        raise LedgerError(
            f"release {spec.release.name} {spec.release.version} was begun by version 0.2, whose private bounds were "
            "quantiles. By default they are found by rank now.\n"
            "Add bounds: {method: percentile} to have it as it is, or give the release a new version."
        )
    if found == spec.earlier_hash:
        raise LedgerError(
            f"release {spec.release.name} {spec.release.version} was begun by version 0.2, whose auto aimed at means. "
            "By default auto aims at medians now.\n"
            "Add release.target: mean to have it as it is, or give the release a new version."
        )


def _committed(entry: Entry) -> Release:
    found = read_manifest(place_of(entry.path))
    if found is None or found["ledger"]["id"] != entry.id:
        raise LedgerError(
            f"release {entry.name} {entry.version} was published at {entry.path} and is no longer there. "
            "Its noise is not drawn again.\nPut it back, or give the release a new version."
        )
    return read_release(entry.path)


def check_same_place(entry: Entry, final: Place) -> None:
    """An unfinished release may have a draw staged where it was begun: elsewhere there would be a second one."""
    if entry.path != str(final):
        raise LedgerError(
            f"release {entry.name} {entry.version} was begun for {entry.path} and is not finished.\n"
            "Run it with that output, or give it a new version."
        )


def check_same_events(entry: Entry, events: Iterable[Event]) -> None:
    """A release that was begun and not drawn goes on with the noise that was charged, and with no other."""
    if entry.state == "reserved" and not entry.charge.is_bare and not _alike(entry.events, tuple(events)):
        raise LedgerError(
            f"release {entry.name} {entry.version} was charged for other noise than it would draw now: its table, view or "
            "query means something else by now, or another version of dpspark began it.\nGive it a new release.version."
        )


def _alike(charged: tuple[Event, ...], run: tuple[Event, ...]) -> bool:
    """Tell whether events are the same but for the last digits, which another machine may compute otherwise."""
    if [type(each) for each in charged] != [type(each) for each in run]:
        return False
    pairs = [
        (a, b) for one, two in zip(charged, run, strict=True) for a, b in zip(astuple(one), astuple(two), strict=True)
    ]
    return all(a == b or (isinstance(a, float) and math.isclose(a, b, rel_tol=1e-6)) for a, b in pairs)


def drawn_before(entry: Entry, output: Place, final: Place) -> str | None:
    """The digest of the draw that an earlier run staged: its result stands. None if nothing left a driver yet."""
    if entry.manifest_sha256 is not None:
        return entry.manifest_sha256
    published = read_manifest(final)
    if published is not None and published["ledger"]["id"] == entry.id:  # the ledger was restored from an older copy
        return manifest_digest(final)
    staged = next(iter(staged_digests(output, entry.id)), None)
    if staged is None and entry.state != "reserved":
        raise lost(entry)
    return staged


def lost(entry: Entry) -> LedgerError:
    return LedgerError(
        f"release {entry.name} {entry.version} was staged for {entry.path} and is not there. Its noise is not drawn "
        "again.\nRun it on the machine and with the output of the run that staged it, or give it a new version."
    )
