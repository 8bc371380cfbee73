"""The dpspark command: one command per thing a user wants."""

from __future__ import annotations

from typing import NoReturn

import click

from dpspark.cli.audit import audit
from dpspark.cli.check import check
from dpspark.cli.compare import compare
from dpspark.cli.completion import completion
from dpspark.cli.convert import convert
from dpspark.cli.covariance import covariance
from dpspark.cli.demo import demo
from dpspark.cli.describe import describe
from dpspark.cli.init import init
from dpspark.cli.ledger import ledger
from dpspark.cli.load import load
from dpspark.cli.moved import MOVED
from dpspark.cli.pca import pca
from dpspark.cli.plan import plan
from dpspark.cli.pool import pool
from dpspark.cli.regress import regress
from dpspark.cli.release import release
from dpspark.cli.report import report
from dpspark.cli.running import run_command
from dpspark.cli.series import series
from dpspark.cli.sign import sign
from dpspark.cli.smooth import smooth
from dpspark.cli.table import table
from dpspark.cli.verify import verify
from dpspark.cli.warm import warm
from dpspark.version import __version__

COMMANDS = (
    audit,
    check,
    compare,
    completion,
    convert,
    covariance,
    demo,
    describe,
    init,
    ledger,
    load,
    pca,
    plan,
    pool,
    regress,
    release,
    report,
    series,
    sign,
    smooth,
    table,
    verify,
    warm,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="dpspark")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def cli(debug: bool) -> None:
    """Differentially private second-moment matrices and regressions on Apache Spark."""


for command in (*COMMANDS, *MOVED):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line."""
    run_command(cli, "dpspark", arguments)
