"""`dpspark plan`: what a release will be like, or which budget reaches an accuracy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from dpspark.cli.options import conf_argument, json_option, level_option, set_option, url_option
from dpspark.errors import ConfError

if TYPE_CHECKING:
    from dpspark.planning.target import Target
    from dpspark.spec.spec import Spec


@click.command()
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
    """Predict the errors of a release, or the budget that reaches one; reads no data."""
    click.echo(plan_conf(conf, **options))


def plan_conf(
    conf: str,
    overrides: tuple[str, ...],
    regress: tuple[str, ...],
    guess: str | None,
    rows: int | None,
    target: str | None,
    beta: float | None,
    level: float | None,
    picture: str | None,
    url: str | None,
    as_json: bool,
) -> str:
    """Render the plan of a conf, or the budget that reaches a target, as text or JSON."""
    from dpspark.planning import plan as predict
    from dpspark.planning.options import USUAL_BETA, check_target_options
    from dpspark.planning.target import Target
    from dpspark.spec.spec import load_spec

    spec = load_spec(conf, overrides)
    if target is not None:
        if picture is not None:
            raise ConfError("--plot goes without --target.")
        asked = Target.parse(target)
        check_target_options(spec, asked, regress, beta, level, url)
        found: Any = _reached(spec, asked, regress, guess, rows, USUAL_BETA if beta is None else beta)
    else:
        found = predict(spec, regress, guess, rows, beta, level, url)
        if picture is not None:
            found.plot(picture)
    return json.dumps(found.to_dict(), ensure_ascii=False) if as_json else str(found)


def _reached(
    spec: Spec, target: Target, regress: tuple[str, ...], guess: str | None, rows: int | None, beta: float
) -> Any:
    """Find the budget that reaches a target."""
    from dpspark.analysis.remarks import USUAL_LEVEL
    from dpspark.planning.options import check_target_guess
    from dpspark.planning.setting import settle
    from dpspark.planning.target import reach

    if spec.release.kind in ("theil_sen", "quantiles"):
        from dpspark.planning.lines import reach_lines

        return reach_lines(spec, target, guess, rows, beta)
    setting = settle(spec, regress, guess, rows, beta, USUAL_LEVEL)
    check_target_guess(setting, target, guess, rows)
    return reach(setting, target)
