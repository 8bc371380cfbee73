"""`python -m benchmarks lines`: a line for each of many tracts, by dpspark, by plain processes and by applyInPandas."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.gram import Processes, peak_memory
from benchmarks.lines_rivals import MATCHINGS, float_depth, float_theil_sen, plain_lines
from dpspark.core.domain import Domain, GroupKey, Numeric
from dpspark.core.records import Records
from dpspark.errors import DpsparkError
from dpspark.mechanisms.lines.base import LineMechanism, LineProblem
from dpspark.mechanisms.lines.defaults import ROWS_PER_BUCKET
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.plane import Plane
from dpspark.mechanisms.registry import line_of_kernel
from dpspark.privacy.budget import Budget
from dpspark.privacy.keyed import KeyedRandom
from dpspark.source.parquet import open_parquet
from dpspark.spark.buckets import fit_in_buckets
from dpspark.spark.direct import read_plainly
from dpspark.spark.groups import GroupList, fit_all_groups
from dpspark.spark.session import spark_session
from jobs.make_tracts import tract_names, write_tracts

Report = Callable[[str], None]
PLANE = Plane((0.0, 1.0), (0.0, 1.0))
DOMAIN = Domain((Numeric("parent_rank", 0, 1), Numeric("kid_rank", 0, 1)), keys=(GroupKey("tract"),))
KERNELS: tuple[str, ...] = ("exponential", "depth", "huber")
RIVALS = {"exponential": float_theil_sen, "depth": float_depth}  # with applyInPandas
SLOW_TRACTS = 200  # what the depth by its definition is timed on: it takes a tenth of a second for each
WARM_UP_TRACTS = 200
CHUNK = 2_000_000


def bench_lines(tracts: int, kernels: tuple[str, ...], epsilon: float, as_json: bool, report: Report) -> str:
    random = KeyedRandom.fresh()
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        report(f"making {tracts:,} tracts")
        write_tracts(home, tracts)
        people = pq.read_metadata(f"{home}/people.parquet").num_rows
        report("starting Spark")
        with spark_session("dpspark benchmarks", {"spark.driver.memory": "4g"}) as spark:
            cores = int(spark.sparkContext.defaultParallelism)
            rows = [
                _race(spark, home, name, epsilon, people, tracts, cores, random, report)
                for name in KERNELS
                if name in (kernels or KERNELS)
            ]
    facts = {"tracts": tracts, "rows": people, "cores": cores, "epsilon": epsilon, "matchings": MATCHINGS}
    result = {
        **facts,
        "kernels": rows,
        "command": " ".join(
            [f"python -m benchmarks lines --tracts {tracts} --epsilon {epsilon:g}", *(f"--kernel {k}" for k in kernels)]
        ),
    }
    return json.dumps(result, indent=2) if as_json else _table(result)


def _race(
    spark: Any,
    home: str,
    name: str,
    epsilon: float,
    people: int,
    tracts: int,
    cores: int,
    random: KeyedRandom,
    report: Report,
) -> dict[str, Any]:
    """One kernel, all ways, each after a warm-up on a few tracts."""
    kernel = _line(name, epsilon).kernel
    names = tract_names(0, tracts)

    report(f"{name}: dpspark")
    _fit(spark, home, names[: min(WARM_UP_TRACTS, tracts)], kernel, random)
    peaks, shuffled = dict[str, int](), _shuffle_bytes(spark)
    with peak_memory(_processes(), peaks):
        started = time.perf_counter()
        found = _fit(spark, home, names, kernel, random)
        seconds = time.perf_counter() - started
    shuffled = _shuffle_bytes(spark) - shuffled
    report(f"{name}: plain processes")
    started = time.perf_counter()
    plain, spent = plain_lines(
        kernel, f"{home}/people.parquet", GroupList([(tract,) for tract in names]), cores, random
    )
    limit = time.perf_counter() - started
    if any(plain[code] != fit.estimate for code, fit in found.items()):
        raise DpsparkError("bench: dpspark and the plain processes do not agree.")
    result = {
        "kernel": name,
        "seconds": seconds,
        "rows_per_second": people / seconds,
        "plain_seconds": limit,
        "times_plain": seconds / limit,
        "ms_a_line": spent / tracts * 1000,
        "shuffle_bytes": shuffled,
        "peak_bytes": peaks,
    }
    if name not in RIVALS:
        return result
    report(f"{name}: applyInPandas")
    timed = min(tracts, SLOW_TRACTS) if name == "depth" else tracts
    other = _apply_in_pandas(spark, home, name, epsilon, names[timed - 1]) * tracts / timed
    return {**result, "pandas_seconds": other, "pandas_timed_on": timed, "times_faster_than_pandas": other / seconds}


def bench_kernel(spark: Any, home: str, name: str, epsilon: float, tracts: int) -> float:
    """Time one kernel on all tracts of a directory, after a warm-up on a few."""
    kernel, names, random = _line(name, epsilon).kernel, tract_names(0, tracts), KeyedRandom.fresh()
    for count in (min(WARM_UP_TRACTS, tracts), tracts):
        started = time.perf_counter()
        _fit(spark, home, names[:count], kernel, random)
    return time.perf_counter() - started


def _fit(spark: Any, home: str, names: list[str], kernel: Any, random: KeyedRandom) -> dict[int, Any]:
    source = read_plainly(open_parquet(f"{home}/people.parquet", DOMAIN.read_columns), DOMAIN.read_columns)
    groups = GroupList([(tract,) for tract in names])
    return fit_all_groups(spark, source, DOMAIN, groups, PLANE.wanted, kernel, random)


def _line(name: str, epsilon: float, expected_rows: int | None = 110) -> LineMechanism:
    line = line_of_kernel(name)
    assert line is not None
    problem = LineProblem(DOMAIN, Records("added"), expected_rows, plane=PLANE)
    return line.for_budget(problem, Budget(epsilon, 0.0), line.Options())


def _people(spark: Any, home: str, last: str) -> Any:
    return spark.read.parquet(f"{home}/people.parquet").where(f"tract <= '{last}'")


def _apply_in_pandas(spark: Any, home: str, name: str, epsilon: float, last: str) -> float:
    def fit(group: Any) -> Any:
        return RIVALS[name](group, epsilon)

    started = time.perf_counter()
    frame = _people(spark, home, last)
    frame.groupBy("tract").applyInPandas(fit, "tract string, p25 double, p75 double").collect()
    return time.perf_counter() - started


def _shuffle_bytes(spark: Any) -> int:
    """Written by all stages so far."""
    jvm, context = spark._jvm, spark.sparkContext
    none = (
        jvm.java.util.ArrayList(),
        False,
        False,
        context._gateway.new_array(jvm.double, 0),
        jvm.java.util.ArrayList(),
    )
    stages = context._jsc.sc().statusStore().stageList(*none)
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


def _processes() -> Processes:
    import psutil

    me = psutil.Process()
    return {
        "driver": lambda: [me],
        "worker": lambda: [p for p in me.children(recursive=True) if "python" in p.name().lower()],
    }


def _table(result: dict[str, Any]) -> str:
    from dpspark.show.tables import aligned

    cells = [
        ["", "seconds", "rows/s", "times plain", "ms a line", "times applyInPandas", "shuffled", "driver", "worker"]
    ]
    for row in result["kernels"]:
        faster = f"{row['times_faster_than_pandas']:.1f} faster" if "pandas_seconds" in row else "-"
        sizes = [f"{size / 1e6:,.0f} MB" for size in (row["shuffle_bytes"], *row["peak_bytes"].values())]
        seconds, speed = f"{row['seconds']:.1f}", f"{row['rows_per_second']:,.0f}"
        cells.append(
            [row["kernel"], seconds, speed, f"{row['times_plain']:.2f}", f"{row['ms_a_line']:.2f}", faster, *sizes]
        )
    head = (
        f"{result['tracts']:,} tracts, {result['rows']:,} rows, {result['cores']} cores, epsilon = {result['epsilon']:g}, "
        f"{result['matchings']} matchings"
    )
    slow = [row for row in result["kernels"] if row.get("pandas_timed_on", result["tracts"]) < result["tracts"]]
    notes = [
        "Plain: the same kernel in as many processes, without Spark; every line is the same.",
        "ms a line: of a processor, for the kernel alone.",
        "applyInPandas: the same mechanism in floats, a call for each tract"
        + "".join(f"; {row['kernel']} timed on {row['pandas_timed_on']:,} tracts" for row in slow)
        + ".",
        "Memory: of the largest Python process of its kind.",
        f"Repeat: {result['command']}",
    ]
    return "\n".join([head, "", *aligned(cells, {0}), "", *notes])


def bench_table(rows: int, epsilon: float, as_json: bool, report: Report) -> str:
    """One line of a large table, by secret buckets."""
    random, peaks = KeyedRandom.fresh(), dict[str, int]()
    kernel = _line("exponential", epsilon, None).kernel
    assert isinstance(kernel, ExponentialTheilSen)
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        report(f"making {rows:,} rows")
        _write_table(f"{home}/table.parquet", rows)
        report("starting Spark")
        with spark_session("dpspark benchmarks", {"spark.driver.memory": "4g"}) as spark:
            domain = Domain(DOMAIN.columns)
            source = read_plainly(open_parquet(f"{home}/table.parquet", domain.read_columns), domain.read_columns)
            report("fitting")
            shuffled = _shuffle_bytes(spark)
            with peak_memory(_processes(), peaks):
                started = time.perf_counter()
                fit_in_buckets(spark, source, domain, max(1, -(-rows // ROWS_PER_BUCKET)), kernel, random)
                seconds = time.perf_counter() - started
            shuffled = _shuffle_bytes(spark) - shuffled
    result = {
        "rows": rows,
        "matchings": kernel.matchings,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "shuffle_bytes": shuffled,
        "peak_bytes": peaks,
        "epsilon": epsilon,
        "command": f"python -m benchmarks lines --rows {rows} --epsilon {epsilon:g}",
    }
    if as_json:
        return json.dumps(result, indent=2)
    memory = ", ".join(f"{name} {size / 1e9:.2f} GB" for name, size in peaks.items())
    speed = f"{seconds:.1f} s, {rows / seconds:,.0f} rows/s, {shuffled / 1e9:.2f} GB shuffled"
    return f"One table of {rows:,} rows, k = {kernel.matchings}: {speed}; peak memory: {memory}"


def _write_table(path: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([("parent_rank", pa.float64()), ("kid_rank", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, CHUNK):
            x = rng.uniform(0, 1, min(CHUNK, rows - start))
            y = np.clip(0.3 + 0.4 * x + rng.normal(0, 0.2, len(x)), 0, 1)
            writer.write_table(pa.table([x, y], schema=schema), row_group_size=500_000)
