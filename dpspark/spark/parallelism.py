"""How many tasks can run at once, as far as a session tells."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

UNKNOWN_CORES = 32  # of a cluster whose executors are still to come: small tasks, rather than few


def default_parallelism(spark: Any) -> int:
    """Count the cores: those that are there, or that the settings ask for. A cluster's come one by one, later."""
    try:
        context = spark.sparkContext
    except Exception:  # Spark Connect has no SparkContext
        return _remote_parallelism(spark)
    settings = context.getConf()
    if settings.contains("spark.default.parallelism") or context.master.startswith("local"):
        return max(1, int(context.defaultParallelism))
    each = int(settings.get("spark.executor.cores", "1"))
    asked = max(int(settings.get("spark.cores.max", "0")), int(settings.get("spark.executor.instances", "0")) * each)
    return max(int(context.defaultParallelism), asked or UNKNOWN_CORES)


_cores: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def _remote_parallelism(spark: Any) -> int:
    """Ask the server for its cores, once: a range has as many parts, and its last row is in the last one."""
    if spark not in _cores:
        _cores[spark] = int(spark.range(1).selectExpr("spark_partition_id() + 1 as cores").collect()[0]["cores"])
    return _cores[spark]
