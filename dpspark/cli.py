"""The dpspark command: one command per thing a user wants."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import click

from dpspark.errors import DpsparkError
from dpspark.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="dpspark")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def cli(debug: bool) -> None:
    """Differentially private second-moment matrices and regressions on Apache Spark."""


set_option = click.option(
    "overrides", "--set", multiple=True, metavar="KEY=VALUE", help="Change a conf value, e.g. privacy.epsilon=0.5"
)
url_option = click.option("--url", help="Database of the ledger; default: the conf's, else $DPSPARK_LEDGER.")
level_option = click.option(
    "--level", type=float, default=0.95, show_default=True, help="Confidence level of the intervals."
)
repair_option = click.option(
    "--repair",
    type=click.Choice(["none", "ridge", "eigen", "nearest_psd", "safe"]),
    help="Make the matrix positive definite first; default: as the release says.",
)
json_option = click.option("as_json", "--json", is_flag=True, help="Print JSON for machines.")


@cli.command()
@click.argument("conf")
@set_option
def check(conf: str, overrides: tuple[str, ...]) -> None:
    """Validate a conf; read no data."""
    from dpspark.commands.check import check_conf

    click.echo(check_conf(conf, overrides))


@cli.command()
@click.argument("conf")
@click.option("--out", metavar="DIR", help="Where releases go; default: the conf's output.path.")
@set_option
@url_option
@json_option
def release(conf: str, out: str | None, overrides: tuple[str, ...], url: str | None, as_json: bool) -> None:
    """Run a release on Spark, publish it and print its path."""
    from dpspark.pipeline import release as run
    from dpspark.spec import load_spec

    done = run(load_spec(conf, overrides), out=out, ledger_url=url, report=_report)
    if as_json:
        click.echo(json.dumps({"path": str(done.path), "manifest": done.manifest}, ensure_ascii=False))
    else:
        click.echo(str(done.path))


@cli.command()
@click.argument("release")
@click.argument("formula", required=False)
@level_option
@click.option("--interval", type=click.Choice(["delta", "bootstrap"]), help="How intervals are made.  [default: delta]")
@repair_option
@click.option("groups", "--group", multiple=True, metavar="KEY=VALUE", help="Of a release by group: which one.")
@click.option("--all-subsets", metavar="RESPONSE", help="Instead of a formula: rank all regressions of this column.")
@click.option("--top", type=click.IntRange(min=1), help="How many of all subsets to show.  [default: 10]")
@click.option("--max-terms", type=click.IntRange(min=0), help="At most this many columns in a subset.")
@json_option
def regress(
    release: str,
    formula: str | None,
    level: float,
    interval: str | None,
    repair: str | None,
    groups: tuple[str, ...],
    all_subsets: str | None,
    top: int | None,
    max_terms: int | None,
    as_json: bool,
) -> None:
    """Least squares from a release alone, e.g. 'income ~ age + educ'. A release of kind regression needs no formula."""
    from dpspark.bundle import read_release

    if formula is not None and all_subsets is not None:
        raise click.UsageError("give a formula, or --all-subsets with a response.")
    if all_subsets is not None and (repair is not None or interval is not None):
        raise click.UsageError("--repair and --interval go with a formula.")
    if all_subsets is None and (top is not None or max_terms is not None):
        raise click.UsageError("--top and --max-terms go with --all-subsets.")
    found = read_release(release)
    if groups:
        found = _one_group(found, groups)
    if all_subsets is not None:
        _show(found.all_subsets(all_subsets, max_terms=max_terms, top=10 if top is None else top), as_json)
    else:
        _show(found.regress(formula, level=level, repair=repair, interval=interval), as_json)


@cli.command()
@click.argument("release")
@click.option("-k", type=int, help="How many components; default: all.")
@click.option("--scale", is_flag=True, help="Of the correlation matrix.")
@level_option
@json_option
def pca(release: str, k: int | None, scale: bool, level: float, as_json: bool) -> None:
    """Principal components from a release alone, with bands for the privacy noise."""
    from dpspark.bundle import read_release

    _show(read_release(release).pca(k, scale=scale, level=level), as_json)


@cli.command()
@click.argument("release")
@click.option("--correlation", is_flag=True, help="The correlation matrix instead.")
@repair_option
@json_option
def covariance(release: str, correlation: bool, repair: str | None, as_json: bool) -> None:
    """The covariance matrix of a release, and the standard deviation of the noise in each entry."""
    from dpspark.commands.covariance import covariance_table

    click.echo(covariance_table(release, correlation, repair, as_json))


@cli.command()
@click.argument("conf")
@click.option("--target", type=float, help="Print the epsilon (or rho) at which entries are known to this.")
@click.option("--entry", metavar="ROW,COL", help="Of which entry, in original units; default: a scaled one, in rows.")
@click.option("--beta", type=float, default=0.05, show_default=True, help="Probability that it is missed.")
@set_option
@json_option
def plan(
    conf: str, target: float | None, entry: str | None, beta: float, overrides: tuple[str, ...], as_json: bool
) -> None:
    """The noise of this release and of every other mechanism; reads no data."""
    from dpspark.commands.plan import plan_conf

    click.echo(plan_conf(conf, overrides, target, entry, beta, as_json))


@cli.command()
@click.option("--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@click.option("--out", metavar="DIR", default="demo", show_default=True)
def demo(rows: int, out: str) -> None:
    """Make census-like microdata, release its second moments, run a regression."""
    from dpspark.commands.demo import run_demo

    run_demo(rows, out, _report, click.echo)


@cli.group()
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


@cli.group()
def bench() -> None:
    """Measure speed against peers and the physical limit."""


@bench.command()
@click.option("--rows", type=click.IntRange(min=1000), help="Default: 8,000,000 (tall) or 400,000 (wide).")
@click.option("--columns", type=click.IntRange(min=2), help="Default: 20 (tall) or 200 (wide).")
@click.option("shape", "--set", type=click.Choice(["tall", "wide"]), default="tall", show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
@json_option
def gram(rows: int | None, columns: int | None, shape: str, repeats: int, as_json: bool) -> None:
    """The exact second-moment matrix: dpspark, plain processes, MLlib and Spark SQL in one run."""
    from dpspark.commands.bench import bench_gram

    click.echo(bench_gram(shape, rows, columns, repeats, as_json, _report))


def _show(found: Any, as_json: bool) -> None:
    click.echo(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else found.summary())


@bench.command(name="theil-sen")
@click.option("--tracts", type=click.IntRange(min=2), default=70_000, show_default=True)
@click.option("--rows", type=click.IntRange(min=1000), help="Instead: one line of a table of so many rows.")
@json_option
def theil_sen(tracts: int, rows: int | None, as_json: bool) -> None:
    """A robust line for each of many tracts: dpspark, plain processes and applyInPandas in one run."""
    from dpspark.commands.bench_lines import bench_lines, bench_table

    click.echo(bench_lines(tracts, as_json, _report) if rows is None else bench_table(rows, as_json, _report))


def _one_group(found: Any, groups: tuple[str, ...]) -> Any:
    from dpspark.released import GroupedRelease

    if not isinstance(found, GroupedRelease):
        raise click.UsageError("--group is for releases of kind gram or regression by group.")
    if not all("=" in group for group in groups):
        raise click.UsageError("--group: expected KEY=VALUE, e.g. state=CA.")
    return found.group(**{key: value for key, _, value in (group.partition("=") for group in groups)})


def _report(step: str) -> None:
    """Progress on stderr, so that stdout can be piped; quiet when nobody looks, but for what a log must show."""
    from dpspark.pipeline import ALREADY_PUBLISHED

    if step.startswith(ALREADY_PUBLISHED):
        click.echo(step, err=True)
    elif sys.stderr.isatty():
        click.echo(click.style(f"  {step} ...", dim=True), err=True)


def main(arguments: list[str] | None = None) -> Any:
    """Run a command; errors become one or two lines and an exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given
    try:
        # Accepted anywhere in the line.
        sys.exit(cli.main([a for a in given if a != "--debug"], prog_name="dpspark", standalone_mode=False) or 0)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(1)
    except DpsparkError as error:
        _show_frames(error, debug)
        click.echo(f"dpspark: {error}", err=True)
        sys.exit(error.exit_code)
    except Exception as error:
        _show_frames(error, debug)
        # The text of an unforeseen error may quote data.
        click.echo(f"dpspark: unexpected {type(error).__name__}. Run again with --debug, and report it.", err=True)
        sys.exit(1)


def _show_frames(error: Exception, debug: bool) -> None:
    """Where it happened, without the texts of other libraries' errors."""
    if debug:
        click.echo("".join(traceback.format_tb(error.__traceback__)), err=True)
