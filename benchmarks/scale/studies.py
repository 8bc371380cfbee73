"""What `python -m benchmarks scale` measures on one local session: cost against rows, columns, files and partitions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.gram_rivals import bench_columns
from benchmarks.scale.generated import check_tree, generated_gram, synthetic_tree
from benchmarks.scale.measure import Meter
from benchmarks.scale.sizes import Sizes
from dpspark.core.domain import Domain
from dpspark.errors import DpsparkError
from dpspark.exact.fixed_point import ExactGram, partial_bytes
from dpspark.privacy.noise import OpenDPNoise
from dpspark.source.parquet import open_parquet
from dpspark.spark.exact_sums import exact_gram
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.tree import fan_in_for
from dpspark.spark.work_lists import work_lists
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import Spec, load_spec

Report = Callable[[str], None]
Study = dict[str, Any]
ROW_GROUPS_A_FILE = 4


def rows_study(meter: Meter, sizes: Sizes, report: Report) -> Study:
    """Rows made inside the tasks, which need no disk; then files of one size, more and more of them."""
    domain, cores = Domain(bench_columns(sizes.rows_columns)), default_parallelism(meter.spark)
    generated_gram(meter.spark, domain, sizes.generated_rows[0], cores)  # a warm-up
    for rows in sizes.generated_rows:
        report(f"rows: {rows:,} generated")
        meter.measure("generated", rows, generated_gram, meter.spark, domain, rows, cores)
    with tempfile.TemporaryDirectory(prefix="dpspark-scale-") as home:
        files: list[Path] = []
        for rows in sizes.parquet_rows:
            report(f"rows: {rows:,} from Parquet")
            while len(files) < rows // sizes.parquet_rows[0]:
                files.append(Path(home, f"{len(files)}.parquet"))
                write_rows(files[-1], domain, sizes.parquet_rows[0], len(files))
            meter.measure("Parquet", rows, gram_of, meter.spark, home, domain)
    fixed = f"{sizes.rows_columns} columns of doubles. Generated: made inside the tasks, and that takes time too"
    return {"x": "rows", "fixed": fixed, "columns": sizes.rows_columns}


def gram_of(spark: Any, path: str, domain: Domain) -> ExactGram:
    return exact_gram(spark, open_parquet(path, domain.columns), domain)


def write_rows(path: Path, domain: Domain, rows: int, seed: int) -> None:
    random = np.random.default_rng([seed, rows])
    names = [column.name for column in domain.numeric]
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as file:
        for count in np.diff(np.linspace(0, rows, ROW_GROUPS_A_FILE + 1).astype(int)).tolist():
            values = [c.lower + (c.upper - c.lower) * random.random(count) for c in domain.numeric]
            file.write_table(pa.table(values, schema=file.schema), row_group_size=max(1, count))


def columns_study(meter: Meter, sizes: Sizes, report: Report) -> Study:
    """Some of the columns of the same files; and what the driver then does with the matrix."""
    with tempfile.TemporaryDirectory(prefix="dpspark-scale-") as home:
        report(f"columns: writing {sizes.columns_rows:,} rows of {sizes.columns[-1]}")
        wide = Domain(bench_columns(sizes.columns[-1]))
        for number in range(ROW_GROUPS_A_FILE):
            write_rows(Path(home, f"{number}.parquet"), wide, sizes.columns_rows // ROW_GROUPS_A_FILE, number)
        gram_of(meter.spark, home, Domain(bench_columns(sizes.columns[0])))  # a warm-up
        for columns in sizes.columns:
            report(f"columns: {columns}")
            spec = _spec(home, columns)
            mechanism = choose_gram(spec)
            exact = meter.measure("adding up", columns, gram_of, meter.spark, home, mechanism.domain)
            meter.measure("drawing noise", columns, mechanism.release, exact, OpenDPNoise())
    return {"x": "columns", "fixed": f"{sizes.columns_rows:,} rows of doubles", "rows": sizes.columns_rows}


def _spec(path: str, columns: int) -> Spec:
    bounds = {c.name: {"lower": c.lower, "upper": c.upper} for c in bench_columns(columns)}
    return load_spec(
        {
            "source": {"parquet": path},
            "columns": bounds,
            "privacy": {"epsilon": 1.0, "delta": 1e-9},
            "release": {"name": "scale", "version": "1"},
            "ledger": {"url": "sqlite://", "dataset": "scale"},
            "output": {"path": path},
        }
    )


def files_study(meter: Meter, sizes: Sizes, report: Report) -> Study:
    """The same rows in more and more files: the matrix is the same to the last bit."""
    domain, cores = Domain(bench_columns(sizes.files_columns)), default_parallelism(meter.spark)
    answers = []
    with tempfile.TemporaryDirectory(prefix="dpspark-scale-") as home:
        whole = Path(home, "whole.parquet")
        write_rows(whole, domain, sizes.files_rows, 0)
        table = pq.read_table(whole)
        gram_of(meter.spark, str(whole), domain)  # a warm-up
        for files in sizes.files:
            report(f"files: {files:,}")
            folder = Path(home, str(files))
            folder.mkdir()
            edges = np.linspace(0, sizes.files_rows, files + 1).astype(int).tolist()
            for number, (start, stop) in enumerate(pairwise(edges)):
                pq.write_table(table.slice(start, stop - start), folder / f"{number}.parquet")
            source = meter.measure("listing", files, open_parquet, str(folder), domain.columns)
            lists = meter.measure("planning", files, work_lists, source, cores)
            sent = {"tasks": len(lists), "sent_bytes": sum(map(len, lists))}
            answers.append(meter.measure("reading", files, exact_gram, meter.spark, source, domain).reveal())
            meter.points[-1].update(sent)
    if any(answer != answers[0] for answer in answers):
        raise DpsparkError(
            "The same rows in other files have another matrix: they should agree to the last bit. Report it."
        )
    fixed = f"{sizes.files_rows:,} rows of {sizes.files_columns} doubles in all. Reading includes planning"
    return {"x": "files", "fixed": fixed, "rows": sizes.files_rows, "columns": sizes.files_columns}


def tree_study(meter: Meter, sizes: Sizes, report: Report) -> Study:
    """Made-up partial sums of the true size, one a task, through the real tree."""
    width = sizes.tree_columns + 1
    size = partial_bytes(width)
    synthetic_tree(meter.spark, width, 2)  # a warm-up
    for partitions in sizes.tree_partitions:
        report(f"tree: {partitions:,} partial sums of {size / 1e6:.1f} MB")
        found = meter.measure("tree", partitions, synthetic_tree, meter.spark, width, partitions)
        meter.points[-1]["collected"] = len(found)
        check_tree(width, partitions, found)
    fan_in = fan_in_for(size)
    fixed = f"{sizes.tree_columns} columns: {size / 1e6:.1f} MB a partial sum, {fan_in} of them a node"
    return {
        "x": "partitions",
        "fixed": fixed,
        "columns": sizes.tree_columns,
        "payload_bytes": size,
        "fan_in": fan_in,
    }
