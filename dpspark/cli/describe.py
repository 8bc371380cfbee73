"""`dpspark describe`."""

from __future__ import annotations

import click

from dpspark.cli.options import group_option, json_option, one_group, release_argument, show_result


@click.command()
@release_argument
@group_option
@json_option
def describe(release: str, groups: tuple[str, ...], as_json: bool) -> None:
    """Say what a release holds: columns, bounds, definitions, means with their noise; and what can be asked of it."""
    from dpspark.published.reading import read_release

    show_result(one_group(read_release(release), groups).describe(), as_json)
