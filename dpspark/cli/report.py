"""`dpspark report`."""

from __future__ import annotations

import sys

import click

from dpspark.cli.options import complete_directories, complete_files, group_option, one_group
from dpspark.errors import printable


@click.command()
@click.argument("release")
@click.option("-o", "--out", metavar="FILE.html", help="Where it goes; default: <name>-<version>.html here.")
@click.option("--regress", multiple=True, metavar="FORMULA", help="A regression to show, e.g. 'income ~ age + educ'.")
@click.option("--url", help="Database of the ledger, to show the dataset's budget and what is spent of it.")
@click.option(
    "--smoothed",
    metavar="DIR",
    shell_complete=complete_directories,
    help="What `dpspark smooth` wrote: all groups with intervals, a funnel, a calibration plot.",
)
@click.option(
    "--map",
    "map_file",
    metavar="FILE.geojson",
    shell_complete=complete_files,
    help="With --smoothed: a public map of the groups, drawn in the page.",
)
@click.option(
    "--map-key",
    metavar="PROPERTY",
    help="The property of the map's areas that names the group; default: the group column's name.",
)
@group_option
def report(
    release: str,
    out: str | None,
    regress: tuple[str, ...],
    url: str | None,
    smoothed: str | None,
    map_file: str | None,
    map_key: str | None,
    groups: tuple[str, ...],
) -> None:
    """Write a release as one HTML page: its guarantee, its results, an explorer of regressions."""
    from dpspark.published.reading import read_release

    found = one_group(read_release(release), groups)
    named = found.manifest["release"]
    target = out or f"{named['name']}-{named['version']}.html"
    beside = {"smoothed": smoothed, "map": map_file, "map_key": map_key}
    click.echo(str(found.report(target, regress=regress, url=url, **beside)))
    if found.kind == "gram" and not regress and sys.stderr.isatty():
        from dpspark.analysis.example import choose_response

        shown = printable(choose_response(found.content.domain, found.content.definitions))
        click.echo(f"It shows a regression of {shown}; add --regress 'RESPONSE ~ REGRESSORS' for another.", err=True)
