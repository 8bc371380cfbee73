"""`dpspark smooth`: estimates of groups that borrow strength from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dpspark.cli.options import (
    complete_directories,
    complete_files,
    json_option,
    level_option,
    release_argument,
    report_step,
    show_result,
)

if TYPE_CHECKING:
    from dpspark.smoothing.result import SmoothedGroups


@click.command()
@release_argument
@click.option(
    "--covariates",
    metavar="FILE",
    shell_complete=complete_files,
    help="Public columns of the groups, by their keys: CSV or Parquet. A column `rows` has their numbers of rows.",
)
@click.option("--formula", help="Which regression, of matrices by group; default: one that makes sense.")
@level_option
@click.option(
    "--suppress-cv",
    type=float,
    metavar="CV",
    help="Mark estimates whose standard error is more than so many times the estimate; default: a third.",
)
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    required=True,
    shell_complete=complete_directories,
    help="For smoothed.parquet, smoothed.csv, model.json and files of each level; none of them is written over.",
)
@json_option
def smooth(
    release: str,
    covariates: str | None,
    formula: str | None,
    level: float | None,
    suppress_cv: float | None,
    out: str,
    as_json: bool,
) -> None:
    """Smooth a release by group: an estimate with an interval for every group, at no cost."""
    show_result(smooth_release(release, covariates, formula, level, suppress_cv, out), as_json)


def smooth_release(
    release: str, covariates: str | None, formula: str | None, level: float | None, suppress_cv: float | None, out: str
) -> SmoothedGroups:
    """Smooth a release and write the files."""
    from dpspark.published.reading import read_release

    report_step("reading the release")
    found = read_release(release)
    report_step("simulating the noise, and smoothing")
    smoothed = found.smooth(covariates, 0.95 if level is None else level, formula=formula, suppress_cv=suppress_cv)
    smoothed.write(out)
    return smoothed
