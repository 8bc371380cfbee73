"""A whole audit: which attacks, on how many processes, and what they found."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass

from dpspark.audit.attacks import FALSE_ALARMS, Finding, distinguish
from dpspark.audit.confs import audited, specs_of
from dpspark.audit.plan import release_case, stage_case
from dpspark.audit.white_box import measure_noise
from dpspark.errors import ConfError
from dpspark.privacy.noise import OpenDPNoise
from dpspark.spec import Spec

Report = Callable[[str], None]
TRIALS = 4000


@dataclass(frozen=True)
class Job:
    """What one process does at a time: all attacks on one mechanism for one relation of neighbours."""

    kind: str
    name: str
    spec: Spec

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name}, {self.spec.privacy.neighbours}"


def chosen(name: str | None) -> list[tuple[str, str]]:
    """Everything, or what goes by a name: a mechanism's, or a kind's."""
    found = [pair for pair in audited() if name in (None, *pair, " ".join(pair))]
    if not found:
        names = sorted({part for pair in audited() for part in pair})
        raise ConfError(f"audit: no mechanism or kind is called {name!r}.\nThere are {', '.join(names)}.")
    return found


def jobs_of(pairs: Sequence[tuple[str, str]]) -> list[Job]:
    return [Job(kind, name, spec) for kind, name in pairs for spec in specs_of(kind, name)]


def run_jobs(jobs: Sequence[Job], trials: int, report: Report) -> list[Finding]:
    """In the order of the jobs. Each verdict has its part of the false alarms: two for a job at most."""
    risk = FALSE_ALARMS / (2 * len(jobs))
    found: dict[int, list[Finding]] = {}
    for at, findings in _spread(jobs, trials, risk):
        found[at] = findings
        report(f"{len(found)} of {len(jobs)}: {jobs[at].label}")
    return [finding for at in sorted(found) for finding in found[at]]


def _spread(jobs: Sequence[Job], trials: int, risk: float) -> Iterator[tuple[int, list[Finding]]]:
    """On all processors; in this process if there is little to do."""
    if len(jobs) < 3:
        for at, job in enumerate(jobs):
            yield at, run_job(job, trials, risk)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks of libraries
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        futures = {pool.submit(run_job, job, trials, risk): at for at, job in enumerate(jobs)}
        for done in as_completed(futures):
            yield futures[done], done.result()


def run_job(job: Job, trials: int, risk: float) -> list[Finding]:
    case = stage_case(job.spec, job.name) if job.kind == "stage" else release_case(job.spec)
    noise = OpenDPNoise()
    found = [distinguish(case, trials, noise, risk)]
    if case.view is not None:
        found.append(measure_noise(case, trials, noise, risk))
    return found
