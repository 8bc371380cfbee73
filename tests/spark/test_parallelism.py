"""How many tasks are worth while on a cluster whose executors are still to come."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dpspark.spark.parallelism import UNKNOWN_CORES, default_parallelism


def session(master: str, come: int, **settings: str) -> Any:
    """Just what is asked of a session: a real cluster is in tests/cluster."""
    known = {key.replace("_", "."): value for key, value in settings.items()}
    conf = SimpleNamespace(contains=known.__contains__, get=known.get)
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, defaultParallelism=come, getConf=lambda: conf))


@pytest.mark.parametrize(
    ("spark", "cores"),
    [
        (session("local[2]", 2), 2),
        (session("spark://host:7077", 2), UNKNOWN_CORES),  # Kills: two tasks for a cluster of a thousand cores
        (session("spark://host:7077", 200), 200),
        (session("spark://host:7077", 2, spark_cores_max="6"), 6),
        (session("yarn", 2, spark_executor_instances="10", spark_executor_cores="4"), 40),
        (session("yarn", 12, spark_default_parallelism="12"), 12),
    ],
)
def test_cores(spark: Any, cores: int) -> None:
    assert default_parallelism(spark) == cores
