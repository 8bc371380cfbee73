"""`dpspark audit`: attacks on the guarantee."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click

from dpspark.cli.options import json_option, report_step, show_text
from dpspark.errors import ConfError


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
    text, held = run_audit(mechanism, trials, mutate, conf, on_spark, plot, as_json, report_step)
    click.echo(text) if as_json else show_text(text)
    if not held:
        context.exit(1)


def run_audit(
    name: str | None,
    trials: int,
    mutate: bool,
    conf: str | None,
    on_spark: bool,
    plot: str | None,
    as_json: bool,
    report: Callable[[str], None],
) -> tuple[str, bool]:
    """Render what was found, and say whether everything held: no attack succeeded, and every mutant was caught."""
    from dpspark.audit.mutants import mutants
    from dpspark.audit.plot import draw_audit
    from dpspark.audit.run import chosen, conf_jobs, jobs_of, mutant_jobs, run_jobs, run_on_spark
    from dpspark.audit.show import closing, mutant_table, summary, to_dict
    from dpspark.privacy.noise import OpenDPNoise
    from dpspark.spec.spec import load_spec

    if conf is not None and (name is not None or mutate):
        raise ConfError("audit: --conf says which mechanism; MECHANISM and --mutate go without it.")
    if plot is not None and not Path(plot).absolute().parent.is_dir():
        raise ConfError(f"--plot={plot!r}: no such directory.")
    OpenDPNoise()  # refuses where OpenDP is missing, here and not in each of the processes below
    pairs = chosen(name) if conf is None else []
    jobs = conf_jobs(load_spec(conf)) if conf is not None else jobs_of(pairs)
    broken = mutant_jobs(pairs) if mutate else []
    found = run_jobs([*jobs, *broken], trials, report)
    findings = [finding for of in found[: len(jobs)] for finding in of]
    known = mutants()
    caught = [
        (known[job.mutant], of[0]) for job, of in zip(broken, found[len(jobs) :], strict=True) if job.mutant is not None
    ]
    if on_spark:
        from dpspark.spark.session import silence_logs, spark_session

        with spark_session("dpspark audit") as spark, silence_logs(spark):
            findings += run_on_spark(jobs, spark, report)
    if plot is not None:
        draw_audit(findings, caught, plot)
    held = not any(finding.broken for finding in findings) and all(finding.broken for _, finding in caught)
    if as_json:
        return json.dumps(to_dict(findings, caught, trials), ensure_ascii=False), held
    parts = [summary(findings), closing(findings, trials), *([mutant_table(caught)] if mutate else [])]
    return "\n\n".join(parts), held
