"""`python -m benchmarks paths`: every way to the rows of a release, on the same rows, in turns, checked to agree.

Each way is timed from its conf to the exact sums: listing, opening, judging and reading.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gram import Processes, local_cores, machine_facts, peak_memory, psutil_module
from benchmarks.gram_rivals import bench_columns, make_data, plain_gram, plain_processes
from benchmarks.path_extras import EXTRAS, Timed, time_command, time_lines, time_listing
from benchmarks.path_tables import make_delta, make_iceberg, make_table
from dpspark.errors import DpsparkError
from dpspark.privacy.noise import OpenDPNoise
from dpspark.releasing.opening import capping, open_files, open_rows
from dpspark.spark.direct import DirectSource
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.group_gram import exact_grams
from dpspark.spark.groups import GroupList
from dpspark.spark.session import spark_session
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec

ROWS, COLUMNS = 8_000_000, 20
GROUPS, PEOPLE = 50, 4_000_000
DELETED = 0.01  # of the rows of the Delta table
WAYS = ("plain", "where", "expr", "groups", "delta", "iceberg", "table", "unit")
LABELS = {
    "plain": "plain Parquet",
    "where": "a filter, where: x0 > 0.1",
    "expr": "two computed columns",
    "groups": f"{GROUPS} groups",
    "delta": "a Delta table with deletes",
    "iceberg": "an Iceberg table",
    "table": "a Parquet table of the catalog",
    "unit": "people of at most 3 rows",
}
# What each may take, in times of the plain way; the plain one in times of the limit.
TO_REACH = {"plain": 1.3, "unit": 5.0, **dict.fromkeys(("where", "expr", "groups", "delta", "iceberg", "table"), 2.0)}


@dataclass
class Way:
    key: str
    run: Callable[[], Any]
    seconds: list[float] = field(default_factory=list)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    through_spark: float | None = None


def bench_paths(
    rows: int, repeats: int, only: tuple[str, ...], compare: bool, as_json: bool, report: Callable[[str], None]
) -> str:
    """Make the data, run every way `repeats` times after a warm-up, and give the table or the JSON.

    `compare`: also go through Spark's own scan, once, where that is possible, and check that the sums are the same.
    """
    psutil = psutil_module()
    with tempfile.TemporaryDirectory(prefix="dpspark-bench-") as home:
        files = Path(home, "files")
        files.mkdir()
        report(f"making {rows:,} rows of {COLUMNS} columns")
        make_data(str(files), rows, COLUMNS, {"grp": GROUPS, "who": max(1, rows * PEOPLE // ROWS)})
        settings = {"spark.driver.memory": "4g", "spark.sql.warehouse.dir": str(Path(home, "warehouse"))}
        report("starting Spark")
        with spark_session("dpspark benchmarks", settings) as spark, plain_processes(local_cores(spark)) as pool:
            confs = _confs(spark, home, rows, only or WAYS, report)
            limit = Way("limit", partial(plain_gram, pool, local_cores(spark), str(files), bench_columns(COLUMNS)))
            ways = [limit, *(Way(key, partial(read_exactly, spark, conf)) for key, conf in confs.items())]
            _race(spark, psutil, ways, repeats, report)
            if compare:
                _compare(spark, ways, confs, report)
            extras = _extras(spark, only or EXTRAS, report)
            machine = machine_facts(spark, local_cores(spark))
    chosen = "".join(f" --only {key}" for key in only)
    command = (
        f"python -m benchmarks paths --rows {rows} --repeats {repeats}{chosen}{'' if compare else ' --no-compare'}"
    )
    results = {"rows": rows, "columns": COLUMNS, "repeats": repeats, "machine": machine, "command": command}
    results["ways"] = _figures(ways)
    results["extras"] = [asdict(each) for each in extras]
    return json.dumps(results, indent=2) if as_json else _table(results)


def _extras(spark: Any, wanted: tuple[str, ...], report: Callable[[str], None]) -> list[Timed]:
    found = [time_listing(report)] if "listing" in wanted else []
    found += time_lines(spark, report) if "lines" in wanted else []
    return [*found, *([time_command(report)] if "command" in wanted else [])]


def _confs(
    spark: Any, home: str, rows: int, wanted: tuple[str, ...], report: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    files = str(Path(home, "files"))
    columns: dict[str, Any] = {c.name: {"lower": c.lower, "upper": c.upper} for c in bench_columns(COLUMNS)}
    computed = {
        **{name: bounds for name, bounds in columns.items() if name not in ("x17", "x18")},
        "product": {"expr": "x0 * x1", "lower": -8, "upper": 8},
        "positive": {"expr": "case when x1 > 0 then x3 else 0 end", "lower": -8, "upper": 8},
    }
    base: dict[str, Any] = {
        "source": {"parquet": files},
        "columns": columns,
        "privacy": {"epsilon": 1, "delta": 1e-9},
        "release": {"name": "bench", "version": "1"},
        "ledger": {"dataset": "bench"},
    }
    groups = {**base["release"], "group_by": ["grp"], "groups": list(range(GROUPS))}
    unit = {**base["privacy"], "unit": {"column": "who", "max_rows": 3}}
    found: dict[str, dict[str, Any]] = {
        "plain": base,
        "where": {**base, "where": "x0 > 0.1"},
        "expr": {**base, "columns": computed},
        "groups": {**base, "release": groups},
        "unit": {**base, "privacy": unit},
    }
    makers: dict[str, Callable[[], dict[str, Any]]] = {
        "delta": lambda: make_delta(home, files, DELETED),
        "iceberg": lambda: make_iceberg(home, files),
        "table": lambda: make_table(spark, files),
    }
    for key, make in makers.items():
        if key in wanted:
            report(f"making {LABELS[key]}")
            found[key] = {**base, "source": make()}
    return {key: found[key] for key in WAYS if key == "plain" or key in wanted}


def read_exactly(spark: Any, conf: dict[str, Any], directly: bool = True) -> Any:
    """Read a release's exact sums, as `dpspark release` does. The secret of a person's rows is the same every time."""
    spec = load_spec(conf)
    found, _ = open_rows(spec, spark, None, open_files(spec))
    if isinstance(found, DirectSource) != directly:
        raise DpsparkError(f"bench: expected rows that {'tasks read' if directly else 'Spark reads'}.")
    domain = choose(spec).domain
    with capping(spec, spark, found, _OneSecret()) if spec.privacy.unit is not None else _as_it_is(found) as rows:
        if spec.release.group_by is None:
            return exact_gram(spark, rows, domain).reveal()
        grams = exact_grams(spark, rows, domain, GroupList.of(rows.groups))
        return {code: gram.reveal() for code, gram in sorted(grams.items())}


class _OneSecret(OpenDPNoise):
    def secret(self) -> bytes:
        return b"s" * 32


@contextmanager
def _as_it_is(rows: Any) -> Iterator[Any]:
    yield rows


def _race(spark: Any, psutil: Any, ways: list[Way], repeats: int, report: Callable[[str], None]) -> None:
    """In turns, so that whatever else the machine does meets all alike. The first turn is the warm-up."""
    driver, jvm = psutil.Process(), psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())
    processes: Processes = {"driver": lambda: [driver], "worker": lambda: jvm.children(recursive=True)}
    first: dict[str, Any] = {}
    for turn in range(repeats + 1):
        for way in ways:
            report(f"{f'run {turn} of {repeats}' if turn else 'warm-up'}: {LABELS.get(way.key, way.key)}")
            spark._jvm.java.lang.System.gc()  # nobody pays for another's garbage
            with peak_memory(processes, way.peak_bytes):
                start = time.perf_counter()
                answer = way.run()
                seconds = time.perf_counter() - start
            if turn:
                way.seconds.append(seconds)
            if way.key != "limit" and first.setdefault(way.key, answer) != answer:
                raise DpsparkError(f"bench: {LABELS[way.key]} gave two answers.")
    for key in ("iceberg", "table"):
        if key in first and first[key] != first["plain"]:
            raise DpsparkError(f"bench: {LABELS[key]} and plain files do not agree.")
    if "groups" in first:
        added = [sum(entries) for entries in zip(*first["groups"].values(), strict=True)]
        if added != first["plain"]:
            raise DpsparkError("bench: the groups do not add up to the whole.")


def _compare(spark: Any, ways: list[Way], confs: dict[str, dict[str, Any]], report: Callable[[str], None]) -> None:
    for way in ways:
        conf = confs.get(way.key)
        if conf is None or not {"parquet", "table"} & conf["source"].keys():
            continue
        report(f"through Spark: {LABELS[way.key]}")
        through = {**conf, "source": {**conf["source"], "reader": "spark"}}
        start = time.perf_counter()
        answer = read_exactly(spark, through, directly=False)
        way.through_spark = time.perf_counter() - start
        if answer != way.run():
            raise DpsparkError(f"bench: {LABELS[way.key]}: tasks and Spark do not agree.")


def _figures(ways: list[Way]) -> list[dict[str, Any]]:
    medians = {way.key: statistics.median(way.seconds) for way in ways}
    found = []
    for way in ways:
        of = "limit" if way.key in ("limit", "plain") else "plain"
        found.append(
            {
                "way": way.key,
                "seconds": medians[way.key],
                "runs": way.seconds,
                "times": medians[way.key] / medians[of],
                "times_of": of,
                "to_reach": TO_REACH.get(way.key),
                "through_spark_seconds": way.through_spark,
                **{f"{kind}_peak_bytes": size for kind, size in way.peak_bytes.items()},
            }
        )
    return found


def _table(results: dict[str, Any]) -> str:
    machine = results["machine"]
    lines = [
        f"Exact sums of {results['rows']:,} rows x {results['columns']} columns of doubles, by every way to the rows",
        f"{machine['cores']} cores ({machine['architecture']}), Java {machine['java']}, Spark {machine['spark']}, "
        f"Python {machine['python']}, pyarrow {machine['pyarrow']}",
        "",
        f"{'':34}{'':>8}{'':>13}{'':>8}{'':>8}{'':>10}{'through':>10}{'peak MB':>16}",
        f"{'way':34}{'seconds':>8}{'min-max':>13}{'times':>8}{'of':>8}{'to reach':>10}{'Spark':>10}{'driver':>8}{'worker':>8}",
    ]
    for each in results["ways"]:
        span = f"{min(each['runs']):.2f}-{max(each['runs']):.2f}"
        reach = "-" if each["to_reach"] is None else f"{each['to_reach']:g}"
        spark = "-" if each["through_spark_seconds"] is None else f"{each['through_spark_seconds']:.2f}"
        memory = "".join(f"{each[f'{kind}_peak_bytes'] / 1e6:>8,.0f}" for kind in ("driver", "worker"))
        label = LABELS.get(each["way"], "limit: plain processes")
        lines.append(
            f"{label:34}{each['seconds']:8.2f}{span:>13}{each['times']:8.2f}{each['times_of']:>8}{reach:>10}{spark:>10}{memory}"
        )
    for each in results["extras"]:
        lines.append(f"{each['label']:34}{each['seconds']:8.2f}{'seconds':>29}{each['to_reach']:>10g}")
    return "\n".join(
        [
            *lines,
            "",
            "The exact integers of a way are the same in every run; those of tables are those of plain files, groups add up to",
            "them, and where Spark's own scan was compared, it gave the same.",
            f"Seconds: from conf to exact sums; the median of {results['repeats']} in turns, after a warm-up run of each.",
            f"Repeat: {results['command']}",
        ]
    )
