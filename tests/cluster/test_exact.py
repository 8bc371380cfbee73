"""The same integers and the same lines as in local mode, whatever is killed while they are added up."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import exact_job
import psutil
from gates import VALUE
from standalone import HERE, Cluster, Gate, executor_of, kill, until

EXACT = str(HERE / "exact_job.py")


def result(place: Path, name: str) -> Any:
    return json.loads((place / f"{name}.json").read_text())


def expected(spark: Any, place: Path) -> dict[str, Any]:
    return {what: json.loads(json.dumps(exact_job.compute(spark, place, what))) for what in ("gram", "lines")}


def test_the_workers_have_numpy_and_pyarrow_alone(cluster: Cluster) -> None:
    """Kills: tests that pass because the package is installed where the executors run."""
    for module, found in [("numpy", 0), ("pyarrow", 0), ("dpspark", 1), ("opendp", 1), ("pandas", 1), ("pyspark", 1)]:
        done = subprocess.run([cluster.python, "-c", f"import {module}"], capture_output=True, env={}, cwd=cluster.folder)
        assert done.returncode == found, module


def test_faults(cluster: Cluster, place: Path, spark: Any) -> None:
    """Kills: rows lost or counted twice when a task or a stage is run again; a draw that differs in the second attempt."""
    scenarios = ["gram read:wait", "lines fit:wait", "lines read:fail", "gram merge:wait", "lines read:wait"]
    job = cluster.submit(EXACT, str(place), *scenarios)

    gate = Gate(place / "gram read:wait", job)
    first, second = gate.workers(2)[:2]
    kill(first)  # a Python worker
    kill(executor_of(second).pid)
    gate.open()

    gate = Gate(place / "lines fit:wait", job)  # what the rows were shuffled to is lost with the executor
    kill(executor_of(gate.workers(2)[0]).pid)
    gate.open()

    gate = Gate(place / "gram merge:wait", job)
    kill(executor_of(gate.workers(1)[0]).pid)
    gate.open()

    gate = Gate(place / "lines read:wait", job)
    executor = executor_of(gate.workers(1)[0])
    worker = executor.parent()
    assert worker is not None
    kill(worker.pid)
    until(lambda: not executor.is_running() or executor.status() == psutil.STATUS_ZOMBIE)  # it ends by itself
    gate.open()

    assert job.end() == 0, job.output
    for found in result(place, "where"):
        assert found.endswith(".zip/dpspark/data/gram.py []"), found
    exact = expected(spark, place)
    for scenario in scenarios:
        assert result(place, scenario) == exact[scenario.split()[0]], scenario
    attempts = sorted(name.split("-")[2] for name in Gate(place / "lines read:fail", job).begun if "-2-" in name)
    assert attempts == ["0", "1", "2"]
    assert VALUE not in job.output + cluster.executor_logs()


def test_speculation(cluster: Cluster, place: Path, spark: Any) -> None:
    """A task that never ends, and its copy on the other executor that does."""
    scenarios = ["gram read:slow", "lines fit:slow"]
    speculation = {
        "spark_speculation": "true",
        "spark_speculation_interval": "100ms",
        "spark_speculation_quantile": "0.5",
        "spark_speculation_multiplier": "1.1",
    }
    job = cluster.submit(EXACT, str(place), *scenarios, **speculation)
    assert job.end() == 0, job.output
    exact = expected(spark, place)
    for scenario in scenarios:
        assert result(place, scenario) == exact[scenario.split()[0]], scenario
