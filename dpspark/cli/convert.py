"""`dpspark convert`: a release for other tools."""

from __future__ import annotations

import click

from dpspark.cli.options import complete_directories, release_argument, report_step


@click.command()
@release_argument
@click.option(
    "--to",
    "form",
    type=click.Choice(["csv", "json", "r"]),
    required=True,
    help="csv: a file for each table; json: all in one; r: an .rds for readRDS().",
)
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    required=True,
    help="Made if it is not there; no file in it is written over.",
    shell_complete=complete_directories,
)
def convert(release: str, form: str, out: str) -> None:
    """Write a release as CSV, JSON or for R, with all digits."""
    from dpspark.cli.actions.convert import convert_release

    for path in convert_release(release, form, out, report_step):
        click.echo(path)


COMMANDS = (convert,)
