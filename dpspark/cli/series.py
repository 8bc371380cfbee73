"""`dpspark series`: one regression from releases over time."""

from __future__ import annotations

import click

from dpspark.cli.options import complete_directories, group_option, json_option, level_option, one_group, show_result


@click.command()
@click.argument(
    "releases", nargs=-1, required=True, metavar="RELEASES... [FORMULA]", shell_complete=complete_directories
)
@click.option(
    "--overlap",
    type=click.Choice(["none", "unknown"]),
    default="none",
    show_default=True,
    help="Whether people may be in the data of several: if unknown, changes are not tested.",
)
@level_option
@group_option
@click.option("-o", "--out", metavar="FILE", help="Also write a picture (.svg, .png, .pdf) or a table (.csv).")
@json_option
def series(
    releases: tuple[str, ...],
    overlap: str,
    level: float | None,
    groups: tuple[str, ...],
    out: str | None,
    as_json: bool,
) -> None:
    """Follow coefficients through RELEASES, such as months: a table with intervals, and tests of no change.

    A directory of versions, such as releases/income, stands for all that are published in it. FORMULA, the last argument, is
    like 'income ~ age + educ'. Releases of kind regression need none.
    """
    show_series(releases, overlap, level, groups, out, as_json)


def show_series(
    arguments: tuple[str, ...],
    overlap: str,
    level: float | None,
    groups: tuple[str, ...],
    out: str | None,
    as_json: bool,
) -> None:
    """Read the releases, fit and print."""
    from dpspark.published.series import open_releases, write_series
    from dpspark.published.series import series as followed

    formula = arguments[-1] if "~" in arguments[-1] else None
    places = arguments if formula is None else arguments[:-1]
    opened = [one_group(release, groups) for release in open_releases(places)]
    found = followed(opened, formula, overlap=overlap, level=level)
    if out is not None:
        write_series(found, out)
    show_result(found, as_json)
