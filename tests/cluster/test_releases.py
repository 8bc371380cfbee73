"""The jobs themselves, by spark-submit with the zip alone: killed, retried, refused. One release, one charge, nothing half."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import exact_job
import pytest
import yaml
from gates import VALUE
from standalone import HERE, ROOT, Cluster, Gate, Job, executor_of, gone, kill, until

import dpspark
from dpspark.bundle.files import manifest_digest
from dpspark.ledger.ledger import Ledger
from dpspark.spark.executor_watch import NO_EXECUTOR

GATED = str(HERE / "gates.py")
JOBS = {"gram": str(ROOT / "jobs" / "release_gram.py"), "lines": str(ROOT / "jobs" / "release_theil_sen.py")}


def conf_of(place: Path, kind: str, **changes: Any) -> str:
    conf = exact_job.confs(place)[kind]
    path = place / f"{conf['release']['name']}.yaml"
    path.write_text(yaml.safe_dump({**conf, **changes}))
    return str(path)


def gated(cluster: Cluster, place: Path, where: str, conf: str) -> tuple[Job, Gate]:
    """A job whose tasks wait at a gate."""
    folder = place / f"gate{len(cluster.jobs)}"
    job = cluster.submit(GATED, str(folder), where, JOBS[where.split()[0]], conf)
    return job, Gate(folder, job)


def states(place: Path) -> list[str]:
    ledger = Ledger(exact_job.confs(place)["gram"]["ledger"]["url"])
    return [entry.state for entry in ledger.balances("people")[0].entries]


def check_published(place: Path, *names: str) -> None:
    """One committed entry for each, and they are of each other; nothing is left of what was under way."""
    conf = exact_job.confs(place)["gram"]
    output, (balance,) = Path(conf["output"]["path"]), Ledger(conf["ledger"]["url"]).balances("people")
    assert sorted(entry.name for entry in balance.entries) == sorted(names)
    for entry in balance.entries:
        assert entry.state == "committed"
        assert dpspark.read_release(entry.path).manifest["ledger"]["id"] == entry.id
        assert entry.manifest_sha256 == manifest_digest(Path(entry.path))
        assert [path.name for path in (output / entry.name).iterdir()] == ["1"]
    assert sorted(path.name for path in output.iterdir()) == sorted([".staging", *names])
    assert [path for path in (output / ".staging").iterdir() if path.suffix != ".lock"] == []


def test_the_driver_is_killed_twice_and_then_an_executor(cluster: Cluster, place: Path) -> None:
    """Kills: a second charge or draw by the next run; one that waits for what a killed one held; a bundle seen half."""
    conf = conf_of(place, "gram")
    job, gate = gated(cluster, place, "gram read", conf)
    gate.workers(1)
    python = job.driver
    kill(job.process.pid)  # Spark's JVM alone, which is all that spark-submit's caller knows of
    job.end()
    until(lambda: gone(python))

    job, gate = gated(cluster, place, "gram read", conf)
    gate.workers(1)
    kill(job.driver.pid)
    assert job.end() != 0
    assert states(place) == ["reserved"]

    job, gate = gated(cluster, place, "gram read", conf)
    kill(executor_of(gate.workers(2)[0]).pid)
    assert not (place / "releases" / "income").exists()
    gate.open()
    assert job.end() == 0, job.output
    check_published(place, "income")


def test_lines_while_a_worker_is_killed(cluster: Cluster, place: Path) -> None:
    """Kills: a job that ends with one of its machines; staging left over."""
    job, gate = gated(cluster, place, "lines fit", conf_of(place, "lines"))
    kill(executor_of(gate.workers(2)[0]).ppid())
    assert states(place) == ["reserved"]
    gate.open()
    assert job.end() == 0, job.output
    check_published(place, "lines")


def test_without_the_package_and_then_with_it(cluster: Cluster, place: Path) -> None:
    """Paths in the conf start where the driver runs, not where the executors do.

    Kills: a traceback, or a hint at the wrong thing; a second charge; silence while no executor comes.
    """
    hungry = cluster.submit(JOBS["lines"], conf_of(place, "lines"), spark_executor_memory="100g")
    conf = conf_of(place, "gram", source={"parquet": "people"}, output={"path": "releases"})
    job = cluster.submit(JOBS["gram"], conf, package=False, cwd=place)
    assert job.end() == 1, job.output
    assert "dpspark: The executors cannot import dpspark. Give spark-submit the package: --py-files" in job.output
    assert "Traceback" not in job.output

    job = cluster.submit(JOBS["gram"], conf, cwd=place)
    assert job.end() == 0, job.output
    assert job.output.rstrip().endswith(str(place / "releases" / "income" / "1"))
    until(lambda: NO_EXECUTOR in hungry.output, hungry.process)
    hungry.driver.terminate()
    assert hungry.end() == 1
    assert "stopped. Run the same release again to go on" in hungry.output
    assert sorted(states(place)) == ["committed", "reserved"]  # the hungry one had all that it needs but executors


@pytest.mark.slow
@pytest.mark.parametrize("where", ["gram read", "lines fit"])
def test_files_that_are_gone(cluster: Cluster, place: Path, where: str) -> None:
    """Removed while they are read, or when they must be read again because what was shuffled is lost.

    Kills: retries without end; a release of the files that were left.
    """
    job, gate = gated(cluster, place, where, conf_of(place, where.split()[0]))
    waiting = gate.workers(2)
    for name in ("people", "tracts"):
        shutil.rmtree(place / name)
    for executor in {executor_of(worker).pid for worker in waiting}:
        kill(executor)
    gate.open()
    assert job.end() == 4, job.output
    assert "Nothing was released" in job.output
    assert "budget stays reserved" in job.output
    assert states(place) == ["reserved"]


def test_a_query_that_fails_on_a_value(cluster: Cluster, place: Path) -> None:
    """Kills: the value in the logs of the driver; or in an executor's, with the settings that are to keep it out."""
    text = f"concat('{VALUE[:6]}', '{VALUE[6:]}', sex)"  # which the query itself does not show
    query = f"SELECT cast(raise_error({text}) AS double) AS age FROM parquet.`{place}/people`"
    source, columns = {"sql": query, "rows_per_record": 1}, {"age": {"lower": 0, "upper": 1}}
    conf = conf_of(place, "gram", source=source, columns=columns)
    quiet = f"-Dlog4j2.configurationFile=file:{ROOT}/conf/log4j2-executors.properties"
    job = cluster.submit(JOBS["gram"], conf, spark_executor_extraJavaOptions=quiet)
    assert job.end() == 4, job.output
    assert VALUE not in job.output + cluster.executor_logs()
