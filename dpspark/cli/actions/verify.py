"""`dpspark verify` and `dpspark sign`: a release's certificate, checked and vouched for."""

from __future__ import annotations

import json
import os

from dpspark.bundle.signing import Key, find_key, new_key, sign_release
from dpspark.errors import ConfError, OutputError
from dpspark.published.reading import read_release
from dpspark.verifying.verification import Verification, check_files, verify

VERIFY_KEY, SIGNING_KEY = "DPSPARK_VERIFY_KEY", "DPSPARK_SIGNING_KEY"


def verify_release(release: str, url: str | None, key: str | None, as_json: bool) -> tuple[str, bool]:
    """What to print, and whether all that was checked holds."""
    found = verify(release, url or os.environ.get("DPSPARK_LEDGER"), find_key(key, VERIFY_KEY, signing=False))
    return (_as_json(found) if as_json else _as_text(found)), found.passed


def _as_text(found: Verification) -> str:
    named = found.manifest["release"]
    width = max(len(check.name) for check in found.checks)
    lines = [f"{check.name:<{width}}  {check.result:<11}  {check.detail}" for check in found.checks]
    failed = sum(check.result == "failed" for check in found.checks)
    last = "Verified." if found.passed else f"NOT VERIFIED: {failed} check{'s' if failed > 1 else ''} failed."
    return "\n".join([f"Release {named['name']} {named['version']}, {found.path}", "", *lines, "", last])


def _as_json(found: Verification) -> str:
    checks = [{"check": check.name, "result": check.result, "detail": check.detail} for check in found.checks]
    return json.dumps({"release": str(found.path), "verified": found.passed, "checks": checks}, ensure_ascii=False)


def signing_key(option: str | None) -> Key:
    key = find_key(option, SIGNING_KEY, signing=True)
    if key is None:
        raise ConfError(f"no key to sign with. Give --key FILE, or set {SIGNING_KEY}; make one with --new-key PATH.")
    return key


def sign(release: str, key: Key) -> str:
    """Vouch for a release whose files are as published."""
    found = read_release(release)
    for check in check_files(found.path, found.manifest):
        if check.result == "failed":
            raise OutputError(f"release {release!r} is not signed: its {check.name} are {check.detail}.")
    return f"{found.path}: {sign_release(found.path, key)}"


def make_key(path: str) -> str:
    private, public = new_key(path)
    return f"{private}: private key, to sign with; keep it.\n{public}: public key, for whoever verifies."
