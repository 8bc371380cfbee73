"""The same work on more and more cores, each in a process with a Spark of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.gram_rivals import bench_columns
from benchmarks.scale.generated import generated_gram
from benchmarks.scale.measure import Meter
from benchmarks.scale.sizes import Sizes
from benchmarks.scale.studies import Report, Study, gram_of, write_rows
from dpspark.core.domain import Domain
from dpspark.errors import DpsparkError
from dpspark.exact.fixed_point import ExactGram
from dpspark.spark.session import spark_session
from dpspark.spark.tree import payload_batch

HEAP = "1g"
FILES = 8


def cores_study(meter: Meter, sizes: Sizes, report: Report) -> Study:
    domain = Domain(bench_columns(sizes.rows_columns))
    digests = set()
    with tempfile.TemporaryDirectory(prefix="dpspark-scale-") as home:
        report(f"cores: writing {sizes.cores_rows:,} rows")
        for number in range(FILES):
            write_rows(Path(home, f"{number}.parquet"), domain, sizes.cores_rows // FILES, number)
        for cores in core_counts():
            report(f"cores: {cores}")
            found = _in_a_process(cores, home, sizes)
            meter.points.extend(found["points"])
            digests.add(found["digest"])
    if len(digests) > 1:
        raise DpsparkError(
            "The same rows on more cores have another matrix: they should agree to the last bit. Report it."
        )
    fixed = f"{sizes.cores_rows:,} rows of {sizes.rows_columns} doubles; {sizes.empty_tasks} empty tasks"
    facts = {"rows": sizes.cores_rows, "columns": sizes.rows_columns, "empty_tasks": sizes.empty_tasks}
    return {"x": "cores", "fixed": fixed, **facts}


def core_counts() -> list[int]:
    """1, 2, 4, ... up to what the machine has."""
    most = os.cpu_count() or 1
    return sorted({*(1 << i for i in range(most.bit_length()) if 1 << i <= most), most})


def _in_a_process(cores: int, path: str, sizes: Sizes) -> dict[str, Any]:
    asked = {"cores": cores, "path": path, "rows": sizes.cores_rows, "columns": sizes.rows_columns}
    asked |= {"empty_tasks": sizes.empty_tasks, "enough_seconds": sizes.enough_seconds}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_GATEWAY")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale.cores", json.dumps(asked)],
        env={**inherited, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DpsparkError(
            f"benchmarks scale on {cores} cores ended with {done.returncode}: {done.stderr[-300:].strip()}"
        )
    return json.loads(done.stdout.splitlines()[-1])


def _on_these_cores(asked: dict[str, Any]) -> dict[str, Any]:
    cores, domain = asked["cores"], Domain(bench_columns(asked["columns"]))
    start = time.perf_counter()
    with spark_session(
        "dpspark benchmarks", {"spark.master": f"local[{cores},4]", "spark.driver.memory": HEAP}
    ) as spark:
        _empty_tasks(spark, cores)
        started = time.perf_counter() - start
        meter = Meter(spark, asked["enough_seconds"])
        meter.measure("empty tasks", cores, _empty_tasks, spark, asked["empty_tasks"])
        memory = {key: value for key, value in meter.points[0].items() if key.endswith("_bytes")}
        first = {"series": "starting Spark", "x": cores, "seconds": started, "runs": [started], **memory}
        meter.measure("generated", cores, generated_gram, spark, domain, asked["rows"], cores)
        gram: ExactGram = meter.measure("Parquet", cores, gram_of, spark, asked["path"], domain)
    digest = hashlib.sha256(repr(gram.reveal()).encode()).hexdigest()  # of made-up rows
    return {"points": [first, *meter.points], "digest": digest}


def _empty_tasks(spark: Any, count: int) -> None:
    spark.range(0, count, 1, count).mapInArrow(_nothing, "payload binary").collect()


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        yield payload_batch(b"")


if __name__ == "__main__":
    print(json.dumps(_on_these_cores(json.loads(sys.argv[1]))))
