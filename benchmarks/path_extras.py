"""What else `python -m benchmarks paths` times, in seconds: a listing of small files, many lines, and a whole command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from benchmarks.gram_rivals import bench_columns
from benchmarks.lines import bench_kernel
from dpspark.errors import DpsparkError
from dpspark.source.parquet import open_parquet
from jobs.make_tracts import write_tracts

EXTRAS = ("listing", "lines", "command")
SMALL_FILES, SMALL_ROWS = 20_000, 50
TRACTS = 70_000
RELEASED_ROWS = 100_000
# Seconds, on 2 cores.
LINES_TO_REACH = {("huber", 8.0): 55, ("depth", 8.0): 40, ("huber", 1.0): 110, ("depth", 1.0): 70}
LISTING_TO_REACH, COMMAND_TO_REACH = 2.0, 7.5


@dataclass(frozen=True)
class Timed:
    label: str
    seconds: float
    to_reach: float


def time_listing(report: Callable[[str], None]) -> Timed:
    """List many small files, and check every footer: the second of two times, as the first reads the disk."""
    columns = bench_columns(20)
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        report(f"making {SMALL_FILES:,} small files")
        rng = np.random.default_rng(0)
        for number in range(SMALL_FILES):
            table = pa.table({column.name: rng.random(SMALL_ROWS) for column in columns})
            pq.write_table(table, Path(home, f"part-{number:05}.parquet"))
        for turn in ("warm-up", "run"):
            report(f"{turn}: listing")
            started = time.perf_counter()
            open_parquet(home, columns)
            seconds = time.perf_counter() - started
    return Timed(f"listing of {SMALL_FILES:,} small files", seconds, LISTING_TO_REACH)


def time_lines(spark: Any, report: Callable[[str], None]) -> list[Timed]:
    """Fit a line for each of many tracts by the two kernels that search a grid."""
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        report(f"making {TRACTS:,} tracts")
        write_tracts(home, TRACTS)
        found = []
        for (kernel, epsilon), reach in LINES_TO_REACH.items():
            report(f"{kernel} at epsilon = {epsilon:g}")
            seconds = bench_kernel(spark, home, kernel, epsilon, TRACTS)
            found.append(Timed(f"{TRACTS:,} lines, {kernel}, epsilon = {epsilon:g}", seconds, reach))
        return found


def time_command(report: Callable[[str], None]) -> Timed:
    """Time `dpspark release` from the shell, after `dpspark warm`: the best of three, as machines are never quiet."""
    command = [sys.executable, "-c", "from dpspark.cli.main import main; main()"]
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        rng = np.random.default_rng(0)
        pq.write_table(
            pa.table({"x": rng.random(RELEASED_ROWS), "y": rng.random(RELEASED_ROWS)}), f"{home}/rows.parquet"
        )
        report("dpspark warm")
        subprocess.run([*command, "warm"], check=True, capture_output=True)
        url = f"sqlite:///{home}/ledger.db"
        granted = ["ledger", "grant", "bench", "--epsilon", "100", "--delta", "1e-3", "--url", url]
        subprocess.run([*command, *granted], check=True, capture_output=True)
        times = []
        for version in range(3):
            conf = Path(home, "conf.yaml")
            conf.write_text(yaml.safe_dump(_conf(home, url, str(version))))
            report(f"run {version + 1} of 3: dpspark release")
            started = time.perf_counter()
            subprocess.run([*command, "release", str(conf)], check=True, capture_output=True, cwd=home)
            times.append(time.perf_counter() - started)
        left = [p for p in psutil.process_iter(["cmdline"]) if home in " ".join(p.info["cmdline"] or ())]
        if any(process.pid != os.getpid() for process in left):
            raise DpsparkError("bench: dpspark release left a process behind.")
    return Timed(f"dpspark release of {RELEASED_ROWS:,} rows", min(times), COMMAND_TO_REACH)


def _conf(home: str, url: str, version: str) -> dict[str, Any]:
    bounds = {"lower": 0, "upper": 1}
    return {
        "source": {"parquet": f"{home}/rows.parquet"},
        "columns": {"x": bounds, "y": bounds},
        "privacy": {"epsilon": 1, "delta": 1e-9},
        "release": {"name": "bench", "version": version},
        "ledger": {"dataset": "bench", "url": url},
        "output": {"path": f"{home}/releases"},
    }
