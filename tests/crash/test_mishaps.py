"""A disk that fills up, kills at any moment, and ledgers and bundles that no longer fit each other."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from places import Place, ended
from test_crash_walk import check_published

import dpspark
from dpspark.bundle.files import manifest_digest
from dpspark.errors import LedgerError
from dpspark.ledger.ledger import Ledger
from dpspark.releasing.run import NOT_IN_LEDGER

pytestmark = pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)


def test_a_full_disk(place: Place) -> None:
    """Nothing is left of what could not be written, and the next run goes on. No file may grow: a real error of the system."""
    assert place.run("before stage", "full") == 4, place.log
    assert "File too large. It was not published.\nWhen that is mended, run the same release again" in place.log
    assert [entry.state for entry in place.balance.entries] == ["reserved"]
    assert place.staged == []
    assert place.run() == 0, place.log
    check_published(place)


def test_a_full_disk_under_the_ledger(place: Place) -> None:
    """Published, and the ledger cannot take it: the charge is there all the same, and the next run commits it."""
    assert place.run("after ledger.stage", "full") == 1, place.log
    assert "cannot be used (OperationalError)" in place.log
    published = dpspark.read_release(place.final)
    (entry,) = place.balance.entries
    assert (entry.state, entry.id) == ("staged", published.manifest["ledger"]["id"])
    assert place.run() == 0, place.log
    check_published(place)


def test_a_ledger_restored_from_before_the_release(place: Place) -> None:
    """What was published is returned, and said not to be in the ledger."""
    book = Path(place.conf["ledger"]["url"].removeprefix("sqlite:///"))
    shutil.copy(book, place.folder / "backup.db")
    assert place.run() == 0, place.log
    published = place.files()
    shutil.copy(place.folder / "backup.db", book)
    assert place.run() == 0, place.log
    assert NOT_IN_LEDGER in place.log
    assert place.files() == published


@pytest.mark.parametrize("step", ["before ledger.stage", "before commit"])
def test_a_ledger_restored_from_after_the_reservation(place: Place, step: str) -> None:
    """The draw that is on disk stands, whatever the older ledger says."""
    book = Path(place.conf["ledger"]["url"].removeprefix("sqlite:///"))
    assert place.run("after reserve") == -signal.SIGKILL
    shutil.copy(book, place.folder / "backup.db")
    assert place.run(step) == -signal.SIGKILL
    drawn = place.files(place.final if step == "before commit" else place.staged[0])
    shutil.copy(place.folder / "backup.db", book)
    assert place.run() == 0, place.log
    assert check_published(place) == drawn


def test_a_bundle_that_was_replaced_is_not_returned_as_the_release(place: Place) -> None:
    assert place.run() == 0, place.log
    manifest = place.final / "manifest.json"
    entry = place.balance.entries[0]
    manifest.write_text(manifest.read_text().replace(entry.id, "0" * 32))
    with pytest.raises(LedgerError, match="no longer there"):
        dpspark.release(place.conf)


@pytest.mark.slow
def test_twenty_kills_at_random_moments(place: Place) -> None:
    """Whoever retries until it is done has one release, one charge and one draw for each version."""
    Ledger(place.conf["ledger"]["url"]).grant("people", 500.0, 1e-5)
    rng = np.random.default_rng(20)
    begin = time.monotonic()
    assert place.run() == 0, place.log
    usual, kills, version = time.monotonic() - begin, 0, 1
    while kills < 20:
        version += 1
        place.conf["release"]["version"] = str(version)
        kills += kills_until_done(place, rng, usual)
    balance = place.balance
    assert len(balance.entries) == version
    for entry in balance.entries:
        assert entry.state == "committed"
        assert entry.manifest_sha256 == manifest_digest(Path(entry.path))
        assert dpspark.read_release(entry.path).manifest["ledger"]["id"] == entry.id
    assert place.staged == []


def kills_until_done(place: Place, rng: Any, usual: float) -> int:
    kills = 0
    while True:
        process = place.start()
        process.join(rng.uniform(0, 1.2 * usual))
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
        code = ended(process)
        if code == 0:
            return kills
        assert code == -signal.SIGKILL, place.log
        kills += 1
