"""`dpspark report`."""

from __future__ import annotations

import sys

import click

from dpspark.cli.options import group_option, one_group
from dpspark.errors import printable


@click.command()
@click.argument("release")
@click.option("-o", "--out", metavar="FILE.html", help="Where it goes; default: <name>-<version>.html here.")
@click.option("--regress", multiple=True, metavar="FORMULA", help="A regression to show, e.g. 'income ~ age + educ'.")
@click.option("--url", help="Database of the ledger, to show the dataset's budget and what is spent of it.")
@group_option
def report(release: str, out: str | None, regress: tuple[str, ...], url: str | None, groups: tuple[str, ...]) -> None:
    """Write a release as one HTML page: its guarantee, its results, an explorer of regressions."""
    from dpspark.published.reading import read_release

    found = one_group(read_release(release), groups)
    named = found.manifest["release"]
    click.echo(str(found.report(out or f"{named['name']}-{named['version']}.html", regress=regress, url=url)))
    if found.kind == "gram" and not regress and sys.stderr.isatty():
        from dpspark.analysis.example import choose_response

        shown = printable(choose_response(found.content.domain, found.content.definitions))
        click.echo(f"It shows a regression of {shown}; add --regress 'RESPONSE ~ REGRESSORS' for another.", err=True)
