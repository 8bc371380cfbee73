"""Drivers killed at any moment, by whatever part of them dies, and a wrapper that runs the job until it ends with 0."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import exact_job
import numpy as np
import psutil
import pytest
import yaml
from standalone import Cluster, Job, gone, kill, until
from test_releases import JOBS

import dpspark
from dpspark.bundle.files import manifest_digest
from dpspark.ledger.ledger import Ledger

KILLS = 20
VICTIMS = ("java", "python", "both")


def strike(job: Job, victim: str) -> list[psutil.Process]:
    """Kill Spark's JVM, the Python process or both; returns the Python process, which may still be there."""
    java = psutil.Process(job.process.pid)
    pythons = [child for child in java.children() if "python" in child.name()]
    for process in [*(pythons if victim != "java" else []), *([java] if victim != "python" or not pythons else [])]:
        if not gone(process):
            kill(process.pid)
    return pythons


def run_until_done(cluster: Cluster, conf: str, rng: np.random.Generator, usual: float) -> int:
    """How often it was killed before it ended with 0."""
    kills, left = 0, []
    while True:
        job = cluster.submit(JOBS["gram"], conf)
        try:
            job.process.wait(rng.uniform(0, 1.1 * usual))
        except subprocess.TimeoutExpired:
            left += strike(job, str(rng.choice(VICTIMS)))
            kills += 1
        if job.end() == 0:
            break
    until(lambda: all(map(gone, left)))
    return kills


@pytest.mark.slow
def test_twenty_kills_at_random_moments(cluster: Cluster, place: Path) -> None:
    """Kills: a release that is charged, drawn or published twice, or never, when drivers die and are started again.

    Also one whose JVM dies and whose Python goes on beside the next run.
    """
    conf = exact_job.confs(place)["gram"]
    ledger = Ledger(conf["ledger"]["url"])
    ledger.grant("people", 500.0, 1e-5)
    rng, usual, kills, version = np.random.default_rng(20), 0.0, 0, 0
    while kills < KILLS:
        version += 1
        conf["release"]["version"] = str(version)
        (place / "conf.yaml").write_text(yaml.safe_dump(conf))
        begin = time.monotonic()
        if not usual:
            assert cluster.submit(JOBS["gram"], str(place / "conf.yaml")).end() == 0
            usual = time.monotonic() - begin
        else:
            kills += run_until_done(cluster, str(place / "conf.yaml"), rng, usual)
    entries = ledger.balances("people")[0].entries
    assert len(entries) == version
    for entry in entries:
        assert entry.state == "committed"
        assert entry.manifest_sha256 == manifest_digest(Path(entry.path))
        assert dpspark.read_release(entry.path).manifest["ledger"]["id"] == entry.id
    staging = Path(conf["output"]["path"]) / ".staging"
    assert [path for path in staging.iterdir() if path.suffix != ".lock"] == []
