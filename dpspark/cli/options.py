"""Options that several commands share, and how they report and show."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from dpspark.errors import ConfError, printable
from dpspark.show.colour import colour_text
from dpspark.show.progress import Step
from dpspark.show.terminal import Terminal

if TYPE_CHECKING:
    from dpspark.analysis.result import Answer
    from dpspark.published.release import Release


def complete_files(*_: Any) -> list[CompletionItem]:
    """Leave it to the shell: a path may also be an address, which click.Path would not take."""
    return [CompletionItem("", type="file")]


def complete_directories(*_: Any) -> list[CompletionItem]:
    return [CompletionItem("", type="dir")]


conf_argument = click.argument("conf", shell_complete=complete_files)
release_argument = click.argument("release", shell_complete=complete_directories)
set_option = click.option(
    "overrides", "--set", multiple=True, metavar="KEY=VALUE", help="Change a conf value, e.g. privacy.epsilon=0.5"
)
url_option = click.option("--url", help="Database of the ledger; default: the conf's, else $DPSPARK_LEDGER.")
ledger_option = click.option(
    "--url", help="Database of the ledger, e.g. sqlite:///ledger.db; default: $DPSPARK_LEDGER."
)
group_option = click.option(
    "groups", "--group", multiple=True, metavar="KEY=VALUE", help="Of a release by group: which one."
)


def _possible_level(context: click.Context, option: click.Parameter, value: float | None) -> float | None:
    """Refused also where it would not be used."""
    from dpspark.analysis.options import check_level

    return None if value is None else check_level(value)


level_option = click.option(
    "--level",
    type=float,
    callback=_possible_level,
    help="Confidence level of the intervals.  [default: 0.95]",
)
repair_option = click.option(
    "--repair",
    type=click.Choice(["none", "ridge", "eigen", "nearest_psd", "safe"]),
    help="Make the matrix positive definite first; default: as the release says.",
)
verbose_option = click.option("-v", "--verbose", is_flag=True, help="Log each step, its time and tasks on stderr.")
json_option = click.option("as_json", "--json", is_flag=True, help="Print JSON for machines.")


def show_result(found: Answer, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        show_text(found.summary(), headings=True)


def show_text(text: str, headings: bool = False) -> None:
    """Print what may have names of a stranger's release in it: none of them steers the terminal."""
    click.echo(colour_text(printable(text), sys.stdout, headings))


def one_group(found: Release, groups: tuple[str, ...]) -> Release:
    """Choose the group that was asked for, of a release by group."""
    if not groups:
        return found
    if not found.content.group_by:
        raise ConfError("--group is for releases by group, and this one has no groups. Leave it out.")
    if not all("=" in group for group in groups):
        raise ConfError("--group: expected KEY=VALUE, e.g. state=CA.")
    keys = {key: value for key, _, value in (group.partition("=") for group in groups)}
    if len(keys) < len(groups):
        raise ConfError("--group: a key is there twice. Choose one group.")
    return found.only(**keys)


terminal = Terminal()


def report_step(text: str) -> None:
    """Show on a terminal that a step begins."""
    terminal(Step(text))
