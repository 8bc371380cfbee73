"""The same integers and the same lines as in local mode, whatever is killed while they are added up."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import exact_job
from gates import VALUE
from standalone import HERE, TASKS, Cluster, Gate, executor_of, gone, kill, until

EXACT = str(HERE / "exact_job.py")
SPECULATION = {
    "spark_speculation": "true",
    "spark_speculation_interval": "100ms",
    "spark_speculation_quantile": "0.5",
    "spark_speculation_multiplier": "1.1",
}


def check_results(spark: Any, place: Path, scenarios: list[str]) -> None:
    """Against local mode, through JSON, which keeps integers and doubles to the last bit."""
    kinds = {scenario: scenario.split()[0] for scenario in scenarios}
    local = {kind: json.dumps(exact_job.compute(spark, place, kind)) for kind in set(kinds.values())}
    for scenario, kind in kinds.items():
        assert (place / f"{scenario}.json").read_text() == local[kind], scenario


def test_the_workers_have_numpy_and_pyarrow_alone(cluster: Cluster) -> None:
    """Kills: tests that pass because the package is installed where the executors run."""
    for module, code in [("numpy", 0), ("pyarrow", 0), ("dpspark", 1), ("opendp", 1), ("pandas", 1), ("pyspark", 1)]:
        done = subprocess.run(
            [cluster.python, "-c", f"import {module}"], capture_output=True, env={}, cwd=cluster.folder
        )
        assert done.returncode == code, module


def test_faults(cluster: Cluster, place: Path, spark: Any) -> None:
    """One application that loses one thing after another.

    Kills: rows lost or counted twice when a task or a whole stage is run again; a line that is drawn anew on the second
    attempt; errors of tasks that quote what they failed on; the driver's Python forced on executors; cores that are not
    counted because they have not come yet.
    """
    scenarios = [
        *("gram read:wait", "lines fit:wait", "gram read:fail", "gram merge:wait", "persons keep:wait"),
        "lines read:wait",
    ]
    job = cluster.submit(EXACT, str(place), *scenarios)

    gate = Gate(place / "gram read:wait", job)
    first, second = gate.workers(2)
    kill(first)  # a Python worker
    kill(executor_of(second).pid)
    gate.open()

    gate = Gate(place / "lines fit:wait", job)
    for executor in {executor_of(worker).pid for worker in gate.workers(2)}:
        kill(executor)  # all that was shuffled is lost with them: the files are read again
    gate.open()

    for scenario in ("gram merge:wait", "persons keep:wait"):
        gate = Gate(place / scenario, job)
        kill(executor_of(gate.workers(1)[0]).pid)
        gate.open()

    gate = Gate(place / "lines read:wait", job)
    executor = executor_of(gate.workers(1)[0])
    kill(executor.ppid())  # the worker, as if its machine were gone
    until(lambda: gone(executor))
    gate.open()

    assert job.end() == 0, job.output
    assert json.loads((place / "cores.json").read_text()) == TASKS
    for found in json.loads((place / "where.json").read_text()):
        assert found.startswith(str(cluster.python.parent)), found
        assert found.endswith(".zip/dpspark/exact/fixed_point.py []"), found
    check_results(spark, place, scenarios)
    begun = Gate(place / "gram read:fail", job).begun
    assert sorted(name.split("-")[2] for name in begun if "-2-" in name) == ["0", "1", "2"]
    assert VALUE not in job.output + cluster.executor_logs()


def test_speculation(cluster: Cluster, place: Path, spark: Any) -> None:
    """A task that never ends, and a copy of it on the other executor that does: one of them counts.

    Kills: a partial sum, or a group's draw, of both.
    """
    scenarios = ["gram read:slow", "lines fit:slow"]
    job = cluster.submit(EXACT, str(place), *scenarios, **SPECULATION)
    assert job.end() == 0, job.output
    for scenario in scenarios:
        assert {name.split("-")[2] for name in Gate(place / scenario, job).begun if "-2-" in name} == {"0", "1"}
    check_results(spark, place, scenarios)
