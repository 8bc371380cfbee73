"""`python -m benchmarks gram`: dpspark, plain processes, MLlib and Spark SQL on the same files, in turns, checked to agree."""

from __future__ import annotations

import json
import platform
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.gram_rivals import (
    FILES,
    LABEL,
    bench_columns,
    compare,
    make_data,
    mllib_coefficients,
    plain_gram,
    plain_processes,
    sql_aggregates,
    sql_gram,
)
from dpspark.core.domain import Domain, Numeric
from dpspark.errors import ConfError, DpsparkError
from dpspark.exact.fixed_point import ExactGram
from dpspark.source.parquet import open_parquet
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.frames import select_columns
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.session import spark_session

SHAPES = {"tall": (8_000_000, 20), "wide": (400_000, 200)}
MOST_COLUMNS = 4096  # of MLlib's normal-equation solver
MOST_SQL_COLUMNS = 40  # 80 columns are 3,321 aggregates: near a minute for 20,000 rows
SAMPLE_SECONDS = 0.05
SAMPLES_BETWEEN_LISTINGS = 10  # listing processes costs more than looking at one

Report = Callable[[str], None]
Processes = dict[str, Callable[[], list[Any]]]  # whose memory counts: driver, jvm, worker


@dataclass
class Contender:
    key: str
    label: str
    run: Callable[[], Any]
    processes: Processes
    not_run: str | None = None
    seconds: list[float] = field(default_factory=list)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    difference: float = 0.0  # from the limit's answer, the largest of all runs


def bench_gram(shape: str, rows: int | None, columns: int | None, repeats: int, as_json: bool, report: Report) -> str:
    """Generate the data, run every contender `repeats` times after a warm-up, and give the table or the JSON."""
    psutil = psutil_module()
    rows, columns = rows or SHAPES[shape][0], columns or SHAPES[shape][1]
    if columns < 2 or columns > MOST_COLUMNS or rows < 10 * columns:
        raise ConfError(
            f"rows={rows}, columns={columns}; expected 2 to {MOST_COLUMNS} columns and at least 10 rows for each.\n"
            "Set --rows and --columns."
        )
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        _check_space(home, rows, columns)
        report(f"making {rows:,} rows of {columns} columns")
        make_data(home, rows, columns)
        report("starting Spark")
        with spark_session("dpspark benchmarks", {"spark.driver.memory": "4g"}) as spark:
            cores = local_cores(spark)
            with plain_processes(cores) as pool:
                contenders = _contenders(spark, pool, psutil, home, bench_columns(columns))
                _race(spark, contenders, Domain(bench_columns(columns)), repeats, report)
            machine = machine_facts(spark, cores)
        size = sum(file.stat().st_size for file in Path(home).iterdir())
    command = f"python -m benchmarks gram --set {shape} --rows {rows} --columns {columns} --repeats {repeats}"
    facts = {"shape": shape, "rows": rows, "columns": columns, "parquet_bytes": size, "files": FILES}
    results = {**facts, "repeats": repeats, "machine": machine, "command": command, "all_agree": True}
    results["contenders"] = _figures(contenders, rows)
    return json.dumps(results, indent=2) if as_json else _table(results)


def psutil_module() -> Any:
    try:
        import psutil
    except ImportError:
        raise DpsparkError("The benchmarks need psutil to measure memory. Run: pip install psutil") from None
    return psutil


def _check_space(directory: str, rows: int, columns: int) -> None:
    needed = int(1.2 * 8 * rows * columns) + (64 << 20)
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise DpsparkError(
            f"{rows} rows of {columns} columns need {_gigabytes(needed)} of disk in {tempfile.gettempdir()}; "
            f"{_gigabytes(free)} are free.\nSet TMPDIR to a directory with more space, or --rows to fewer."
        )


def local_cores(spark: Any) -> int:
    context = getattr(spark, "sparkContext", None)
    if context is None or context.master.split("[")[0] != "local":
        raise DpsparkError("bench compares on one machine: run it on a local Spark session, without a cluster.")
    return default_parallelism(spark)


def _contenders(spark: Any, pool: Any, psutil: Any, path: str, columns: tuple[Numeric, ...]) -> list[Contender]:
    cores, domain, names = default_parallelism(spark), Domain(columns), [column.name for column in columns]
    driver, jvm = psutil.Process(), psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())
    pool_processes = [psutil.Process(child.pid) for child in active_children()]
    without_spark: Processes = {"driver": lambda: [driver], "worker": lambda: pool_processes}
    in_jvm: Processes = {"driver": lambda: [driver], "jvm": lambda: [jvm]}
    in_workers: Processes = {**in_jvm, "worker": lambda: jvm.children(recursive=True)}

    def direct() -> ExactGram:
        return exact_gram(spark, open_parquet(path, columns), domain)

    def scan() -> ExactGram:
        return exact_gram(spark, select_columns(spark, spark.read.parquet(path), columns, None), domain)

    plain = partial(plain_gram, pool, cores, path, columns)
    mllib = partial(mllib_coefficients, spark, path, names[:-1], LABEL)
    sql = partial(sql_gram, spark, path, names)
    count = f"{len(sql_aggregates(names)):,} aggregates"
    too_many = f"not run: {count}; up to {MOST_SQL_COLUMNS} columns are" if len(columns) > MOST_SQL_COLUMNS else None
    return [
        Contender("limit", f"limit: {cores} plain processes", plain, without_spark),
        Contender("direct", "dpspark, reading Parquet itself", direct, in_workers),
        Contender("scan", "dpspark, Spark's scan + mapInArrow", scan, in_workers),
        Contender("mllib", "MLlib LinearRegression(normal)", mllib, in_jvm),
        Contender("sql", f"Spark SQL, {count}" if too_many is None else "Spark SQL", sql, in_jvm, too_many),
    ]


def _race(spark: Any, contenders: list[Contender], domain: Domain, repeats: int, report: Report) -> None:
    """In turns, so that whatever else the machine does meets all alike. The first turn is the warm-up."""
    for turn in range(repeats + 1):
        answers: dict[str, Any] = {}
        for contender in contenders:
            if contender.not_run is not None:
                continue
            report(f"{f'run {turn} of {repeats}' if turn else 'warm-up'}: {contender.label}")
            spark._jvm.java.lang.System.gc()  # nobody pays for another's garbage
            with peak_memory(contender.processes, contender.peak_bytes):
                start = time.perf_counter()
                answers[contender.key] = contender.run()
                seconds = time.perf_counter() - start
            if turn:
                contender.seconds.append(seconds)
        differences = compare(answers, domain)
        for contender in contenders:
            contender.difference = max(contender.difference, differences.get(contender.key, 0.0))


@contextmanager
def peak_memory(processes: Processes, peaks: dict[str, int]) -> Iterator[None]:
    """Keep in `peaks` the largest resident size of one process of each kind."""
    finished = threading.Event()

    def watch() -> None:
        sample = 0
        while True:
            if sample % SAMPLES_BETWEEN_LISTINGS == 0:
                listed = {kind: find() for kind, find in processes.items()}
            for kind, found in listed.items():
                peaks[kind] = max(peaks.get(kind, 0), *(_resident_bytes(process) for process in found), 0)
            sample += 1
            if finished.wait(SAMPLE_SECONDS):
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def _resident_bytes(process: Any) -> int:
    try:
        return process.memory_info().rss
    except psutil_module().Error:  # it has ended since
        return 0


def machine_facts(spark: Any, cores: int) -> dict[str, Any]:
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "cores": cores,
        "architecture": platform.machine(),
        "java": spark._jvm.java.lang.System.getProperty("java.version"),
        "spark": spark.version,
        "mllib_blas": spark._jvm.dev.ludovic.netlib.blas.BLAS.getInstance().getClass().getSimpleName(),
        "python": platform.python_version(),
        "numpy": f"{np.__version__} ({blas['name']} {blas['version']})",
        "pyarrow": pa.__version__,
    }


def _figures(contenders: Sequence[Contender], rows: int) -> list[dict[str, Any]]:
    medians = {each.key: statistics.median(each.seconds) for each in contenders if each.seconds}
    figures: list[dict[str, Any]] = []
    for each in contenders:
        named = {"contender": each.key, "label": each.label}
        if each.not_run is not None:
            figures.append({**named, "not_run": each.not_run})
            continue
        seconds = medians[each.key]
        measured = {
            "seconds": seconds,
            "runs": each.seconds,
            "rows_per_second": rows / seconds,
            "times_limit": seconds / medians["limit"],
            "times_faster_than_mllib": medians["mllib"] / seconds,
            "difference_from_limit": each.difference,
        }
        figures.append({**named, **measured, **{f"{kind}_peak_bytes": size for kind, size in each.peak_bytes.items()}})
    return figures


def _table(results: dict[str, Any]) -> str:
    machine = results["machine"]
    lines = [
        f"Second-moment matrix of {results['rows']:,} rows x {results['columns']} columns of doubles",
        f"Parquet (snappy): {_gigabytes(results['parquet_bytes'])} in {results['files']} files, just written",
        f"{machine['cores']} cores ({machine['architecture']}), Java {machine['java']}, Spark {machine['spark']} "
        f"(MLlib with {machine['mllib_blas']})",
        f"Python {machine['python']}, numpy {machine['numpy']}, pyarrow {machine['pyarrow']}",
        "",
        f"{'':36}{'':>8}{'':>15}{'':>13}{'times':>8}{'faster':>12}{'peak memory, MB':>24}",
        f"{'contender':36}{'seconds':>8}{'min-max':>15}{'rows/s':>13}{'limit':>8}{'than MLlib':>12}"
        f"{'driver':>8}{'JVM':>8}{'worker':>8}",
        *(_line(figures) for figures in results["contenders"]),
        "",
    ]
    differences = {each["contender"]: each["difference_from_limit"] for each in results["contenders"] if "runs" in each}
    sql = f", SQL {differences['sql']:.0e}" if "sql" in differences else ""
    return "\n".join(
        [
            *lines,
            "All agree, dpspark's two matrices to the last bit.",
            f"Largest relative difference from limit: dpspark {differences['direct']:.0e}, "
            f"MLlib's coefficients {differences['mllib']:.0e}{sql}.",
            f"Seconds: from path to answer; the median of {results['repeats']} in turns, after a warm-up run of each.",
            "Limit: pyarrow and numpy's float64 product; no Spark, nothing clipped, not exact. Its memory counts mapped files.",
            "Memory: resident, of the largest process of its kind, sampled every 50 ms. The JVM of a local Spark is",
            "driver and executor in one; it and the reused Python workers keep some of what earlier runs needed.",
            f"Repeat: {results['command']}",
        ]
    )


def _line(figures: dict[str, Any]) -> str:
    if "not_run" in figures:
        return f"{figures['label']:36}  {figures['not_run']}"
    span = f"{min(figures['runs']):.2f}-{max(figures['runs']):.2f}"
    sizes = [figures.get(f"{kind}_peak_bytes") for kind in ("driver", "jvm", "worker")]
    memory = "".join(f"{'-' if size is None else format(size / 1e6, ',.0f'):>8}" for size in sizes)
    return (
        f"{figures['label']:36}{figures['seconds']:8.2f}{span:>15}{figures['rows_per_second']:13,.0f}"
        f"{figures['times_limit']:8.2f}{figures['times_faster_than_mllib']:12.1f}{memory}"
    )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB"
