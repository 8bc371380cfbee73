"""`dpspark compare`: one regression from two releases."""

from __future__ import annotations

import click

from dpspark.cli.options import complete_directories, group_option, json_option, level_option, one_group, show_result


@click.command()
@click.argument("a", shell_complete=complete_directories)
@click.argument("b", shell_complete=complete_directories)
@click.argument("formula", required=False)
@click.option(
    "--overlap",
    type=click.Choice(["none", "unknown"]),
    default="none",
    show_default=True,
    help="Whether people may be in the data of both: unknown makes intervals wide enough for it.",
)
@level_option
@group_option
@json_option
def compare(
    a: str, b: str, formula: str | None, overlap: str, level: float | None, groups: tuple[str, ...], as_json: bool
) -> None:
    """Compare the coefficients of two releases, such as two years: B - A, with intervals.

    FORMULA is like 'income ~ age + educ'. Releases of kind regression need none.
    """
    show_comparison(a, b, formula, overlap, level, groups, as_json)


def show_comparison(
    a: str, b: str, formula: str | None, overlap: str, level: float | None, groups: tuple[str, ...], as_json: bool
) -> None:
    """Read both releases, compare and print."""
    from dpspark.published.comparing import compare as compared
    from dpspark.published.reading import read_release

    first, second = (one_group(read_release(release), groups) for release in (a, b))
    show_result(compared(first, second, formula, overlap=overlap, level=level), as_json)
