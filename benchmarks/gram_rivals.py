"""What `python -m benchmarks` compares dpspark with: the data, plain processes, MLlib and SQL on it, and that all agree."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpspark.core.domain import LARGEST_BLOCK, Domain, Numeric
from dpspark.errors import DpsparkError
from dpspark.exact.fixed_point import ExactGram
from dpspark.source.parquet import ParquetPart, decode, open_parquet

FILES = 8
ROW_GROUPS_A_FILE = 4
LABEL = "y"
# The largest differences from the limit's answer, relative: dpspark rounds to its grid, the others to float64.
TOLERANCES = {"direct": 1e-5, "scan": 1e-5, "mllib": 1e-6, "sql": 1e-9}
SECONDS_TO_START = 120
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

WorkUnit = list[tuple[ParquetPart, list[int]]]  # files, and the row groups to read of each


def bench_columns(columns: int) -> tuple[Numeric, ...]:
    """Uniform and normal columns in turn, and last the label; bounds that all generated values are inside of."""
    features = [Numeric(f"x{i}", -8.0, 8.0) if i % 2 else Numeric(f"x{i}", 0.0, 1.0) for i in range(columns - 1)]
    return (*features, Numeric(LABEL, -20.0, 20.0))


def make_data(directory: str, rows: int, columns: int, keys: Mapping[str, int] | None = None) -> None:
    """The same rows every time: the label is a linear combination of the others, plus noise.

    `keys` are further columns of whole numbers from 0 up to a limit.
    """
    names = [column.name for column in bench_columns(columns)]
    keys = keys or {}
    schema = pa.schema([*((name, pa.float64()) for name in names), *((name, pa.int64()) for name in keys)])
    slopes = 1.0 / np.arange(1, columns)
    edges = np.linspace(0, rows, FILES * ROW_GROUPS_A_FILE + 1).astype(int)
    for number in range(FILES):
        with pq.ParquetWriter(Path(directory, f"part-{number}.parquet"), schema) as file:
            for group in range(number * ROW_GROUPS_A_FILE, (number + 1) * ROW_GROUPS_A_FILE):
                count = int(edges[group + 1] - edges[group])
                random = np.random.default_rng([columns, group])
                values = [random.normal(size=count) if i % 2 else random.random(count) for i in range(columns - 1)]
                label = random.normal(size=count)
                for slope, column in zip(slopes, values, strict=True):
                    label += slope * column
                more = [random.integers(0, limit, count) for limit in keys.values()]
                file.write_table(pa.table([*values, label, *more], schema=schema), row_group_size=max(1, count))


@contextmanager
def plain_processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that have started and imported all they need, each to compute on one core."""
    context = get_context("spawn")
    all_up = context.Barrier(count)
    with ProcessPoolExecutor(count, context, _start_process, (all_up,)) as pool:
        before = {key: os.environ.get(key) for key in ONE_THREAD}
        os.environ.update(ONE_THREAD)  # the processes inherit it, before they import numpy
        try:
            starting = [pool.submit(os.getpid) for _ in range(count)]
            for process in starting:
                process.result()
        finally:
            for key, was in before.items():
                os.environ.pop(key) if was is None else os.environ.update({key: was})
        yield pool


def _start_process(all_up: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the pool
    pa.set_cpu_count(1)
    all_up.wait(SECONDS_TO_START)


def plain_gram(pool: ProcessPoolExecutor, cores: int, path: str, columns: Sequence[Numeric]) -> np.ndarray:
    """The floating-point matrix, intercept first: dpspark's work lists, but no Spark, no bounds, not exact."""
    source = open_parquet(path, columns)
    units = [[(source.parts[part], groups) for part, groups in task] for task in source.tasks(cores)]
    return sum(pool.map(partial(_product, names=[column.name for column in columns]), units))  # type: ignore[return-value]


def _product(unit: WorkUnit, names: list[str]) -> np.ndarray:
    total = np.zeros((len(names) + 1, len(names) + 1))
    block = np.ones((len(names) + 1, LARGEST_BLOCK))  # stays in the processor's cache
    for part, groups in unit:
        for batch in decode(part, groups, names):
            columns = [batch.column(name).to_numpy() for name in names]
            for start in range(0, batch.num_rows, LARGEST_BLOCK):
                rows = block[:, : min(LARGEST_BLOCK, batch.num_rows - start)]
                for row, values in zip(rows[1:], columns, strict=True):
                    row[:] = values[start : start + LARGEST_BLOCK]
                total += rows @ rows.T
    return total


def mllib_coefficients(spark: Any, path: str, features: Sequence[str], label: str) -> np.ndarray:
    """Intercept first. The normal-equation solver makes the same matrix in one pass, then solves it."""
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import LinearRegression

    rows = VectorAssembler(inputCols=list(features), outputCol="features").transform(spark.read.parquet(path))
    model = LinearRegression(featuresCol="features", labelCol=label, solver="normal").fit(rows)
    return np.array([model.intercept, *model.coefficients])


def sql_aggregates(names: Sequence[str]) -> list[str]:
    """The upper triangle row by row: the count, the sums, the sums of products."""
    factors = ["1", *names]
    return [
        "count(*)" if (left, right) == ("1", "1") else f"sum({right})" if left == "1" else f"sum({left} * {right})"
        for at, left in enumerate(factors)
        for right in factors[at:]
    ]


def sql_gram(spark: Any, path: str, names: Sequence[str]) -> np.ndarray:
    (row,) = spark.sql(f"SELECT {', '.join(sql_aggregates(names))} FROM parquet.`{path}`").collect()
    upper = np.zeros((len(names) + 1, len(names) + 1))
    upper[np.triu_indices(len(upper))] = row
    return np.triu(upper, 1) + upper.T


def compare(answers: dict[str, Any], domain: Domain) -> dict[str, float]:
    """Each answer's largest relative difference from the limit's; one beyond its tolerance is an error."""
    limit = answers["limit"]
    if answers["direct"].reveal() != answers["scan"].reveal():
        raise DpsparkError(
            "dpspark's two readers disagree: their matrices should be the same to the last bit. Report it."
        )
    solved = np.linalg.solve(limit[:-1, :-1], limit[:-1, -1])
    found = {
        "direct": _distance(unscaled(answers["direct"], domain), limit),
        "scan": _distance(unscaled(answers["scan"], domain), limit),
        "mllib": float(np.abs(answers["mllib"] - solved).max() / np.abs(solved).max()),
    }
    if "sql" in answers:
        found["sql"] = _distance(answers["sql"], limit)
    for key, difference in found.items():
        if not difference <= TOLERANCES[key]:
            raise DpsparkError(f"{key} differs from limit by {difference:.1e}; expected {TOLERANCES[key]:.0e} at most.")
    return found


def _distance(matrix: np.ndarray, reference: np.ndarray) -> float:
    """Each entry against the size of its two columns: a sum of products may itself be near zero."""
    size = np.sqrt(reference.diagonal())
    return float(np.abs((matrix - reference) / np.outer(size, size)).max())


def unscaled(gram: ExactGram, domain: Domain) -> np.ndarray:
    """The matrix in the data's own units, for generated data that is all inside its bounds."""
    upper = np.zeros((domain.width, domain.width))
    upper[np.triu_indices(domain.width)] = [entry / domain.one**2 for entry in gram.reveal()]
    back = np.diag([1.0, *(column.half for column in domain.numeric)])
    back[1:, 0] = [column.middle for column in domain.numeric]
    return back @ (np.triu(upper, 1) + upper.T) @ back.T
