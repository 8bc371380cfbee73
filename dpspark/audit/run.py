"""A whole audit: which attacks, on how many processes, and what they found."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dpspark.audit.attack_list import attack_all
from dpspark.audit.attacks import FALSE_ALARMS, Finding
from dpspark.audit.cases import target_of
from dpspark.audit.confs import audited, specs_of
from dpspark.audit.floating_point import move_finding, order_finding
from dpspark.audit.mutants import mutants
from dpspark.audit.redraw import spark_finding
from dpspark.audit.sensitivity_attack import DOMAINS
from dpspark.errors import ConfError
from dpspark.spec.choose import choose
from dpspark.spec.extras import spending
from dpspark.spec.spec import Spec

Report = Callable[[str], None]
TRIALS = 4000
SUMS = ("sums", "exact")  # what all mechanisms stand on
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """The work of one process at a time: all attacks on one mechanism and relation, or on the sums, or the one on a mutant."""

    kind: str
    name: str
    spec: Spec | None = None
    mutant: int | None = None
    own_rows: bool = False  # attack with the spec's columns, not with several kinds of rows

    @property
    def label(self) -> str:
        relation = f", {self.spec.privacy.neighbours}" if self.spec is not None else ""
        return f"{self.kind} {self.name}{relation}" + (", broken on purpose" if self.mutant is not None else "")


def chosen(name: str | None) -> list[tuple[str, str]]:
    """Everything, or what goes by a name: a mechanism's, a kind's, or both."""
    everything = [*audited(), SUMS]
    found = [pair for pair in everything if name in (None, *pair, " ".join(pair))]
    if not found:
        names = sorted({part for pair in everything for part in pair})
        raise ConfError(f"audit: {name!r} is no mechanism and no kind.\nThere are {', '.join(names)}.")
    return found


def jobs_of(pairs: Sequence[tuple[str, str]]) -> list[Job]:
    found = [Job(kind, name, spec) for kind, name in pairs if kind != "sums" for spec in specs_of(kind, name)]
    return [*found, *(Job(*pair) for pair in pairs if pair == SUMS)]


def mutant_jobs(pairs: Sequence[tuple[str, str]]) -> list[Job]:
    """The mutants of these mechanisms, and of the sums if those are among them."""
    return [
        Job(mutant.kind, mutant.mechanism, mutant=number)
        for number, mutant in enumerate(mutants())
        if (mutant.kind, mutant.mechanism) in pairs or (mutant.kind == "sums" and SUMS in pairs)
    ]


def conf_jobs(spec: Spec) -> list[Job]:
    """The release of a conf, and its extras, as the conf calibrates them."""
    if spec.weight is not None or (spec.release.kind in ("gram", "regression") and spec.release.group_by is not None):
        raise ConfError("audit --conf: not for weighted rows, nor for matrices and regressions by group.")
    if spec.cluster_key is not None:
        raise ConfError(
            "audit --conf: errors by clusters are attacked on columns of their own. Run dpspark audit 'score bounds', and this "
            "without release.errors."
        )
    mechanism = choose(spec)  # `auto` makes another
    *extras, _ = [part["stage"] for part in spending(spec, mechanism)]
    return [
        Job(spec.release.kind, mechanism.name, spec, own_rows=True),
        *(Job("extra", extra, spec, own_rows=True) for extra in extras),
    ]


def run_jobs(jobs: Sequence[Job], trials: int, report: Report) -> list[list[Finding]]:
    """Return what each job found. Each verdict has its part of the false alarms: two for a job at most."""
    risk = FALSE_ALARMS / (2 * len(jobs))
    found: dict[int, list[Finding]] = {}
    for at, findings in _spread(jobs, trials, risk):
        found[at] = findings
        report(f"{len(found)} of {len(jobs)}: {jobs[at].label}")
    return [found[at] for at in range(len(jobs))]


def _spread(jobs: Sequence[Job], trials: int, risk: float) -> Iterator[tuple[int, list[Finding]]]:
    """Use all processors, one thread each: matrices are small, and threads that wait for each other cost most of the time."""
    context = multiprocessing.get_context("spawn")  # a fork would copy locks that other threads hold
    with _one_thread(), ProcessPoolExecutor(min(len(jobs), os.cpu_count() or 1), mp_context=context) as pool:
        futures = {pool.submit(run_job, job, trials, risk): at for at, job in enumerate(jobs)}
        for done in as_completed(futures):
            yield futures[done], done.result()


@contextmanager
def _one_thread() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run_job(job: Job, trials: int, risk: float) -> list[Finding]:
    if job.mutant is not None:
        return [mutants()[job.mutant].attack.run(trials, risk)]
    if job.spec is None:
        return [order_finding(), move_finding()]
    domains = {"the conf's columns": choose(job.spec).domain} if job.own_rows else DOMAINS
    return attack_all(job.kind, job.name, job.spec, trials, risk, domains)


def run_on_spark(jobs: Sequence[Job], spark: Any, report: Report) -> list[Finding]:
    """The re-evaluation attack on the whole pipeline; one relation of each mechanism is enough."""
    specs = {(job.kind, job.name): job.spec for job in reversed(jobs) if job.spec is not None and job.kind != "extra"}
    found = []
    for at, spec in enumerate(reversed(specs.values()), 1):
        report(f"{at} of {len(specs)}: {target_of(spec)} on Spark")
        found.append(spark_finding(spec, target_of(spec), spark))
    return found
