"""`dpspark ledger`: what the steward of a dataset does."""

from __future__ import annotations

import click

from dpspark.cli_options import json_option, url_option


@click.group()
def ledger() -> None:
    """Grant budgets and see what is left."""


@ledger.command()
@click.argument("dataset")
@click.option("--epsilon", type=float, required=True)
@click.option("--delta", type=float, required=True)
@url_option
def grant(dataset: str, epsilon: float, delta: float, url: str | None) -> None:
    """Add to a dataset's budget."""
    from dpspark.commands.ledger import grant_budget

    click.echo(grant_budget(dataset, epsilon, delta, url))


@ledger.command()
@click.argument("dataset", required=False)
@url_option
@json_option
def show(dataset: str | None, url: str | None, as_json: bool) -> None:
    """What was granted, spent and is left."""
    from dpspark.commands.ledger import show_ledger

    click.echo(show_ledger(dataset, url, as_json))
