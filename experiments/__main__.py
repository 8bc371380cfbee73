"""python -m experiments [EXPERIMENT...]: the papers' experiments, and those of real microdata."""

from __future__ import annotations

from typing import NoReturn

import click

from dpspark.cli.options import report_step
from dpspark.cli.running import run_command


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("experiments", nargs=-1)
@click.option(
    "--data",
    metavar="DIR",
    help="Real files to use where an experiment can: see docs/evaluation.md, docs/real-data.md.",
)
@click.option("--quick", is_flag=True, help="Fewer trials and smaller sizes: minutes, not an hour.")
@click.option("-o", "--out", metavar="DIR", default="evaluation", show_default=True)
@click.option("--processes", type=click.IntRange(min=1), help="Default: one for each core.")
def cli(experiments: tuple[str, ...], data: str | None, quick: bool, out: str, processes: int | None) -> None:
    """Repeat the papers' experiments, and those of real microdata: tables, plots and pages.

    Without EXPERIMENTS all of them; a paper's name stands for its own, and `real` for those of real microdata.
    A run that was stopped goes on where it was.
    """
    from experiments.command import evaluate

    click.echo(evaluate(experiments, data, quick, out, processes, report_step))


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line."""
    run_command(cli, "python -m experiments", arguments)


if __name__ == "__main__":
    main()
