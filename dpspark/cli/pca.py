"""`dpspark pca`: principal components from a release."""

from __future__ import annotations

import click

from dpspark.cli.options import group_option, json_option, level_option, one_group, release_argument, show_result


@click.command()
@release_argument
@click.option("-k", type=int, help="How many components; default: all.")
@click.option("--scale", is_flag=True, help="Of the correlation matrix.")
@level_option
@group_option
@json_option
def pca(release: str, k: int | None, scale: bool, level: float | None, groups: tuple[str, ...], as_json: bool) -> None:
    """Print principal components from a release alone, with bands for the privacy noise."""
    from dpspark.published.reading import read_release

    found = one_group(read_release(release), groups)
    show_result(found.pca(k, scale=scale, **({} if level is None else {"level": level})), as_json)
