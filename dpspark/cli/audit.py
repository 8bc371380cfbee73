"""`dpspark audit`: attacks on the guarantee."""

from __future__ import annotations

import click

from dpspark.cli.options import json_option, report_step, show_text


@click.command()
@click.argument("mechanism", required=False)
@click.option(
    "--trials",
    type=click.IntRange(min=200),
    default=4000,
    show_default=True,
    help="Releases of each of two neighbours.",
)
@click.option("--mutate", is_flag=True, help="Also attack deliberately broken copies: every one must be caught.")
@click.option("--conf", metavar="CONF", help="Instead: the mechanism of a conf, as its bounds and budget calibrate it.")
@click.option("on_spark", "--spark", is_flag=True, help="Also run whole releases on local Spark, twice each.")
@click.option("--plot", metavar="FILE.png", help="Draw what was found against the claims.")
@json_option
@click.pass_context
def audit(
    context: click.Context,
    mechanism: str | None,
    trials: int,
    mutate: bool,
    conf: str | None,
    on_spark: bool,
    plot: str | None,
    as_json: bool,
) -> None:
    """Try to break the guarantee, on this machine: of every mechanism, or of those of one name or kind.

    Ends with 1 if an attack succeeded, or if a broken copy survived.
    """
    from dpspark.cli.actions.audit import run_audit

    text, held = run_audit(mechanism, trials, mutate, conf, on_spark, plot, as_json, report_step)
    click.echo(text) if as_json else show_text(text)
    if not held:
        context.exit(1)
