"""`dpspark verify`: a release's guarantee, recomputed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from dpspark.cli.options import json_option, ledger_option, release_argument, show_text

if TYPE_CHECKING:
    from dpspark.verifying.verification import Verification

VERIFY_KEY = "DPSPARK_VERIFY_KEY"


@click.command()
@release_argument
@ledger_option
@click.option("--key", metavar="FILE", help="Public key, or shared secret; default: $DPSPARK_VERIFY_KEY.")
@json_option
def verify(release: str, url: str | None, key: str | None, as_json: bool) -> None:
    """Recompute a release's guarantee from its manifest; check hashes, ledger and signature."""
    text, passed = verify_release(release, url, key, as_json)
    click.echo(text) if as_json else show_text(text)
    if not passed:
        raise click.exceptions.Exit(1)


def verify_release(release: str, url: str | None, key: str | None, as_json: bool) -> tuple[str, bool]:
    """Render what was checked, and say whether all of it holds."""
    from dpspark.bundle.signing import find_key
    from dpspark.verifying.verification import verify as check_release

    found = check_release(release, url or os.environ.get("DPSPARK_LEDGER"), find_key(key, VERIFY_KEY, signing=False))
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
