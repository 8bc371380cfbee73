"""Options that several commands share, and how they report and show."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

set_option = click.option(
    "overrides", "--set", multiple=True, metavar="KEY=VALUE", help="Change a conf value, e.g. privacy.epsilon=0.5"
)
url_option = click.option("--url", help="Database of the ledger; default: the conf's, else $DPSPARK_LEDGER.")
books_option = click.option("--url", help="Database of the ledger, e.g. sqlite:///ledger.db; default: $DPSPARK_LEDGER.")
group_option = click.option(
    "groups", "--group", multiple=True, metavar="KEY=VALUE", help="Of a release by group: which one."
)
level_option = click.option(
    "--level", type=float, default=0.95, show_default=True, help="Confidence level of the intervals."
)
repair_option = click.option(
    "--repair",
    type=click.Choice(["none", "ridge", "eigen", "nearest_psd", "safe"]),
    help="Make the matrix positive definite first; default: as the release says.",
)
json_option = click.option("as_json", "--json", is_flag=True, help="Print JSON for machines.")


def show_result(found: Any, as_json: bool) -> None:
    click.echo(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else found.summary())


def report_step(step: str) -> None:
    """Progress on stderr, so that stdout can be piped; quiet when nobody looks, but for what a log must show."""
    from dpspark.pipeline import ALREADY_PUBLISHED
    from dpspark.privacy.balance import LOW_BUDGET
    from dpspark.turns import WAITING

    if step.startswith((ALREADY_PUBLISHED, LOW_BUDGET, WAITING)):
        click.echo(step, err=True)
    elif sys.stderr.isatty():
        click.echo(click.style(f"  {step} ...", dim=True), err=True)
