"""`dpspark pool`: releases of disjoint people added up."""

from __future__ import annotations

import click

from dpspark.cli.options import complete_directories, json_option, report_step, show_result


@click.command()
@click.argument("releases", nargs=-1, required=True, shell_complete=complete_directories)
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    required=True,
    shell_complete=complete_directories,
    help="For the pool, a release of its own, with its parts in DIR/parts; nothing is written over.",
)
@click.option(
    "--overlap",
    type=click.Choice(["none", "unknown"]),
    default="none",
    show_default=True,
    help="Whether people may be in the data of several: unknown adds the budgets up.",
)
@click.option("--name", help="Name of the pool; default: that of its parts.")
@click.option("--version", help="Version of the pool; default: the first and the last of its parts'.")
@json_option
def pool(
    releases: tuple[str, ...], out: str, overlap: str, name: str | None, version: str | None, as_json: bool
) -> None:
    """Add up the matrices of RELEASES of disjoint people, such as regions or months.

    They need the same columns, bounds and settings. The pool is a release that every command reads; it costs nothing.
    """
    pool_releases(releases, out, overlap, name, version, as_json)


def pool_releases(
    releases: tuple[str, ...], out: str, overlap: str, name: str | None, version: str | None, as_json: bool
) -> None:
    """Pool, write and describe."""
    from dpspark.published.pooling import pool as pooled

    report_step("verifying the parts, and adding them up")
    found = pooled(releases, out, overlap=overlap, name=name, version=version)
    show_result(found.describe(), as_json)
