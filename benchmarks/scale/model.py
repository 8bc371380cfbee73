"""What a release would cost on a cluster: a model, with parameters from one run of the benchmark on one machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpspark.exact.fixed_point import partial_bytes
from dpspark.source.parquet import LARGEST_TASK, OPENING
from dpspark.spark.tree import fan_in_for

FILE_BYTES = 128 << 20
STORAGE_BYTES_PER_SECOND = 100e6  # that storage gives each core: assumed, not measured
NEEDED = ("rows", "columns", "files", "cores", "tree")


@dataclass(frozen=True)
class Parameters:
    """Seconds; those of executors are seconds of one core."""

    start: float  # of Spark
    listing: float  # a file, on the driver
    opening: float  # a file
    task: float
    value: float  # a value: reading, bounding
    product: float  # a product of two values
    payload_byte: float  # of a partial sum: made, shuffled, added
    draw: float  # an entry of the matrix, on the driver


@dataclass(frozen=True)
class Workload:
    rows: int
    columns: int
    cores: int

    @property
    def bytes(self) -> int:
        return 8 * self.rows * self.columns

    @property
    def files(self) -> int:
        return -(-self.bytes // FILE_BYTES)

    @property
    def tasks(self) -> int:
        wanted = max(self.cores, -(-(self.bytes + OPENING * self.files) // LARGEST_TASK))
        return -(-wanted // self.cores) * self.cores


def parameters(studies: dict[str, Any]) -> Parameters | None:
    """None unless every study was run."""
    if any(name not in studies for name in NEEDED):
        return None
    most = max(point["x"] for point in studies["cores"]["points"])

    def seconds(study: str, series: str) -> tuple[np.ndarray, np.ndarray]:
        found = [(p["x"], p["seconds"]) for p in studies[study]["points"] if p["series"] == series]
        x, y = np.array(sorted(found), dtype=float).T
        return x, y

    def at_most(study: str, series: str) -> float:
        return float(seconds(study, series)[1][-1])

    task = at_most("cores", "empty tasks") * most / studies["cores"]["empty_tasks"]
    files, reading = seconds("files", "reading")
    opening = _slope(files, reading) * most
    partitions, tree = seconds("tree", "tree")
    payload = max(0.0, _slope(partitions, tree) * most - task) / studies["tree"]["payload_bytes"]
    value, product = _by_width(*seconds("columns", "adding up"), studies["columns"]["rows"], most)
    drawn, drawing = seconds("columns", "drawing noise")
    entries = (drawn[-1] + 1) * (drawn[-1] + 2) / 2
    listing = at_most("files", "listing") / files[-1]
    start = at_most("cores", "starting Spark")
    return Parameters(start, listing, opening, task, value, product, payload, float(drawing[-1] / entries))


def _slope(x: np.ndarray, y: np.ndarray) -> float:
    """Seconds for one more, from the smallest to the largest."""
    return max(0.0, float((y[-1] - y[0]) / (x[-1] - x[0])))


def _by_width(columns: np.ndarray, seconds: np.ndarray, rows: int, cores: int) -> tuple[float, float]:
    """seconds = fixed + rows · (value · d + product · d²) / cores: no part below zero, relative errors least."""
    from scipy.optimize import nnls

    terms = np.column_stack([np.ones(len(columns)), rows * columns / cores, rows * columns**2 / cores])
    _, value, product = nnls(terms / seconds[:, None], np.ones(len(columns)))[0]
    return float(value), float(product)


def predict(found: Parameters, work: Workload) -> dict[str, Any]:
    """Seconds of each part, and of all."""
    payload, cores = partial_bytes(work.columns + 1), work.cores
    computing = work.rows * (found.value * work.columns + found.product * work.columns**2) / cores
    storage = work.bytes / (STORAGE_BYTES_PER_SECOND * cores)
    levels, nodes, fan_in = 0, work.tasks, fan_in_for(payload)
    tasks = work.tasks
    while nodes > fan_in:
        nodes = -(-nodes // fan_in)
        tasks += nodes
        levels += 1
    parts = {
        "start": found.start,
        "listing": found.listing * work.files,
        "opening": found.opening * work.files / cores,
        "tasks": found.task * tasks / cores,
        "reading": max(computing, storage),
        "tree": found.payload_byte * payload * (work.tasks / cores + levels * min(fan_in, work.tasks)),
        "noise": found.draw * (work.columns + 1) * (work.columns + 2) / 2,
    }
    facts = {**asdict(work), "bytes": work.bytes, "files": work.files, "tasks": work.tasks, "levels": levels}
    return {**facts, "computing": computing, "storage": storage, "seconds": parts, "total": sum(parts.values())}


EXECUTORS, CORES_EACH = 16, 4
WORKLOADS = tuple(
    Workload(rows, columns, EXECUTORS * CORES_EACH)
    for rows, columns in ((330_000_000, 20), (8_000_000_000, 20), (330_000_000, 500), (8_000_000_000, 500))
)


def model(studies: dict[str, Any]) -> dict[str, Any] | None:
    found = parameters(studies)
    if found is None:
        return None
    cluster = {"executors": EXECUTORS, "cores_each": CORES_EACH, "file_bytes": FILE_BYTES}
    assumed = {"storage_bytes_per_second_and_core": STORAGE_BYTES_PER_SECOND}
    predictions = [predict(found, work) for work in WORKLOADS]
    check = _check(found, studies)
    return {
        "cluster": cluster,
        "assumed": assumed,
        "parameters": asdict(found),
        "check": check,
        "predictions": predictions,
    }


def _check(found: Parameters, studies: dict[str, Any]) -> dict[str, Any]:
    """The model against the largest measured table of files, on this machine: a table that no parameter comes from."""
    point = max((p for p in studies["rows"]["points"] if p["series"] == "Parquet"), key=lambda p: p["x"])
    cores = max(p["x"] for p in studies["cores"]["points"])
    work = Workload(point["x"], studies["rows"]["columns"], cores)
    parts = predict(found, work)
    modelled = parts["computing"] + sum(parts["seconds"][name] for name in ("listing", "opening", "tasks", "tree"))
    return {
        "rows": work.rows,
        "columns": work.columns,
        "cores": cores,
        "measured": point["seconds"],
        "modelled": modelled,
    }
