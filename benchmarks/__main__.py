"""python -m benchmarks gram | lines | paths | scale | peers: speed, how it grows, and the peers."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import click

from benchmarks.peers.known import NAMES
from benchmarks.scale.sizes import STUDIES
from dpspark.cli.options import json_option, report_step
from dpspark.cli.running import run_command
from dpspark.errors import ConfError

PATHS = ("where", "expr", "groups", "delta", "iceberg", "table", "unit", "listing", "lines", "command")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """Measure speed against peers and the physical limit."""


@cli.command()
@click.option("--rows", type=click.IntRange(min=1000), help="Default: 8,000,000 (tall) or 400,000 (wide).")
@click.option("--columns", type=click.IntRange(min=2), help="Default: 20 (tall) or 200 (wide).")
@click.option("shape", "--set", type=click.Choice(["tall", "wide"]), default="tall", show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
@json_option
def gram(rows: int | None, columns: int | None, shape: str, repeats: int, as_json: bool) -> None:
    """The exact second-moment matrix: dpspark, plain processes, MLlib and Spark SQL in one run."""
    from benchmarks.gram import bench_gram

    click.echo(bench_gram(shape, rows, columns, repeats, as_json, report_step))


@cli.command
@click.option("--tracts", type=click.IntRange(min=2), help="How many.  [default: 70000]")
@click.option(
    "kernels", "--kernel", multiple=True, type=click.Choice(["exponential", "depth", "huber"]), help="Only this one."
)
@click.option("--rows", type=click.IntRange(min=1000), help="Instead: one line of a table of so many rows.")
@click.option("--epsilon", type=click.FloatRange(min=0, min_open=True), default=4.0, show_default=True)
@json_option
def lines(tracts: int | None, kernels: tuple[str, ...], rows: int | None, epsilon: float, as_json: bool) -> None:
    """A robust line for each of many tracts: dpspark, plain processes and applyInPandas in one run."""
    from benchmarks.lines import bench_lines, bench_table

    if rows is not None and (tracts is not None or kernels):
        raise ConfError("--tracts and --kernel go without --rows, which is for one line of the whole table.")
    if rows is not None:
        click.echo(bench_table(rows, epsilon, as_json, report_step))
    else:
        click.echo(bench_lines(70_000 if tracts is None else tracts, kernels, epsilon, as_json, report_step))


@cli.command()
@click.option("--rows", type=click.IntRange(min=1000), default=100_000, show_default=True)
@click.option("--epsilon", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True)
@click.option(
    "--delta", type=click.FloatRange(min=0, max=1, min_open=True, max_open=True), default=1e-9, show_default=True
)
@click.option("--draws", type=click.IntRange(min=1), default=20, show_default=True, help="Slow peers make fewer.")
@click.option("--only", multiple=True, type=click.Choice(NAMES), help="Only this one.")
@click.option("--no-install", is_flag=True, help="Leave out peers whose environment is not there yet.")
@json_option
def peers(
    rows: int, epsilon: float, delta: float, draws: int, only: tuple[str, ...], no_install: bool, as_json: bool
) -> None:
    """One regression by OpenDP, diffprivlib, Tumult Analytics, PipelineDP, MLlib, statsmodels and dpspark in one run.

    Each peer gets a Python environment of its own, made once in the user's cache directory.
    """
    from benchmarks.peers.run import bench_peers

    click.echo(bench_peers(rows, epsilon, delta, draws, only, not no_install, as_json, report_step))


@cli.command()
@click.option("--rows", type=click.IntRange(min=10_000), default=8_000_000, show_default=True)
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
@click.option(
    "--only", multiple=True, type=click.Choice(PATHS), help="Only this, beside plain Parquet; can be given again."
)
@click.option(
    "--compare/--no-compare", default=True, help="Also go through Spark's own scan, once.  [default: compare]"
)
@json_option
def paths(rows: int, repeats: int, only: tuple[str, ...], compare: bool, as_json: bool) -> None:
    """Every way to the rows: filters, computed columns, groups, people, Delta, Iceberg and catalog tables in one run."""
    from benchmarks.paths import bench_paths

    click.echo(bench_paths(rows, repeats, only, compare, as_json, report_step))


@cli.command()
@click.option("--quick", is_flag=True, help="Small sizes: under a minute.")
@click.option("--only", multiple=True, type=click.Choice(STUDIES), help="Only this; can be given again.")
@click.option("--plot", "plots", type=click.Path(path_type=Path, file_okay=False), help="Directory for the curves.")
@json_option
def scale(quick: bool, only: tuple[str, ...], plots: Path | None, as_json: bool) -> None:
    """How cost grows with rows, columns, files, cores and partitions; a quarter of an hour, 25 GB of disk."""
    from benchmarks.scale.run import bench_scale

    click.echo(bench_scale(quick, only, as_json, plots, report_step))


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line."""
    run_command(cli, "python -m benchmarks", arguments)


if __name__ == "__main__":
    main()
