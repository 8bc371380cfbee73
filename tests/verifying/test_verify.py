"""`dpspark verify` and `dpspark sign` on releases as they are published."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.ledger.ledger import Ledger
from dpspark.releasing.run import release
from dpspark.spec.spec import hash_of
from tests.commands import run
from tests.manifests import BY_GROUP, LINE, PRIVATE, QUANTILES, REGRESSION, REPLACE, conf_of, named

SECRET = "5f" * 32


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a small table and a ledger."""
    path = tmp_path_factory.mktemp("verify")
    rng = np.random.default_rng(5)
    n = 3000
    columns = {"age": rng.uniform(18, 99, n), "income": rng.uniform(0, 2e5, n), "w": rng.uniform(0, 5, n)}
    text = {"sex": rng.choice(["F", "M"], n), "tract": rng.choice(["a", "b"], n)}
    pq.write_table(pa.table({**columns, **text}), path / "people.parquet")
    for dataset in ("people", "replaced"):  # a dataset has one relation
        Ledger(f"sqlite:///{path / 'ledger.db'}").grant(dataset, epsilon=100.0, delta=1e-3)
    return path


def published(home: Path, spark: Any, version: str, **changes: Any) -> Path:
    conf = conf_of(
        {
            **changes,
            "source/parquet": str(home / "people.parquet"),
            "release/version": version,
            "ledger/url": f"sqlite:///{home / 'ledger.db'}",
            "ledger/dataset": "replaced" if changes.get("privacy/neighbours") else "people",
            "output": {"path": str(home / "releases")},
        }
    )
    return release(conf, spark=spark).path


@pytest.fixture(scope="module")
def plain(home: Path, spark: Any) -> Path:
    return published(home, spark, "plain")


@pytest.fixture
def copied(plain: Path, tmp_path: Path) -> Path:
    """The plain release, to be changed at will."""
    shutil.copytree(plain, tmp_path / "copy")
    return tmp_path / "copy"


def checks(out: str) -> dict[str, str]:
    return {check["check"]: check["result"] for check in json.loads(out)["checks"]}


def rewrite(folder: Path, change: Any) -> None:
    """Change the manifest, and make the hash of its spec anew."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    manifest["spec_hash"] = hash_of(manifest["spec"])
    path.write_text(json.dumps(manifest))


def test_verify_says_what_was_checked(plain: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "verify", str(plain))
    assert (code, err) == (0, "")
    assert ", epsilon=1 at delta=1e-09 from the scales, epsilon=1, delta=1e-09 claimed" in out
    assert "ledger           not checked  none was given" in out
    assert out.endswith("Verified.\n")
    code, out, _ = run(capsys, "verify", str(plain), "--url", f"sqlite:///{home / 'ledger.db'}", "--json")
    found = checks(out)
    assert code == 0
    assert {name for name, result in found.items() if result == "ok"} == {
        *("files", "manifest", "record", "spec", "sensitivity", "guarantee", "tables", "noise in tables", "ledger")
    }
    assert found["signature"] == "not checked"


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        (
            "stages",
            {**PRIVATE, "diagnostics": {}, "weight": {"column": "w", "upper": 5, "squares_share": 0.1}},
        ),
        ("groups", {**BY_GROUP, **REPLACE}),
        ("iw", {**BY_GROUP, **named("inverse_wishart", degrees_of_freedom=5000)}),
        ("regression", {**REGRESSION, **named("adassp")}),
        ("regressions", {**REGRESSION, **BY_GROUP}),
        ("lines", {**LINE, **BY_GROUP, **named("exponential")}),
        ("quantiles", QUANTILES),
    ],
)
def test_every_kind_of_release_verifies(
    home: Path, spark: Any, capsys: pytest.CaptureFixture[str], version: str, changes: dict[str, Any]
) -> None:
    folder = published(home, spark, version, **changes)
    code, out, _ = run(capsys, "verify", str(folder), "--url", f"sqlite:///{home / 'ledger.db'}", "--json")
    assert (code, checks(out)["ledger"], checks(out)["guarantee"]) == (0, "ok", "ok"), out
    with_noise = version not in ("lines", "quantiles")
    assert checks(out)["noise in tables"] == ("ok" if with_noise else "not checked")


def test_bounds_widened_everywhere_do_not_fit_the_tables(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In original units the noise is that of the bounds: kills the mutant that does not look at the tables."""

    def widen(manifest: dict[str, Any]) -> None:
        manifest["columns"][0]["upper"] = manifest["spec"]["columns"]["age"]["upper"] = 120.0

    rewrite(copied, widen)
    code, out, _ = run(capsys, "verify", str(copied), "--json")
    assert code == 1
    assert [name for name, result in checks(out).items() if result == "failed"] == ["tables", "noise in tables"]


def test_a_count_beside_a_matrix_is_the_matrix_s(
    home: Path, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: an exact number of rows in the manifest of a release whose own first entry has noise."""
    folder = tmp_path / "copy"
    shutil.copytree(published(home, spark, "counted", count={}), folder)
    assert run(capsys, "verify", str(folder))[0] == 0
    rewrite(folder, lambda manifest: manifest["monitoring"].update(rows=manifest["monitoring"]["rows"] + 1))
    code, out, _ = run(capsys, "verify", str(folder), "--json")
    assert (code, checks(out)["noise in tables"]) == (1, "failed")


def test_what_is_changed_is_found(copied: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{home / 'ledger.db'}"
    assert run(capsys, "verify", str(copied), "--url", url)[0] == 0  # a copy is as good
    (copied / "notes.txt").write_text("hello")
    code, out, _ = run(capsys, "verify", str(copied))
    assert (code, "not of this release: 'notes.txt'" in out) == (1, True)
    (copied / "notes.txt").unlink()

    rewrite(copied, lambda manifest: manifest["ledger"].update(id="0" * 32))
    code, out, _ = run(capsys, "verify", str(copied), "--url", url)
    assert (code, "has another id" in out) == (1, True)
    assert run(capsys, "verify", str(copied))[0] == 0  # nothing else vouches for it: hence the signature

    table = pq.read_table(copied / "scaled.parquet")
    pq.write_table(table.set_column(2, "value", pa.array(np.arange(table.num_rows) * 1.0)), copied / "scaled.parquet")
    code, out, _ = run(capsys, "verify", str(copied))
    assert (code, "changed since they were published: scaled.parquet" in out) == (1, True)
    assert "NOT VERIFIED: 2 checks failed." in out  # the other table of the matrix no longer fits it


def test_a_ledger_that_was_changed_vouches_for_nothing(
    plain: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills the mutant that reads the entry alone."""
    shutil.copy(home / "ledger.db", tmp_path / "ledger.db")
    with sqlite3.connect(tmp_path / "ledger.db") as ledger:
        ledger.execute("UPDATE releases SET events = NULL")
    code, out, _ = run(capsys, "verify", str(plain), "--url", f"sqlite:///{tmp_path / 'ledger.db'}", "--json")
    assert (code, checks(out)["ledger"]) == (1, "failed")


def test_a_key_that_is_there_twice_is_refused(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs take the last one; whoever reads the file sees the first."""
    path = copied / "manifest.json"
    path.write_text(path.read_text().replace("{", '{"guarantee": "Nothing at all can be learned.", ', 1))
    code, _, err = run(capsys, "verify", str(copied))
    assert (code != 0, "its manifest.json cannot be read" in err) == (True, True)


def test_a_ledger_that_is_not_there_is_a_failed_check(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "verify", str(plain), "--url", "sqlite:////not/there.db", "--json")
    assert (code, checks(out)["ledger"]) == (1, "failed")


def test_sign_and_verify_with_a_key_pair(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key"
    assert run(capsys, "sign", "--new-key", str(key))[0] == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert run(capsys, "sign", "--new-key", str(key))[0] == 4  # never written over
    code, out, _ = run(capsys, "sign", str(copied), "--key", str(key))
    assert (code, "signed (ed25519, key " in out) == (0, True)
    assert "signed already" in run(capsys, "sign", str(copied), "--key", str(key))[1]
    code, out, _ = run(capsys, "verify", str(copied), "--key", f"{key}.pub")
    assert (code, "signature        ok" in out) == (0, True), out
    assert run(capsys, "regress", str(copied), "income ~ age")[0] == 0  # readers do not mind

    run(capsys, "sign", "--new-key", str(tmp_path / "other"))
    code, out, _ = run(capsys, "verify", str(copied), "--key", str(tmp_path / "other.pub"))
    assert (code, "not made with this key" in out) == (1, True)
    assert run(capsys, "sign", str(copied), "--key", str(tmp_path / "other"))[0] == 4

    manifest = copied / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"people"', '"peopla"'))
    code, out, _ = run(capsys, "verify", str(copied), "--key", f"{key}.pub")
    assert (code, "signature        failed" in out) == (1, True)


def test_sign_and_verify_with_a_secret(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "secret"
    key.write_text(SECRET + "\n")
    code, _, err = run(capsys, "sign", str(copied), "--key", str(key))
    assert (code, "others can read it" in err, SECRET in err) == (2, True, False)
    key.chmod(0o600)
    assert run(capsys, "sign", str(copied), "--key", str(key))[0] == 0
    assert SECRET not in (copied / "signature.json").read_text()
    monkeypatch.setenv("DPSPARK_VERIFY_KEY", SECRET)
    assert run(capsys, "verify", str(copied))[0] == 0
    monkeypatch.setenv("DPSPARK_VERIFY_KEY", "ab" * 32)
    assert run(capsys, "verify", str(copied))[0] == 1
    monkeypatch.delenv("DPSPARK_VERIFY_KEY")
    monkeypatch.setenv("DPSPARK_SIGNING_KEY", SECRET)
    assert "signed already" in run(capsys, "sign", str(copied))[1]


def test_the_kind_of_key_decides(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills the mutant that takes a public key's text for a shared secret: anyone has that text."""
    from dpspark.bundle.signing import Key, sign_release

    run(capsys, "sign", "--new-key", str(tmp_path / "key"))
    public = (tmp_path / "key.pub").read_bytes()
    sign_release(copied, Key("hmac-sha256", secret=public))
    code, out, _ = run(capsys, "verify", str(copied), "--key", str(tmp_path / "key.pub"))
    assert (code, "it is hmac-sha256, and the key is for ed25519" in out) == (1, True)


def test_a_signature_is_asked_for(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "sign", "--new-key", str(tmp_path / "key"))
    code, out, _ = run(capsys, "verify", str(copied), "--key", str(tmp_path / "key.pub"))
    assert (code, "there is none: no signature.json" in out) == (1, True)
    (copied / "signature.json").write_text("[" * 100_000)
    assert run(capsys, "verify", str(copied))[0] == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"short", "a secret of 5 bytes; expected 32 or more"),
        (b"-----BEGIN PRIVATE KEY-----\nrubbish\n-----END PRIVATE KEY-----\n", "cannot be read as a PEM key"),
        (b"-----BEGIN PUBLIC KEY-----\nrubbish\n-----END PUBLIC KEY-----\n", "is a public key: it can check, not sign"),
        (b"x" * 100_000, "not a key file"),
    ],
)
def test_wrong_keys(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    key = tmp_path / "key"
    key.write_bytes(content)
    key.chmod(0o600)
    code, _, err = run(capsys, "sign", str(copied), "--key", str(key))
    assert (code, message in err) == (2, True), err
    assert len(err.splitlines()) <= 2
    assert not (copied / "signature.json").exists()
    assert run(capsys, "sign", str(copied), "--key", str(tmp_path / "none"))[0] == 2
    assert run(capsys, "sign", str(copied), "--key", "/dev/zero")[0] == 2


def test_keys_of_other_kinds(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"x")
    for content, message in (
        (
            ec.generate_private_key(ec.SECP256R1()).private_bytes(pem, pkcs8, serialization.NoEncryption()),
            "not an Ed25519",
        ),
        (ed25519.Ed25519PrivateKey.generate().private_bytes(pem, pkcs8, locked), "it has a password"),
    ):
        key = tmp_path / "key"
        key.write_bytes(content)
        key.chmod(0o600)
        code, _, err = run(capsys, "sign", str(copied), "--key", str(key))
        assert (code, message in err) == (2, True), err


def test_a_damaged_release_is_not_signed(copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "sign", "--new-key", str(tmp_path / "key"))
    (copied / "more.txt").touch()
    code, _, err = run(capsys, "sign", str(copied), "--key", str(tmp_path / "key"))
    assert (code, "is not signed" in err) == (4, True)


def test_release_signs(home: Path, spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    conf = conf_of(
        {
            "source/parquet": str(home / "people.parquet"),
            "release/version": "signed",
            "ledger/url": f"sqlite:///{home / 'ledger.db'}",
            "output": {"path": str(home / "releases")},
        }
    )
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump(conf))
    given = ("release", str(tmp_path / "conf.yaml"), "--sign-key", str(tmp_path / "key"))
    assert run(capsys, *given)[0] == 2  # no such key: refused before anything is spent
    assert not (home / "releases/income/signed").exists()
    run(capsys, "sign", "--new-key", str(tmp_path / "key"))
    code, out, _ = run(capsys, *given)
    assert code == 0
    assert run(capsys, "verify", out.strip(), "--key", str(tmp_path / "key.pub"))[0] == 0
    assert run(capsys, *given)[:2] == (0, out)  # run again, it is what it was
    assert os.listdir(home / "releases/.staging") == []
