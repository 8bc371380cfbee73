"""`dpspark bench theil-sen`: a line for each of many tracts, by dpspark, by plain processes and by applyInPandas."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.commands.bench import peak_memory
from dpspark.data.buckets import ROWS_PER_BUCKET, bucketed_fit
from dpspark.data.domain import Domain, GroupKey, Numeric
from dpspark.data.frames import bounded_source
from dpspark.data.groups import LABEL, GroupList, grouped_fits
from dpspark.errors import DpsparkError
from dpspark.privacy.budget import Budget
from dpspark.robust.calibrate import Name, Records, calibrate
from dpspark.robust.exponential import ExponentialTheilSen
from dpspark.robust.groups import fit_groups
from dpspark.robust.keyed import KeyedRandom
from dpspark.robust.plane import Plane
from dpspark.session import spark_session
from dpspark.tracts import tract_names, write_tracts

Report = Callable[[str], None]
PLANE = Plane((0.0, 1.0), (0.0, 1.0))
DOMAIN = Domain((Numeric("parent_rank", 0, 1), Numeric("kid_rank", 0, 1)), keys=(GroupKey("tract"),))
KERNELS: tuple[Name, ...] = ("exponential", "depth", "huber")
EPSILON = 4.0
CHUNK = 2_000_000
RIVAL_TRACTS = 2000  # what applyInPandas is timed on: its cost is by the tract


def bench_table(rows: int, as_json: bool, report: Report) -> str:
    """One line of a large table, by secret buckets: seconds, and the most memory of the driver and of one worker."""
    import psutil

    random, peaks = KeyedRandom.fresh(), dict[str, int]()
    kernel = calibrate("exponential", PLANE, Budget(EPSILON, 0.0), Records("added")).kernel
    assert isinstance(kernel, ExponentialTheilSen)
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        report(f"making {rows:,} rows")
        _write_table(f"{home}/table.parquet", rows)
        report("starting Spark")
        with spark_session("dpspark bench", {"spark.driver.memory": "4g"}) as spark:
            me = psutil.Process()
            processes = {
                "driver": lambda: [me],
                "worker": lambda: [p for p in me.children(recursive=True) if "python" in p.name().lower()],
            }
            domain = Domain(DOMAIN.columns)
            frame = spark.read.parquet(f"{home}/table.parquet")
            source = bounded_source(spark, frame, domain.read_columns, None)
            report("fitting")
            started = time.perf_counter()
            with peak_memory(processes, peaks):
                bucketed_fit(spark, source, domain, max(1, -(-rows // ROWS_PER_BUCKET)), kernel, random)
            seconds = time.perf_counter() - started
    result = {
        "rows": rows,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "peak_bytes": peaks,
        "command": f"dpspark bench theil-sen --rows {rows}",
    }
    if as_json:
        return json.dumps(result, indent=2)
    memory = ", ".join(f"{name} {size / 1e9:.2f} GB" for name, size in peaks.items())
    speed = f"{seconds:.1f} s, {rows / seconds:,.0f} rows/s"
    return f"One table of {rows:,} rows, k = {kernel.matchings}: {speed}; peak memory: {memory}"


def _write_table(path: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    schema = pa.schema([("parent_rank", pa.float64()), ("kid_rank", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, CHUNK):
            x = rng.uniform(0, 1, min(CHUNK, rows - start))
            y = np.clip(0.3 + 0.4 * x + rng.normal(0, 0.2, len(x)), 0, 1)
            writer.write_table(pa.table([x, y], schema=schema), row_group_size=500_000)


def bench_lines(tracts: int, as_json: bool, report: Report) -> str:
    random = KeyedRandom.fresh()
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        report(f"making {tracts:,} tracts")
        write_tracts(home, tracts)
        table = pq.read_table(f"{home}/people.parquet")
        report("starting Spark")
        with spark_session("dpspark bench", {"spark.driver.memory": "4g"}) as spark:
            cores = int(spark.sparkContext.defaultParallelism)
            rows = [_race(spark, home, name, table, tracts, cores, random, report) for name in KERNELS]
            rivals = min(tracts, RIVAL_TRACTS)
            report("applyInPandas")
            pandas = _apply_in_pandas(spark, home, rivals) * tracts / rivals
    facts = {"tracts": tracts, "rows": table.num_rows, "cores": cores, "epsilon": EPSILON}
    facts["command"] = f"dpspark bench theil-sen --tracts {tracts}"
    result = {**facts, "kernels": rows, "apply_in_pandas": {"seconds": pandas, "timed_on_tracts": rivals}}
    return json.dumps(result, indent=2) if as_json else _table(result)


def _race(
    spark: Any, home: str, name: Name, table: Any, tracts: int, cores: int, random: KeyedRandom, report: Report
) -> dict[str, Any]:
    kernel = calibrate(name, PLANE, Budget(EPSILON, 0.0), Records("added"), expected_rows=110).kernel
    groups = GroupList([(tract,) for tract in tract_names(0, tracts)])
    report(f"{name}: dpspark")
    started = time.perf_counter()
    source = bounded_source(spark, spark.read.parquet(f"{home}/people.parquet"), DOMAIN.read_columns, None)
    found = grouped_fits(spark, source, DOMAIN, groups, PLANE.wanted, kernel, random)
    ours = time.perf_counter() - started
    report(f"{name}: plain processes")
    started = time.perf_counter()
    plain = _plain(kernel, table, groups, cores, random)
    limit = time.perf_counter() - started
    if any(plain[code] != fit.estimate for code, fit in found.items()):
        raise DpsparkError("bench: dpspark and the plain processes do not agree.")
    return {"kernel": name, "seconds": ours, "plain_seconds": limit, "times_plain": ours / limit}


def _plain(kernel: Any, table: Any, groups: GroupList, cores: int, random: KeyedRandom) -> dict[int, tuple[float, ...]]:
    """The same kernel in processes without Spark."""
    codes = groups.codes([table["tract"].combine_chunks()])
    order = np.argsort(codes, kind="stable")
    x, y = (table[name].to_numpy()[order] for name in ("parent_rank", "kid_rank"))
    codes = codes[order]
    cuts = [int(np.searchsorted(codes, codes[min(len(codes) - 1, len(codes) * i // cores)])) for i in range(cores)]
    parts = [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(codes)], strict=True)]
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(_fit_slice, kernel, codes[p], x[p], y[p], random) for p in parts]
        return {code: line for job in jobs for code, line in job.result()}


def _fit_slice(kernel: Any, codes: np.ndarray, x: np.ndarray, y: np.ndarray, random: KeyedRandom) -> list[Any]:
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    groups = codes[starts].tolist()
    lines = fit_groups(kernel, x, y, np.append(starts, len(codes)), [(LABEL, group) for group in groups], random)
    return [(group, line.estimate) for group, line in zip(groups, lines, strict=True)]


def _apply_in_pandas(spark: Any, home: str, tracts: int) -> float:
    """What one would write first: DPExpTheilSen in floats, a call for each tract."""
    names = tract_names(0, tracts)
    frame = spark.read.parquet(f"{home}/people.parquet").where(f"tract <= '{names[-1]}'")
    started = time.perf_counter()
    frame.groupBy("tract").applyInPandas(_float_theil_sen, "tract string, p25 double, p75 double").collect()
    return time.perf_counter() - started


def _float_theil_sen(group: Any) -> Any:
    import pandas as pd

    rng, k = np.random.default_rng(), 10
    x, y = group["parent_rank"].to_numpy(), group["kid_rank"].to_numpy()
    drawn = []
    for at in (0.25, 0.75):
        values = np.concatenate(list(_pair_values(x, y, at, k, rng))) if len(x) > 1 else np.zeros(0)
        edges = np.concatenate([[0.0], np.sort(values), [1.0]])
        lengths = np.diff(edges)
        with np.errstate(divide="ignore"):
            weights = np.log(lengths) - EPSILON / 8 / k * abs(2 * np.arange(len(lengths)) - len(values))
        run = int((weights + rng.gumbel(size=len(weights))).argmax())
        drawn.append(edges[run] + lengths[run] * rng.uniform())
    return pd.DataFrame({"tract": [group["tract"].iloc[0]], "p25": [drawn[0]], "p75": [drawn[1]]})


def _pair_values(x: np.ndarray, y: np.ndarray, at: float, k: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    for _ in range(k):
        order = rng.permutation(len(x))
        a, b = order[: len(x) // 2], order[len(x) // 2 : 2 * (len(x) // 2)]
        apart = x[b] != x[a]
        slope = (y[b] - y[a])[apart] / (x[b] - x[a])[apart]
        yield np.clip(y[a][apart] + slope * (at - x[a][apart]), 0.0, 1.0)


def _table(result: dict[str, Any]) -> str:
    from dpspark.regression.summary import aligned

    cells = [["", "seconds", "tracts/s", "times plain processes"]]
    for row in result["kernels"]:
        per = result["tracts"] / row["seconds"]
        cells.append([f"dpspark, {row['kernel']}", f"{row['seconds']:.1f}", f"{per:,.0f}", f"{row['times_plain']:.2f}"])
    other = result["apply_in_pandas"]
    first = result["kernels"][0]["seconds"]
    note = "" if other["timed_on_tracts"] == result["tracts"] else f" (from {other['timed_on_tracts']:,} tracts)"
    seconds = other["seconds"] if math.isfinite(other["seconds"]) else 0.0
    cells.append([f"applyInPandas, floats{note}", f"{seconds:.1f}", f"{result['tracts'] / seconds:,.0f}", ""])
    head = f"{result['tracts']:,} tracts, {result['rows']:,} rows, {result['cores']} cores, epsilon = {result['epsilon']:g}"
    return "\n".join(
        [head, "", *aligned(cells, {0}), f"exponential is {seconds / first:.1f} times faster than applyInPandas"]
    )
