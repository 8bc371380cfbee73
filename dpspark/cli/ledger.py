"""`dpspark ledger`: what the steward of a dataset does."""

from __future__ import annotations

import click

from dpspark.cli.options import books_option, json_option, show_text
from dpspark.errors import ConfError

who_option = click.option("--who", help="Who acts, for the history; default: the user of this machine.")


@click.group()
def ledger() -> None:
    """Grant budgets, see what is left, and who did what."""


@ledger.command()
@click.argument("dataset")
@click.option("--epsilon", type=float, help="With --delta, or alone: then for pure releases, whose delta is 0.")
@click.option("--delta", type=float, help="With --epsilon.  [default: 0]")
@click.option("--rho", type=float, help="Instead: a budget in zCDP.")
@click.option(
    "--neighbours", type=click.Choice(["add_remove", "replace_one"]), help="What its releases protect against."
)
@click.option("--unit", metavar="COLUMN", help="Whom they protect: all rows with one value here; or `rows`.")
@click.option("--fixed", metavar="COLUMN", multiple=True, help="A column that a replaced record keeps.")
@click.option("--warn-below", type=float, metavar="SHARE", help="Warn when less of the budget is left.  [default: 0.2]")
@click.option("--reason", default="", help="Why, for the history.")
@who_option
@books_option
def grant(
    dataset: str,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    neighbours: str | None,
    unit: str | None,
    fixed: tuple[str, ...],
    warn_below: float | None,
    reason: str,
    who: str | None,
    url: str | None,
) -> None:
    """Add to a dataset's budget."""
    from dpspark.cli.actions.ledger import grant_budget
    from dpspark.core.protection import parse_promise

    if fixed and neighbours == "add_remove":
        raise ConfError(
            "--fixed goes with replace_one: under add_remove no record is replaced, so none keeps a column."
        )
    promise = parse_promise(neighbours, unit, fixed)
    click.echo(grant_budget(dataset, epsilon, delta, rho, promise, warn_below, reason, who, url))


@ledger.command()
@click.argument("dataset", required=False)
@books_option
@json_option
def show(dataset: str | None, url: str | None, as_json: bool) -> None:
    """What was granted, spent and is left."""
    from dpspark.cli.actions.ledger import show_ledger

    text = show_ledger(dataset, url, as_json)
    click.echo(text) if as_json else show_text(text)


@ledger.command("give-back")
@click.argument("dataset")
@click.argument("name")
@click.argument("version")
@click.option("--reason", required=True, help="Why, for the history.")
@click.option("--destroyed", is_flag=True, help="The result was staged; it was destroyed and nobody read it.")
@who_option
@books_option
def give_back(
    dataset: str, name: str, version: str, reason: str, destroyed: bool, who: str | None, url: str | None
) -> None:
    """Give the budget of a release back that never came to a result."""
    from dpspark.cli.actions.ledger import give_budget_back

    click.echo(give_budget_back(dataset, name, version, reason, destroyed, who, url))


@ledger.command()
@click.argument("dataset", required=False)
@click.option("--verify", is_flag=True, help="Check that nobody changed the ledger past dpspark.")
@click.option("--pinned", metavar="HASH", help="Check that the history still holds this hash, noted before.")
@books_option
@json_option
def history(dataset: str | None, verify: bool, pinned: str | None, url: str | None, as_json: bool) -> None:
    """Who did what, when and why."""
    from dpspark.cli.actions.ledger import show_history

    click.echo(show_history(dataset, verify or pinned is not None, pinned, url, as_json))
