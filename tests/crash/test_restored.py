"""A ledger that was restored from before the reservation, while a draw lies in the output: there is no second one."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from object_store import Bucket
from places import Place

import dpspark
from dpspark.bundle.files import manifest_digest
from dpspark.errors import LedgerError, OutputError
from dpspark.ledger.ledger import Ledger
from dpspark.spec.charges import charged_events
from dpspark.spec.choose import choose
from dpspark.verifying.verification import verify

pytestmark = pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)


def book_of(place: Place) -> Path:
    return Path(place.conf["ledger"]["url"].removeprefix("sqlite:///"))


def restored(place: Place, step: str) -> dict[str, str]:
    """Kill a run at a step, then put the ledger back to before it; the digests of what it drew."""
    shutil.copy(book_of(place), place.folder / "backup.db")
    assert place.run(step) == -signal.SIGKILL, place.log
    shutil.copy(place.folder / "backup.db", book_of(place))
    assert place.balance.entries == ()
    return place.files(place.final if step in ("mid-publish", "before _SUCCESS") else place.staged[0])


def check_adopted(place: Place, drawn: dict[str, str]) -> None:
    """That very draw is the release; it is charged once, under its own reservation, as a release is."""
    assert "this ledger has no charge for it: charged now, and not drawn again" in place.log
    assert place.files() == drawn
    (entry,) = place.balance.entries
    assert (entry.state, entry.manifest_sha256) == ("committed", manifest_digest(place.final))
    spec = dpspark.load_spec(place.conf)
    assert entry.events == charged_events(spec, choose(spec))
    checked = verify(place.final, place.conf["ledger"]["url"])
    assert {check.name: check.result for check in checked.checks}["ledger"] == "ok"
    assert checked.passed
    assert place.staged == []


@pytest.mark.parametrize("step", ["before ledger.stage", "after ledger.stage", "mid-publish"])
def test_the_draw_on_disk_is_the_release(place: Place, step: str) -> None:
    """Fails on 0.2.0: it drew again (staged), or could never be finished (half published).

    Kills: a fresh reservation that does not look at what is staged.
    """
    drawn = restored(place, step)
    Path(place.conf["source"]["parquet"]).unlink()  # nothing is read
    assert place.run() == 0, place.log
    check_adopted(place, drawn)
    assert place.run() == 0, place.log
    assert "already published, nothing was read or spent" in place.log
    assert len(place.balance.entries) == 1


@pytest.mark.parametrize("step", ["before ledger.stage", "between copies", "before _SUCCESS"])
def test_the_draw_in_a_store_is_the_release(place: Place, bucket: Bucket, step: str) -> None:
    """Fails on 0.2.0, as on a disk."""
    place.conf["output"]["path"] = bucket.address("releases")
    drawn = restored(place, step)
    Path(place.conf["source"]["parquet"]).unlink()
    assert place.run() == 0, place.log
    check_adopted(place, drawn)
    names = ["_SUCCESS", "manifest.json", "scaled.parquet", "second_moment.parquet"]
    assert bucket.keys() == [f"releases/income/1/{name}" for name in names]


def test_a_kill_after_the_charge_changes_nothing(place: Place) -> None:
    """The draw was charged, and the run ended: the next one goes on with it at no further charge."""
    drawn = restored(place, "before ledger.stage")
    assert place.run("after reserve") == -signal.SIGKILL
    (entry,) = place.balance.entries
    assert entry.id in place.staged[0].name
    assert place.run() == 0, place.log
    assert place.files() == drawn
    assert len(place.balance.entries) == 1


def test_a_dry_run_says_so(place: Place) -> None:
    from dpspark.cli.dry_run import dry_run

    restored(place, "before ledger.stage")
    found = json.loads(dry_run(dpspark.load_spec(place.conf), None, None, None, True))
    assert (found["would"], found["charged"]) == ("charge and publish", True)
    assert place.balance.entries == ()


def test_no_budget_no_adoption(place: Place) -> None:
    """Kills: a draw that is published without a charge, because it is there anyway."""
    restored(place, "before ledger.stage")
    spec = dpspark.load_spec(place.conf)
    Ledger(place.conf["ledger"]["url"]).reserve("people", "other", "1", "h", spec.privacy.budget, "there")
    assert place.run() == 3, place.log
    assert "not enough budget left" in place.log
    assert not place.final.exists()
    assert len(place.staged) == 1


def refused(place: Place, what: str) -> None:
    """Exit 3, nothing charged, nothing drawn, and what is staged stays."""
    before = [path.name for path in place.staged]
    assert place.run() == 3, place.log
    assert what in place.log
    assert "Give this one a new release.version; or delete that, if nobody read it" in place.log
    assert place.balance.entries == ()
    assert [path.name for path in place.staged] == before
    assert not place.final.exists()


def test_a_draw_from_another_spec(place: Place) -> None:
    """Fails on 0.2.0: a changed conf was released under a name and version of which a draw was there."""
    restored(place, "before ledger.stage")
    place.conf["privacy"]["epsilon"] = 0.5
    refused(place, "holds a draw of this name and version from another spec")


def test_a_draw_for_another_dataset(place: Place) -> None:
    restored(place, "before ledger.stage")
    Ledger(place.conf["ledger"]["url"]).grant("others", 2.0, 1e-6)
    place.conf["ledger"]["dataset"] = "others"
    assert place.run() == 3, place.log
    assert "for another dataset of a ledger" in place.log


def rewritten(staged: Path, change: Any) -> Path:
    """Its manifest changed, and its name made to fit, as by somebody who may write there."""
    manifest = json.loads((staged / "manifest.json").read_text())
    change(manifest)
    (staged / "manifest.json").write_text(json.dumps(manifest))
    return staged.rename(staged.parent / f"{staged.name.split('.')[0]}.{manifest_digest(staged)}")


def test_a_draw_that_was_changed(place: Place) -> None:
    """Kills: adoption by the manifest's word alone: table, manifest, reservation and spec are each compared."""
    restored(place, "before ledger.stage")
    (staged,) = place.staged
    kept = place.folder / "kept"
    shutil.copytree(staged, kept)

    def again() -> Path:
        for path in place.staged:
            shutil.rmtree(path)
        return Path(shutil.copytree(kept, staged))

    (staged / "scaled.parquet").write_bytes(b"other")
    refused(place, "and was changed, or cannot be read by this version")
    (again() / "scaled.parquet").unlink()
    refused(place, "and was changed, or cannot be read by this version")
    manifest = again() / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"grid_bits": 20', '"grid_bits": 19'))
    refused(place, "and was changed, or cannot be read by this version")
    manifest.write_text("no manifest {")
    refused(place, "cannot be read, and may be a draw of this release")
    manifest.write_text("{}")
    refused(place, "cannot be read, and may be a draw of this release")
    again()
    rewritten(staged, lambda m: m["ledger"].update(id="0" * 32))
    refused(place, "was changed since it was staged")
    again()
    rewritten(staged, lambda m: m["spec"]["privacy"].update(epsilon=0.1))
    refused(place, "from another spec")
    again()
    rewritten(staged, lambda m: m.update(format=99))
    refused(place, "cannot be read by this version")


def test_two_draws(place: Place) -> None:
    """Neither can be told to be the release."""
    restored(place, "before ledger.stage")
    other = Path(shutil.copytree(place.staged[0], place.folder / "other"))
    manifest = (other / "manifest.json").read_text()
    (other / "manifest.json").write_text(manifest.replace(json.loads(manifest)["ledger"]["id"], "f" * 32))
    other.rename(place.output / ".staging" / f"{'f' * 32}.{manifest_digest(other)}")
    refused(place, "holds another draw of this release than")


def test_a_draw_beside_a_newer_reservation(place: Place) -> None:
    """Fails on 0.2.0: it drew a second time. There a restored ledger was charged again, and that run was killed."""
    drawn = restored(place, "before ledger.stage")
    spec = dpspark.load_spec(place.conf)
    Ledger(place.conf["ledger"]["url"]).reserve(
        "people", "income", "1", spec.hash, spec.privacy.budget, str(place.final)
    )
    assert place.run() == 3, place.log
    assert "made on a charge that this ledger does not have" in place.log
    assert place.files(place.staged[0]) == drawn


def test_what_is_half_written_or_of_others_is_no_draw(place: Place) -> None:
    """Kills: a release that is refused for what a killed run of another one left."""
    drawn = restored(place, "before ledger.stage")
    half = place.output / ".staging" / f"{'a' * 32}.{'b' * 32}.part"
    half.mkdir()
    (half / "second_moment.parquet").write_bytes(b"half")
    place.conf["release"]["version"] = "2"
    assert place.run() == 0, place.log
    assert len(place.balance.entries) == 1
    place.conf["release"]["version"] = "1"
    Ledger(place.conf["ledger"]["url"]).grant("people", 1.0, 1e-9)
    assert place.run() == 0, place.log
    assert place.files() == drawn


def test_half_of_a_draw_in_a_store_is_none(place: Place, bucket: Bucket) -> None:
    place.conf["output"]["path"] = bucket.address("releases")
    shutil.copy(book_of(place), place.folder / "backup.db")
    assert place.run("before the manifest") == -signal.SIGKILL, place.log
    shutil.copy(place.folder / "backup.db", book_of(place))
    assert place.run() == 0, place.log
    assert "this ledger has no charge" not in place.log
    assert len(place.balance.entries) == 1


def test_a_ledger_restored_under_a_running_driver(place: Place) -> None:
    """Fails on 0.2.0: it said that the budget was given back. The next run publishes what this one drew."""
    shutil.copy(book_of(place), place.folder / "backup.db")
    assert place.run("before ledger.stage") == -signal.SIGKILL
    (entry,) = place.balance.entries
    shutil.copy(place.folder / "backup.db", book_of(place))
    with pytest.raises(LedgerError, match="restored from an older copy"):
        Ledger(place.conf["ledger"]["url"]).stage(entry, "0" * 64)


def test_a_changed_draw_on_a_disk_is_not_published(place: Place) -> None:
    """Fails on 0.2.0: on a disk what was staged was moved to its place as it was found."""
    assert place.run("after ledger.stage") == -signal.SIGKILL
    (staged,) = place.staged
    (staged / "scaled.parquet").write_bytes((staged / "second_moment.parquet").read_bytes())
    with pytest.raises(OutputError, match="was changed since it was staged"):
        dpspark.release(place.conf)
    assert not place.final.exists()
