"""The jobs themselves, by spark-submit with the zip alone: killed, retried, refused. One release, one charge, nothing half done."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import exact_job
import psutil
import pytest
import yaml
from standalone import HERE, ROOT, Cluster, Gate, Job, executor_of, kill, until

import dpspark
from dpspark.bundle import manifest_digest
from dpspark.privacy.ledger import Ledger

GATED = str(HERE / "gates.py")
JOBS = {"gram": str(ROOT / "jobs" / "release_gram.py"), "lines": str(ROOT / "jobs" / "release_theil_sen.py")}


def conf_of(place: Path, kind: str, **changes: Any) -> str:
    path = place / f"{kind}.yaml"
    path.write_text(yaml.safe_dump({**exact_job.confs(place)[kind], **changes}))
    return str(path)


def gated(cluster: Cluster, place: Path, where: str, conf: str, **settings: Any) -> tuple[Job, Gate]:
    """A job whose tasks wait at a gate."""
    folder = place / f"gate{len(cluster.jobs)}"
    job = cluster.submit(GATED, str(folder), where, JOBS[where.split()[0]], conf, **settings)
    return job, Gate(folder, job)


def entries(place: Path) -> list[Any]:
    return list(Ledger(exact_job.confs(place)["gram"]["ledger"]["url"]).balances("people")[0].entries)


def check_published(place: Path, *names: str) -> None:
    """One committed entry for each, and they are of each other; nothing is left of what was under way."""
    output = Path(exact_job.confs(place)["gram"]["output"]["path"])
    found = {entry.name: entry for entry in entries(place)}
    assert sorted(found) == sorted(names)
    assert len(entries(place)) == len(names)
    for name, entry in found.items():
        assert entry.state == "committed"
        assert dpspark.read_release(entry.path).manifest["ledger"]["id"] == entry.id
        assert entry.manifest_sha256 == manifest_digest(Path(entry.path))
        assert [path.name for path in (output / name).iterdir()] == ["1"]
    assert sorted(path.name for path in output.iterdir()) == sorted([".staging", *names])
    assert [path for path in (output / ".staging").iterdir() if path.suffix != ".lock"] == []


def test_releases_while_an_executor_and_a_worker_are_killed(cluster: Cluster, place: Path) -> None:
    """Kills: a job that needs the package installed, or that ends with an executor; a second charge; staging left over."""
    job, gate = gated(cluster, place, "gram read", conf_of(place, "gram"))
    kill(executor_of(gate.workers(2)[0]).pid)
    assert not (place / "releases" / "income").exists()
    gate.open()
    assert job.end() == 0, job.output
    check_published(place, "income")

    job, gate = gated(cluster, place, "lines fit", conf_of(place, "lines"))
    worker = executor_of(gate.workers(2)[0]).parent()
    assert worker is not None
    kill(worker.pid)
    assert [entry.state for entry in entries(place)] == ["committed", "reserved"]
    gate.open()
    assert job.end() == 0, job.output
    check_published(place, "income", "lines")


def test_the_driver_is_killed_and_run_again(cluster: Cluster, place: Path) -> None:
    """Kills: a second charge or draw by the next run; one that waits for ever for what the killed one held."""
    conf = conf_of(place, "gram")
    job, gate = gated(cluster, place, "gram read", conf)
    gate.workers(1)
    python = job.driver
    assert python is not None
    kill(job.process.pid)  # Spark's JVM alone: what spark-submit's caller sees end
    until(lambda: not python.is_running() or python.status() == psutil.STATUS_ZOMBIE)
    assert "dpspark: Spark's Java process ended while it worked" in job.output
    job.end()

    job, gate = gated(cluster, place, "gram read", conf)
    gate.workers(1)
    assert job.driver is not None
    kill(job.driver.pid)
    assert job.end() != 0
    assert [entry.state for entry in entries(place)] == ["reserved"]

    job = cluster.submit(JOBS["gram"], conf)
    assert job.end() == 0, job.output
    check_published(place, "income")


@pytest.mark.parametrize("where", ["gram read", "lines fit"])
def test_files_that_are_gone(cluster: Cluster, place: Path, where: str) -> None:
    """Kills: retries without end; a release of the files that were left; an error that is no more than Spark's."""
    conf = conf_of(place, where.split()[0])
    job, gate = gated(cluster, place, where, conf)
    gate.workers(2)
    for name in ("people", "tracts"):
        shutil.rmtree(place / name)
    kill(executor_of(gate.workers(2)[0]).pid)  # by group the files are read before: so they must be read again
    gate.open()
    assert job.end() == 4, job.output
    assert "could not be read to the end" in job.output
    assert "Its budget stays reserved" in job.output
    assert [entry.state for entry in entries(place)] == ["reserved"]


def test_executors_without_the_package(cluster: Cluster, place: Path) -> None:
    """Kills: a traceback, or a hint at the wrong thing."""
    job = cluster.submit(JOBS["gram"], conf_of(place, "gram"), package=False)
    assert job.end() == 1, job.output
    assert "The executors cannot import dpspark. Give spark-submit the package: --py-files" in job.output
