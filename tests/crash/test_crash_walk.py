"""Kill -9 at every step of a release, in real processes, on both databases: nothing is lost and nothing is spent twice."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from driver import ON_DISK, STEPS
from places import Place, on_both

import dpspark
from dpspark.bundle.files import manifest_digest
from dpspark.errors import OutputError

VISIBLE = ("mid-publish", "before commit", "after commit")


@pytest.mark.parametrize(
    ("ledger_url", "step"), on_both(*STEPS, less=("mid-read", "after noise", "mid-stage")), indirect=["ledger_url"]
)
def test_kill_retry_and_again(place: Place, step: str) -> None:
    """Kills: a second charge; a lost charge; a second draw once one is on disk; a bundle that is seen half; a second read."""
    assert place.run(step) == -signal.SIGKILL, place.log
    check_after_kill(place, step)
    drawn = place.files(place.final if step in VISIBLE else place.staged[0]) if step in ON_DISK else None

    assert place.run() == 0, place.log
    published = check_published(place)
    assert drawn in (None, published)

    Path(place.conf["source"]["parquet"]).unlink()
    assert place.run() == 0, place.log
    assert "already published, nothing was read or spent" in place.log
    assert check_published(place) == published


def check_after_kill(place: Place, step: str) -> None:
    """What is seen is charged, and what is half done is not seen."""
    entries = place.balance.entries
    state = {"after ledger.stage": "staged", "mid-publish": "staged", "before commit": "staged"}.get(step, "reserved")
    expected = {"before reserve": [], "after commit": ["committed"]}.get(step, [state])
    assert [entry.state for entry in entries] == expected
    assert float(place.balance.spent_epsilon) == pytest.approx(len(expected), rel=0.01)
    assert place.final.exists() is (step in VISIBLE)
    if step == "mid-publish":
        with pytest.raises(OutputError, match="unfinished"):
            dpspark.read_release(place.final)
    elif step in VISIBLE:
        assert dpspark.read_release(place.final).manifest["ledger"]["id"] == entries[0].id


def check_published(place: Place) -> dict[str, str]:
    """One committed entry, one charge, one bundle, and they are of each other."""
    balance = place.balance
    (entry,) = balance.entries
    assert (entry.state, float(balance.spent_epsilon)) == ("committed", pytest.approx(1.0, rel=0.01))
    assert dpspark.read_release(place.final).manifest["ledger"]["id"] == entry.id
    assert entry.manifest_sha256 == manifest_digest(place.final)
    assert sorted(path.name for path in place.output.iterdir()) == [".staging", "income"]
    assert [path.name for path in place.final.parent.iterdir()] == ["1"]
    assert place.staged == []
    return place.files()
