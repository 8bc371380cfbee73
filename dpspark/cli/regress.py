"""`dpspark regress`: least squares from a release."""

from __future__ import annotations

import click

from dpspark.cli.options import (
    group_option,
    json_option,
    level_option,
    one_group,
    release_argument,
    repair_option,
    show_result,
    terminal,
)
from dpspark.errors import ConfError
from dpspark.show.progress import listening


@click.command()
@release_argument
@click.argument("formula", required=False)
@level_option
@click.option("--interval", type=click.Choice(["delta", "bootstrap"]), help="How intervals are made.  [default: delta]")
@click.option(
    "--errors",
    type=click.Choice(["classical", "hc1", "cluster"]),
    help="What standard errors assume: equal variances (classical), or as the release has paid for.",
)
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
    errors: str | None,
    repair: str | None,
    groups: tuple[str, ...],
    all_subsets: str | None,
    top: int | None,
    max_terms: int | None,
    as_json: bool,
) -> None:
    """Run least squares from a release alone.

    FORMULA is like 'income ~ age + educ'. A release of kind regression, theil_sen or quantiles needs none.
    """
    from dpspark.published.reading import read_release

    if formula is not None and all_subsets is not None:
        raise ConfError("give a formula, or --all-subsets with a response.")
    if all_subsets is not None and any(option is not None for option in (level, repair, interval, errors)):
        raise ConfError("--level, --repair, --interval and --errors go with a formula: a ranking has no intervals.")
    if all_subsets is None and (top is not None or max_terms is not None):
        raise ConfError("--top and --max-terms go with --all-subsets.")
    found = one_group(read_release(release), groups)
    with listening(terminal):
        if all_subsets is not None:
            result = found.all_subsets(all_subsets, max_terms=max_terms, top=10 if top is None else top)
        else:
            result = found.regress(formula, level=level, repair=repair, interval=interval, errors=errors)
        show_result(result, as_json)
