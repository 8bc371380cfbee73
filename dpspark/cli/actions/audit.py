"""`dpspark audit`: what the attacks found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from dpspark.audit.mutants import mutants
from dpspark.audit.plot import draw_audit
from dpspark.audit.run import chosen, conf_jobs, jobs_of, mutant_jobs, run_jobs, run_on_spark
from dpspark.audit.show import closing, mutant_table, summary, to_dict
from dpspark.errors import ConfError
from dpspark.spec.spec import load_spec


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
    """What to print, and whether everything held: no attack succeeded, and every mutant was caught."""
    if conf is not None and (name is not None or mutate):
        raise ConfError("audit: --conf says which mechanism; MECHANISM and --mutate go without it.")
    if plot is not None and not Path(plot).absolute().parent.is_dir():
        raise ConfError(f"--plot={plot!r}: no such directory.")
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
