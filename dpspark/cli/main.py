"""The dpspark command: one command per thing a user wants."""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import Any

import click

from dpspark.cli.audit import audit
from dpspark.cli.bench import bench
from dpspark.cli.convert import COMMANDS as CONVERT
from dpspark.cli.describe import describe
from dpspark.cli.init import COMMANDS as INIT
from dpspark.cli.ledger import ledger
from dpspark.cli.options import (
    conf_argument,
    group_option,
    json_option,
    level_option,
    one_group,
    release_argument,
    repair_option,
    report_step,
    set_option,
    show_result,
    show_text,
    terminal,
    url_option,
)
from dpspark.cli.release import COMMANDS as RELEASE
from dpspark.cli.report import report
from dpspark.cli.verify import COMMANDS as VERIFY
from dpspark.errors import ConfError, DpsparkError, printable, without_passwords
from dpspark.show.colour import takes_colour
from dpspark.show.progress import listening
from dpspark.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="dpspark")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def cli(debug: bool) -> None:
    """Differentially private second-moment matrices and regressions on Apache Spark."""


@cli.command()
@release_argument
@click.argument("formula", required=False)
@level_option
@click.option("--interval", type=click.Choice(["delta", "bootstrap"]), help="How intervals are made.  [default: delta]")
@repair_option
@group_option
@click.option("--all-subsets", metavar="RESPONSE", help="Instead of a formula: rank all regressions of this column.")
@click.option("--top", type=click.IntRange(min=1), help="How many of all subsets to show.  [default: 10]")
@click.option("--max-terms", type=click.IntRange(min=0), help="At most this many columns in a subset.")
@json_option
def regress(
    release: str,
    formula: str | None,
    level: float | None,
    interval: str | None,
    repair: str | None,
    groups: tuple[str, ...],
    all_subsets: str | None,
    top: int | None,
    max_terms: int | None,
    as_json: bool,
) -> None:
    """Least squares from a release alone.

    FORMULA is like 'income ~ age + educ'. A release of kind regression, theil_sen or quantiles needs none.
    """
    from dpspark.published.reading import read_release

    if formula is not None and all_subsets is not None:
        raise ConfError("give a formula, or --all-subsets with a response.")
    if all_subsets is not None and any(option is not None for option in (level, repair, interval)):
        raise ConfError("--level, --repair and --interval go with a formula: a ranking has no intervals.")
    if all_subsets is None and (top is not None or max_terms is not None):
        raise ConfError("--top and --max-terms go with --all-subsets.")
    found = one_group(read_release(release), groups)
    with listening(terminal):
        if all_subsets is not None:
            result = found.all_subsets(all_subsets, max_terms=max_terms, top=10 if top is None else top)
        else:
            result = found.regress(formula, level=level, repair=repair, interval=interval)
        show_result(result, as_json)


@cli.command()
@release_argument
@click.option("-k", type=int, help="How many components; default: all.")
@click.option("--scale", is_flag=True, help="Of the correlation matrix.")
@level_option
@group_option
@json_option
def pca(release: str, k: int | None, scale: bool, level: float | None, groups: tuple[str, ...], as_json: bool) -> None:
    """Principal components from a release alone, with bands for the privacy noise."""
    from dpspark.published.reading import read_release

    found = one_group(read_release(release), groups)
    show_result(found.pca(k, scale=scale, **({} if level is None else {"level": level})), as_json)


@cli.command()
@release_argument
@click.option("--correlation", is_flag=True, help="The correlation matrix instead.")
@repair_option
@group_option
@json_option
def covariance(release: str, correlation: bool, repair: str | None, groups: tuple[str, ...], as_json: bool) -> None:
    """The covariance matrix of a release, and the standard deviation of the noise in each entry."""
    from dpspark.cli.actions.covariance import covariance_table
    from dpspark.published.reading import read_release

    found = one_group(read_release(release), groups)
    text = covariance_table(found, correlation, repair, as_json)
    click.echo(text) if as_json else show_text(text, headings=True)


@cli.command()
@conf_argument
@click.option("--regress", multiple=True, metavar="FORMULA", help="Predict its standard errors; may be repeated.")
@click.option("--guess", metavar="FILE|RELEASE", help="What the data are like: YAML, or a previous release.")
@click.option("--rows", type=click.IntRange(min=1), help="How many; default: the guess's, else release.expected_rows.")
@click.option(
    "--target",
    metavar="WHAT=VALUE",
    help="Print the epsilon for se:TERM=50, entry=50, entry:ROW,COL=1e6 or spectral=200; lines: error=0.1.",
)
@click.option("--beta", type=float, help="Probability that an error is larger.  [default: 0.05]")
@click.option("picture", "--plot", metavar="FILE.png", help="Draw errors against the budget.")
@level_option
@set_option
@url_option
@json_option
def plan(conf: str, **options: Any) -> None:
    """Predicted errors of a release, or the budget that reaches one; reads no data."""
    from dpspark.cli.actions.plan import plan_conf

    click.echo(plan_conf(conf, **options))


@cli.command()
@click.option("--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@click.option("-o", "--out", metavar="DIR", default="demo", show_default=True)
def demo(rows: int, out: str) -> None:
    """Make census-like microdata, release its second moments, run a regression."""
    from dpspark.cli.actions.demo import run_demo

    with listening(terminal):
        run_demo(rows, out, show_text)


@cli.command()
def warm() -> None:
    """Make Java's class archive, once for each Spark: later releases start faster. It ends when that is done."""
    from dpspark.cli.actions.warm import warm as make

    with listening(terminal):
        path = make()
    click.echo(str(path))


@cli.command()
@click.argument("experiments", nargs=-1)
@click.option("--data", metavar="DIR", help="Real files to use where an experiment can: see docs/evaluation.md.")
@click.option("--quick", is_flag=True, help="Fewer trials and smaller sizes: minutes, not an hour.")
@click.option("-o", "--out", metavar="DIR", default="evaluation", show_default=True)
@click.option("--processes", type=click.IntRange(min=1), help="Default: one for each core.")
def evaluate(experiments: tuple[str, ...], data: str | None, quick: bool, out: str, processes: int | None) -> None:
    """Repeat the papers' experiments: tables, plots and a page.

    Without EXPERIMENTS all of them; a paper's name stands for its own. A run that was stopped goes on where it was.
    """
    from experiments.command import evaluate as run

    click.echo(run(experiments, data, quick, out, processes, report_step))


for group in (ledger, bench, audit, describe, report, *VERIFY, *RELEASE, *INIT, *CONVERT):
    cli.add_command(group)


def main(arguments: list[str] | None = None) -> Any:
    """Run a command; errors become one or two lines and an exit code."""
    _reopen_stderr()
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    try:
        # Accepted anywhere in the line.
        sys.exit(cli.main([a for a in given if a != "--debug"], prog_name="dpspark", standalone_mode=False) or 0)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        text = without_passwords(shown.getvalue()).rstrip("\n")
        *usage, last = text.split("\n")
        click.echo("\n".join([*usage, _red(last)]), err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(1)
    except DpsparkError as error:
        _show_frames(error, debug)
        click.echo(_red(f"dpspark: {printable(str(error))}"), err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        _show_frames(error, debug)
        # The text of an unforeseen error may quote data.
        click.echo(
            _red(f"dpspark: unexpected {type(error).__name__}. Run again with --debug, and report it."), err=True
        )
        sys.exit(1)


def _reopen_stderr() -> None:
    """Where stderr was closed (2>&-), the next file to be opened would take its place, and get what Java writes there."""
    if sys.stderr is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.stderr = os.fdopen(2, "w")


def _red(message: str) -> str:
    """What comes before the first colon, on a terminal."""
    before, colon, after = message.partition(":")
    return f"{click.style(before + colon, fg='red')}{after}" if takes_colour(sys.stderr) else message


def _show_frames(error: Exception, debug: bool) -> None:
    """Where it happened, without the texts of other libraries' errors."""
    if debug:
        click.echo("".join(traceback.format_tb(error.__traceback__)), err=True)
        for line in getattr(error, "details", ()):  # of Spark's own error: names alone
            click.echo(line, err=True)
