"""Commands on a release at S3: all that analysts and stewards do with one on a disk."""

from __future__ import annotations

import json
from typing import Any

import pytest
from object_store import SECRET, Bucket

import dpspark
from dpspark.bundle.files import read_manifest
from dpspark.bundle.staging import check_writable, discard_staged, stage, staged_digests
from dpspark.bundle.storage import place_of
from dpspark.errors import LedgerError, OutputError
from dpspark.ledger.ledger import Ledger
from dpspark.privacy.budget import Budget
from tests.commands import run as run_command
from tests.manifests import bundle_of


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code, out, err = run_command(capsys, *arguments)
    assert SECRET not in out + err
    return code, out, err


@pytest.fixture
def published(bucket: Bucket) -> str:
    return str(bundle_of(place_of(bucket.address("")), {}))  # type: ignore[arg-type]


def test_regress_verify_sign_and_plan(
    published: str, bucket: Bucket, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the whole address, and by a short one with the endpoint in the environment."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{bucket.endpoint}")
    short = published.partition("?")[0]
    for address in (published, short):
        code, out, _ = run(capsys, "regress", address, "income ~ age")
        assert (code, "income ~ age" in out) == (0, True)
    monkeypatch.setenv("DPSPARK_SIGNING_KEY", "5f" * 32)
    monkeypatch.setenv("DPSPARK_VERIFY_KEY", "5f" * 32)
    assert "signed (hmac-sha256" in run(capsys, "sign", published)[1]
    assert "signed already" in run(capsys, "sign", short)[1]
    code, out, _ = run(capsys, "verify", published, "--json")
    results = {check["check"]: check["result"] for check in json.loads(out)["checks"]}
    assert (code, results["files"], results["signature"]) == (0, "ok", "ok")
    bucket.put(f"{place_of(published).key}/more.txt", b"x")  # type: ignore[union-attr]
    code, out, _ = run(capsys, "verify", published)
    assert (code, "not of this release: 'more.txt'" in out) == (1, True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("_SUCCESS", None, "unfinished"),
        ("manifest.json", None, "no manifest.json in it"),
        ("manifest.json", b"{", "its manifest.json cannot be read"),
        ("manifest.json", b"", "no manifest.json in it"),  # of a writer that was stopped: it can be written again
        ("second_moment.parquet", b"x", "is not the one that was published"),
        ("second_moment.parquet", None, "damaged"),
    ],
)
def test_what_is_not_whole_is_not_a_release(
    published: str, bucket: Bucket, name: str, content: bytes | None, message: str
) -> None:
    key = f"{place_of(published).key}/{name}"  # type: ignore[union-attr]
    bucket.delete(key) if content is None else bucket.put(key, content)
    with pytest.raises(dpspark.DpsparkError, match=message):
        dpspark.read_release(published)


def test_a_store_that_is_not_there(conf: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 4 and two lines, before anything is reserved."""
    nowhere = "s3://bucket/out?endpoint_override=127.0.0.1:1&scheme=http"
    with pytest.raises(OutputError):
        check_writable(place_of(nowhere))
    with pytest.raises(OutputError):
        dpspark.release(conf, out=nowhere)
    assert Ledger(conf["ledger"]["url"]).balances("people")[0].entries == ()
    code, _, err = run(capsys, "regress", nowhere, "income ~ age")
    assert (code, len(err.splitlines())) == (4, 1)


def test_a_staged_draw_keeps_its_budget(bucket: Bucket, conf: dict[str, Any], published: str) -> None:
    """Kills: a budget that is given back while its draw is in the bucket."""
    from dpspark.cli.ledger import give_budget_back

    output = place_of(bucket.address("releases"))
    ledger = Ledger(conf["ledger"]["url"])
    final = str(output / "income" / "1")
    entry = ledger.reserve("people", "income", "1", "hash", Budget(1.0, 1e-9), final)
    manifest = read_manifest(place_of(published))
    assert manifest is not None
    digest = stage(output, entry.id, dpspark.read_release(published).tables, manifest)
    assert staged_digests(output, entry.id) == [digest]
    with pytest.raises(LedgerError, match="its result was drawn"):
        give_budget_back("people", "income", "1", "why", False, None, conf["ledger"]["url"])
    bucket.delete(f"releases/.staging/{entry.id}.{digest}/manifest.json")
    assert staged_digests(output, entry.id) == []
    with pytest.raises(LedgerError, match="died while it wrote"):
        give_budget_back("people", "income", "1", "why", False, None, conf["ledger"]["url"])
    discard_staged(output, entry.id)
    assert bucket.keys("releases") == []
    assert "given back" in give_budget_back("people", "income", "1", "why", False, None, conf["ledger"]["url"])
