"""`python -m benchmarks scale`: how cost grows with rows, columns, files, cores and partitions, and on a cluster."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gram import local_cores, machine_facts, psutil_module
from benchmarks.scale.cores import HEAP, cores_study
from benchmarks.scale.fit import fits
from benchmarks.scale.measure import Meter
from benchmarks.scale.model import model
from benchmarks.scale.sizes import FULL, QUICK, STUDIES, Sizes, disk_bytes
from benchmarks.scale.studies import Report, columns_study, files_study, rows_study, tree_study
from benchmarks.scale.text import shown
from dpspark.errors import DpsparkError
from dpspark.spark.session import spark_session

RUN = {
    "rows": rows_study,
    "columns": columns_study,
    "files": files_study,
    "cores": cores_study,
    "tree": tree_study,
}


def bench_scale(quick: bool, only: tuple[str, ...], as_json: bool, plots: Path | None, report: Report) -> str:
    """Run the studies, draw them if asked, and give the table or the JSON."""
    psutil_module()
    chosen = tuple(name for name in STUDIES if not only or name in only)
    results = scale_results(QUICK if quick else FULL, chosen, report)
    options = [*(["--quick"] if quick else []), *(f"--only {name}" for name in only)]
    command = " ".join(["python -m benchmarks scale", *options])
    results = {"command": command, "quick": quick, **results}
    if plots is not None:
        from benchmarks.scale.plot import plot_studies

        plot_studies(results, plots)
    return json.dumps(results, indent=1) if as_json else shown(results)


def scale_results(sizes: Sizes, chosen: tuple[str, ...], report: Report) -> dict[str, Any]:
    _check_space(disk_bytes(sizes, chosen))
    studies: dict[str, Any] = {}
    report("starting Spark")
    with spark_session("dpspark benchmarks", {"spark.driver.memory": HEAP}) as spark:
        machine = {**machine_facts(spark, local_cores(spark)), "heap": HEAP}
        for name in chosen:
            meter = Meter(spark, sizes.enough_seconds)
            facts = RUN[name](meter, sizes, report)
            studies[name] = {**facts, "points": meter.points, "fits": fits(meter.points)}
    return {"machine": machine, "studies": studies, "model": model(studies)}


def _check_space(needed: int) -> None:
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if free < needed:
        raise DpsparkError(
            f"benchmarks scale needs {needed / 1e9:.1f} GB of disk in {tempfile.gettempdir()}; {free / 1e9:.1f} GB are free.\n"
            "Set TMPDIR to a directory with more space, or give --quick."
        )
