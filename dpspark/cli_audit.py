"""`dpspark audit`: attacks on the guarantee."""

from __future__ import annotations

import click

from dpspark.cli_options import json_option, report_step


@click.command()
@click.argument("mechanism", required=False)
@click.option(
    "--trials",
    type=click.IntRange(min=200),
    default=4000,
    show_default=True,
    help="Releases of each of two neighbours.",
)
@json_option
@click.pass_context
def audit(context: click.Context, mechanism: str | None, trials: int, as_json: bool) -> None:
    """Try to break the guarantee, on this machine: of all mechanisms, or of one (or of one kind)."""
    from dpspark.commands.audit import run_audit

    text, held = run_audit(mechanism, trials, as_json, report_step)
    click.echo(text)
    if not held:
        context.exit(1)
