"""`dpspark sign`: vouch for a published release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dpspark.errors import ConfError, OutputError

if TYPE_CHECKING:
    from dpspark.bundle.signing import Key

SIGNING_KEY = "DPSPARK_SIGNING_KEY"


@click.command()
@click.argument("release", required=False)
@click.option("--key", metavar="FILE", help="Ed25519 private key, or shared secret; default: $DPSPARK_SIGNING_KEY.")
@click.option("--new-key", metavar="PATH", help="Make an Ed25519 key pair instead: PATH and PATH.pub.")
def sign(release: str | None, key: str | None, new_key: str | None) -> None:
    """Sign a published release, for whoever verifies it."""
    if (release is None) == (new_key is None):
        raise ConfError("give a release to sign, or --new-key.")
    if new_key is not None and key is not None:
        raise ConfError("--key is for signing a release; --new-key makes a pair of its own.")
    click.echo(make_key(new_key) if new_key is not None else sign_published(str(release), signing_key(key)))


def signing_key(option: str | None) -> Key:
    """Read the key to sign with."""
    from dpspark.bundle.signing import find_key

    key = find_key(option, SIGNING_KEY, signing=True)
    if key is None:
        raise ConfError(f"no key to sign with. Give --key FILE, or set {SIGNING_KEY}; make one with --new-key PATH.")
    return key


def sign_published(release: str, key: Key) -> str:
    """Vouch for a release whose files are as published."""
    from dpspark.bundle.signing import sign_release
    from dpspark.published.reading import read_release
    from dpspark.verifying.verification import check_files

    found = read_release(release)
    for check in check_files(found.path, found.manifest):
        if check.result == "failed":
            raise OutputError(f"release {release!r} is not signed: its {check.name} are {check.detail}.")
    return f"{found.path}: {sign_release(found.path, key)}"


def make_key(path: str) -> str:
    """Make a key pair, and say which file is for whom."""
    from dpspark.bundle.signing import new_key

    private, public = new_key(path)
    return f"{private}: private key, to sign with; keep it.\n{public}: public key, for whoever verifies."
