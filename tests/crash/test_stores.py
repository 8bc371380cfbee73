"""Kill -9 at the steps of a release to S3, which cannot rename: nobody sees half of it, and the next run ends it."""

from __future__ import annotations

import os
import signal

import pytest
from object_store import Bucket
from places import Place, ended, stopped, until

import dpspark
from dpspark.bundle.files import manifest_digest
from dpspark.errors import DpsparkError

pytestmark = pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)

STEPS = [  # is a draw staged, and what is at its place?
    ("between tables", False, []),
    ("before the manifest", False, []),
    ("before ledger.stage", True, []),
    ("after ledger.stage", True, []),
    ("between copies", True, ["second_moment.parquet"]),
    ("before its manifest", True, ["scaled.parquet", "second_moment.parquet"]),
    ("before _SUCCESS", True, ["manifest.json", "scaled.parquet", "second_moment.parquet"]),
    ("before commit", None, ["_SUCCESS", "manifest.json", "scaled.parquet", "second_moment.parquet"]),
]
QUICK = ("before the manifest", "before ledger.stage", "between copies", "before _SUCCESS")


@pytest.fixture
def on_s3(place: Place, bucket: Bucket) -> Place:
    place.conf["output"]["path"] = bucket.address("releases")
    return place


def check_published(place: Place, bucket: Bucket) -> dict[str, str]:
    """One committed entry, one charge, one bundle, and nothing else in the bucket."""
    balance = place.balance
    (entry,) = balance.entries
    assert (entry.state, float(balance.spent_epsilon)) == ("committed", pytest.approx(1.0, rel=0.01))
    assert entry.path == str(place.final)
    assert dpspark.read_release(str(place.final)).manifest["ledger"]["id"] == entry.id
    assert entry.manifest_sha256 == manifest_digest(place.final)
    names = ["_SUCCESS", "manifest.json", "scaled.parquet", "second_moment.parquet"]
    assert bucket.keys() == [f"releases/income/1/{name}" for name in names]
    return place.files()


@pytest.mark.parametrize(
    ("step", "staged", "there"),
    [pytest.param(*case, marks=[] if case[0] in QUICK else [pytest.mark.slow]) for case in STEPS],
)
def test_kill_and_retry(on_s3: Place, bucket: Bucket, step: str, staged: bool | None, there: list[str]) -> None:
    """Kills: a bundle that is seen half; a second draw once one is staged; a half-staged one that is published."""
    place = on_s3
    assert place.run(step) == -signal.SIGKILL, place.log
    assert [path.name for path in place.final.iterdir()] == there
    if "_SUCCESS" not in there:
        with pytest.raises(DpsparkError, match=r"unfinished|no manifest|no such directory"):
            dpspark.read_release(str(place.final))
    drawn = place.files(place.staged[0]) if staged else None

    assert place.run() == 0, place.log
    published = check_published(place, bucket)
    assert drawn in (None, published)

    assert place.run() == 0, place.log
    assert "already published, nothing was read or spent" in place.log
    assert check_published(place, bucket) == published


@pytest.mark.parametrize(
    "step",
    [
        pytest.param("before ledger.stage", marks=pytest.mark.slow),  # both draw: the second one's is the release
        "between copies",
        pytest.param("before _SUCCESS", marks=pytest.mark.slow),
    ],
)
def test_two_drivers_publish_the_same(on_s3: Place, bucket: Bucket, step: str) -> None:
    """The first stands still while the second goes all the way and takes away what was staged; then it goes on."""
    place = on_s3
    first = place.start(step, "STOP")
    until(lambda: stopped(first))
    assert place.run() == 0, place.log
    published = check_published(place, bucket)
    os.kill(first.pid or 0, signal.SIGCONT)
    assert ended(first) == 0, place.logs[0].read_text()
    assert check_published(place, bucket) == published


def test_another_bundle_is_not_written_over(on_s3: Place, bucket: Bucket) -> None:
    """As if two ledgers had the same output."""
    place = on_s3
    assert place.run("before ledger.stage") == -signal.SIGKILL, place.log
    bucket.put("releases/income/1/manifest.json", b"{}")
    assert place.run() == 4, place.log
    assert bucket.keys("releases/income") == ["releases/income/1/manifest.json"]
