"""`dpspark verify` and `dpspark sign`."""

from __future__ import annotations

import click

from dpspark.cli.options import books_option, json_option, release_argument, show_text
from dpspark.errors import ConfError


@click.command()
@release_argument
@books_option
@click.option("--key", metavar="FILE", help="Public key, or shared secret; default: $DPSPARK_VERIFY_KEY.")
@json_option
def verify(release: str, url: str | None, key: str | None, as_json: bool) -> None:
    """Recompute a release's guarantee from its manifest; check hashes, ledger and signature."""
    from dpspark.cli.actions.verify import verify_release

    text, passed = verify_release(release, url, key, as_json)
    click.echo(text) if as_json else show_text(text)
    if not passed:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("release", required=False)
@click.option("--key", metavar="FILE", help="Ed25519 private key, or shared secret; default: $DPSPARK_SIGNING_KEY.")
@click.option("--new-key", metavar="PATH", help="Make an Ed25519 key pair instead: PATH and PATH.pub.")
def sign(release: str | None, key: str | None, new_key: str | None) -> None:
    """Sign a published release, for whoever verifies it."""
    from dpspark.cli.actions.verify import make_key, signing_key
    from dpspark.cli.actions.verify import sign as sign_it

    if (release is None) == (new_key is None):
        raise ConfError("give a release to sign, or --new-key.")
    if new_key is not None and key is not None:
        raise ConfError("--key is for signing a release; --new-key makes a pair of its own.")
    click.echo(make_key(new_key) if new_key is not None else sign_it(str(release), signing_key(key)))


COMMANDS = (verify, sign)
