"""`dpspark ledger`: what the steward of a dataset does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from dpspark.cli.options import json_option, ledger_option, show_text
from dpspark.errors import ConfError, LedgerError

if TYPE_CHECKING:
    from dpspark.core.protection import Promise
    from dpspark.ledger.balance import Entry

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
@ledger_option
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
    from dpspark.core.protection import parse_promise

    if fixed and neighbours == "add_remove":
        raise ConfError(
            "--fixed goes with replace_one: under add_remove no record is replaced, so none keeps a column."
        )
    promise = parse_promise(neighbours, unit, fixed)
    click.echo(grant_budget(dataset, epsilon, delta, rho, promise, warn_below, reason, who, url))


@ledger.command()
@click.argument("dataset", required=False)
@ledger_option
@json_option
def show(dataset: str | None, url: str | None, as_json: bool) -> None:
    """Show what was granted, spent and is left."""
    from dpspark.cli.ledger_text import show_ledger

    text = show_ledger(dataset, url, as_json)
    click.echo(text) if as_json else show_text(text)


@ledger.command("give-back")
@click.argument("dataset")
@click.argument("name")
@click.argument("version")
@click.option("--reason", required=True, help="Why, for the history.")
@click.option("--destroyed", is_flag=True, help="The result was staged; it was destroyed and nobody read it.")
@who_option
@ledger_option
def give_back(
    dataset: str, name: str, version: str, reason: str, destroyed: bool, who: str | None, url: str | None
) -> None:
    """Give the budget of a release back that never came to a result."""
    click.echo(give_budget_back(dataset, name, version, reason, destroyed, who, url))


@ledger.command()
@click.argument("dataset", required=False)
@click.option("--verify", is_flag=True, help="Check that nobody changed the ledger past dpspark.")
@click.option("--pinned", metavar="HASH", help="Check that the history still holds this hash, noted before.")
@ledger_option
@json_option
def history(dataset: str | None, verify: bool, pinned: str | None, url: str | None, as_json: bool) -> None:
    """Show who did what, when and why."""
    from dpspark.cli.ledger_text import show_history

    click.echo(show_history(dataset, verify or pinned is not None, pinned, url, as_json))


def grant_budget(
    dataset: str,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    promise: Promise,
    warn_below: float | None,
    reason: str,
    who: str | None,
    url: str | None,
) -> str:
    """Add to a dataset's budget, and say what it has in all."""
    from dpspark.bundle.names import plain_name
    from dpspark.cli.ledger_text import exactly
    from dpspark.ledger.ledger import Ledger, find_ledger_url

    try:
        plain_name(dataset)
    except ValueError as error:
        raise ConfError(f"dataset: {error}") from None
    _check_amounts(epsilon, delta, rho)
    if warn_below is not None and not 0 <= warn_below <= 1:
        raise ConfError(f"--warn-below {warn_below:g}; expected a share from 0 to 1, such as 0.2.")
    ledger = Ledger(find_ledger_url(url))
    more = {"promise": promise, "warn_below": warn_below, "why": reason, "who": who}
    if rho is not None:
        balance = ledger.grant(dataset, rho=rho, **more)  # type: ignore[arg-type]
        return f"{dataset}: granted rho {rho:g}. In all: rho {exactly(balance.granted_rho)}."
    assert epsilon is not None
    delta = delta or 0.0  # a budget without one is pure
    balance = ledger.grant(dataset, epsilon, delta, **more)  # type: ignore[arg-type]
    return (
        f"{dataset}: granted epsilon {epsilon:g}, delta {delta:g}. "
        f"In all: epsilon {exactly(balance.granted_epsilon)}, delta {exactly(balance.granted_delta)}."
    )


def _check_amounts(epsilon: float | None, delta: float | None, rho: float | None) -> None:
    if (rho is None) == (epsilon is None) or (delta is not None and epsilon is None):
        raise ConfError("ledger grant: give --epsilon, with --delta or alone (delta 0), or --rho alone.")
    for name, value in (("epsilon", epsilon), ("rho", rho)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ConfError(f"--{name} {value:g}; expected a finite number > 0.")
    if delta is not None and not 0 <= delta < 1:
        raise ConfError(f"--delta {delta:g}; expected a number from 0 to below 1, such as 1e-6.")


def give_budget_back(
    dataset: str, name: str, version: str, reason: str, destroyed: bool, who: str | None, url: str | None
) -> str:
    """Give a release's budget back, and say what is left."""
    from dpspark.cli.ledger_text import rounded_down
    from dpspark.ledger.history import one_line
    from dpspark.ledger.ledger import Ledger, find_ledger_url

    if not one_line(reason):
        raise ConfError("--reason: empty. Say why; it is kept in the history.")
    ledger = Ledger(find_ledger_url(url), create=False)
    entry = ledger.find(dataset, name, version)
    if entry is not None and entry.state != "committed":  # of a published one the ledger itself says why not
        _check_nothing_there(entry)
    if destroyed and entry is not None and entry.state == "reserved":
        raise ConfError(
            f"--destroyed: the ledger knows of no staged result of {name} {version}, so none was destroyed. Leave it out."
        )
    ledger.give_back(dataset, name, version, reason, destroyed=destroyed, who=who)
    balance = ledger.balances(dataset)[0]
    left = (
        f"rho {rounded_down(balance.left_rho)}"
        if balance.left_rho is not None
        else f"epsilon {rounded_down(balance.left_epsilon)}"
    )
    return f"{dataset}: the budget of {name} {version} was given back. Left: {left}. Its name and version stay used."


def _check_nothing_there(entry: Entry) -> None:
    """Refuse where a result lies on disk: a driver may have died between writing it and telling the ledger."""
    from dpspark.bundle.files import read_manifest
    from dpspark.bundle.staging import staged_digests, staged_paths, staging_path
    from dpspark.bundle.storage import place_of

    final = place_of(entry.path)
    output = final.parent.parent
    staged = [staging_path(output, entry.id, digest) for digest in staged_digests(output, entry.id)]
    manifest = read_manifest(final)
    published = manifest is not None and manifest["ledger"]["id"] == entry.id
    if staged or published:
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset}: its result was drawn, and is at "
            f"{final if published else staged[0]}.\nRun the release again to publish it."
        )
    partial = staged_paths(output, entry.id)
    if partial:
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset}: its driver died while it wrote {partial[0]}.\n"
            "Run the release again; or delete that, if nobody read it, and give its budget back."
        )
