"""Census-like microdata whose population regression is known.

Rows are independent draws from a finite table of (age, educ, sex) cells, with an income given the cell. The
least-squares projection of income on (1, age, educ) in that population equals Table 4 of Bain et al.: see `calibrate`.
Runs on Spark executors, so at import it needs numpy and pyarrow alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.errors import ConfError, OutputError

SCHEMA = pa.schema(
    [
        ("person_id", pa.int64()),
        ("age", pa.int32()),
        ("educ", pa.int32()),
        ("sex", pa.string()),
        ("income", pa.float64()),
        ("tract", pa.string()),
    ]
)
_SPARK_SCHEMA = "person_id bigint, age int, educ int, sex string, income double, tract string"

# Intercept, age, educ: the PUMS regression as printed in Table 4.
PROJECTION = (-23054.102, 275.253, 4332.877)
TOP_CODE = 300_000.0
CHUNK_ROWS = 65_536  # one random stream each; part of what a seed means
FILE_ROWS = 2_000_000
TRACT_ROWS = 4_000
MAX_ROWS = 99 * 10_000 * TRACT_ROWS  # two digits of state codes

# Census 2000 codes: 1 none, 2 to 8 grades up to 12th without diploma, 9 high school, 10 and 11 some college,
# 12 associate, 13 bachelor, 14 master, 15 professional, 16 doctorate. Shares are those of settled adults.
_EDUC_SHARE = np.array([20, 10, 25, 25, 20, 25, 28, 40, 235, 70, 145, 70, 180, 60, 20, 12])
_EDUC_USUAL_AGE = np.array([0, 0, 0, 0, 0, 0, 0, 16.5, 17.5, 18, 19, 20.5, 22.5, 26, 27, 30])
_LOG_SPREAD = 0.95  # standard deviation of log income within a cell
_SEX_GAP = 0.5  # in log income


@dataclass(frozen=True, eq=False)
class Parameters:
    """The population's parameters: one entry per (age, educ, sex) cell, and the three solved numbers behind `log_median`."""

    age: np.ndarray
    educ: np.ndarray
    female: np.ndarray
    share: np.ndarray
    zero_share: np.ndarray
    log_median: np.ndarray
    log_spread: float
    level: float
    age_slope: float
    educ_slope: float


def calibrate() -> Parameters:
    """Solve level and slopes of log income so that the population projection is PROJECTION."""
    from scipy import optimize, special

    age, educ, female = (axis.ravel() for axis in np.meshgrid(np.arange(18, 96), np.arange(1, 17), [False, True]))
    share = _cell_share(age, educ, female)
    zero_share = _zero_share(age, female)
    design = np.column_stack([np.ones(age.size), age, educ])
    gram = design.T @ (share[:, None] * design)

    def log_median(solved: np.ndarray) -> np.ndarray:
        level, age_slope, educ_slope = solved
        return level + age_slope * (age - 45) + educ_slope * (educ - 9) + _career(age) - _SEX_GAP * female

    def gap(solved: np.ndarray) -> np.ndarray:
        # E[min(X, c)] of a lognormal; rounding to whole dollars moves it by less than 1e-6.
        excess = (np.log(TOP_CODE) - log_median(solved)) / _LOG_SPREAD
        below = np.exp(log_median(solved) + _LOG_SPREAD**2 / 2) * special.ndtr(excess - _LOG_SPREAD)
        mean = (1 - zero_share) * (below + TOP_CODE * special.ndtr(-excess))
        return np.linalg.solve(gram, design.T @ (share * mean)) / PROJECTION - 1

    found = optimize.root(gap, x0=[10.0, 0.0, 0.1], tol=1e-12)
    if np.abs(gap(found.x)).max() > 1e-9:
        raise RuntimeError(f"microdata calibration did not converge: {found.message}")
    return Parameters(
        age.astype(np.int32),
        educ.astype(np.int32),
        female,
        share,
        zero_share,
        log_median(found.x),
        _LOG_SPREAD,
        *map(float, found.x),
    )


def _cell_share(age: np.ndarray, educ: np.ndarray, female: np.ndarray) -> np.ndarray:
    # Every factor is conditional on the ones before it: age, then education at that age, then sex at that age.
    of_age = np.interp(age, [18, 42, 65, 78, 95], [1.9, 2.2, 0.9, 0.65, 0.05])
    # The young have not finished yet; those schooled long ago left earlier.
    finished = _rise(age - _EDUC_USUAL_AGE[educ - 1], width=0.8)
    of_educ = _EDUC_SHARE[educ - 1] * finished * np.exp(-0.003 * np.maximum(age - 45, 0) * (educ - 9))
    of_educ /= np.bincount(age, weights=of_educ)[age]
    women = np.interp(age, [18, 50, 70, 95], [0.49, 0.50, 0.54, 0.65])
    share = of_age * of_educ * np.where(female, women, 1 - women)
    return share / share.sum()


def _zero_share(age: np.ndarray, female: np.ndarray) -> np.ndarray:
    """Compute the share without income: larger among students and women of working age, small among pensioners."""
    return 0.04 + 0.3 * np.exp(-(age - 18) / 3) + 0.14 * female * _rise(62 - age, width=3)


def _career(age: np.ndarray) -> np.ndarray:
    """Compute the bend of log income over a life: first jobs pay little, pensions less than wages."""
    return -1.6 * np.exp(-(age - 18) / 7) - 0.6 * _rise(age - 63, width=2.5)


def _rise(x: np.ndarray, width: float) -> np.ndarray:
    return 1 / (1 + np.exp(-x / width))


def microdata_batch(first_id: int, rows: int, seed: int, parameters: Parameters) -> pa.RecordBatch:
    """Make rows from `first_id` on; a row depends on its id and the seed alone, not on where batches are cut."""
    end = first_id + rows
    first_chunk, last_chunk = first_id // CHUNK_ROWS, max(first_id, end - 1) // CHUNK_ROWS
    chunks = [_chunk(seed, chunk, parameters) for chunk in range(first_chunk, last_chunk + 1)]
    start = first_chunk * CHUNK_ROWS
    cell, income = (np.concatenate(column)[first_id - start : end - start] for column in zip(*chunks, strict=True))
    person_id = np.arange(first_id, end)
    sex = pa.array(["M", "F"]).take(pa.array(parameters.female[cell].astype(np.int8)))
    columns = [person_id, parameters.age[cell], parameters.educ[cell], sex, income, _tract(person_id)]
    return pa.record_batch(columns, schema=SCHEMA)


def _chunk(seed: int, chunk: int, parameters: Parameters) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.Generator(np.random.Philox(key=np.array([seed, chunk], dtype=np.uint64)))
    cumulative = np.cumsum(parameters.share)
    cell = np.searchsorted(cumulative[:-1], random.random(CHUNK_ROWS), side="right")
    has_income = random.random(CHUNK_ROWS) >= parameters.zero_share[cell]
    income = np.exp(parameters.log_median[cell] + parameters.log_spread * random.standard_normal(CHUNK_ROWS))
    return cell, has_income * np.rint(np.minimum(income, TOP_CODE))


def _tract(person_id: np.ndarray) -> pa.Array:
    """Name the tract of each row: eleven digits, state, county and tract, of invented places; 1,200 to 6,800 people each."""

    def first_id(tract: np.ndarray) -> np.ndarray:
        # Multiples of the golden ratio at the squares: scattered, and so are their differences.
        scatter = (tract.astype(np.uint64) ** 2 * 2_654_435_769) % 2**32
        return tract * TRACT_ROWS + (scatter * 2_800 // 2**32).astype(np.int64)

    tract = person_id // TRACT_ROWS
    tract -= person_id < first_id(tract)
    present, place = np.unique(tract, return_inverse=True)
    state, county, number = present // 10_000 + 1, present // 100 % 100 * 2 + 1, present % 100 * 100 + 100
    codes = [f"{code:011d}" for code in (state * 10**9 + county * 10**6 + number).tolist()]
    return pa.array(codes, pa.string()).take(pa.array(place))


# A default seed is fine here: the people are invented, so this randomness protects nobody.
def write_microdata(spark: Any, path: str, rows: int, seed: int = 2000, files: int | None = None) -> None:
    """Write `rows` people as Parquet into a new or empty directory; the rows do not depend on `files`."""
    check_request(rows, seed, files)
    parameters = calibrate()
    count = files or max(1, -(-rows // FILE_ROWS))

    def generate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.column(0).to_pylist():
                first, end = rows * file // count, rows * (file + 1) // count
                while first < end:
                    stop = min(end, (first // CHUNK_ROWS + 1) * CHUNK_ROWS)
                    yield microdata_batch(first, stop - first, seed, parameters)
                    first = stop

    people = spark.range(0, count, 1, count).mapInArrow(generate, _SPARK_SCHEMA)
    try:
        people.write.mode(_mode(spark, path)).parquet(path)
    except Exception as error:
        if "PATH_ALREADY_EXISTS" in str(error):
            raise OutputError(f"{path} exists and is not empty. Choose another directory, or empty it.") from error
        causes = re.findall(r"\w+(?:Exception|Error): .+", str(error)) or [type(error).__name__]
        raise OutputError(f"{path} cannot be written: {causes[-1]}") from error


def check_request(rows: int, seed: int, files: int | None) -> None:
    if not 0 <= rows <= MAX_ROWS:
        raise ConfError(f"rows={rows}; expected 0 to {MAX_ROWS}.")
    if not 0 <= seed < 2**64:
        raise ConfError(f"seed={seed}; expected 0 to 2**64 - 1.")
    if files is not None and files < 1:
        raise ConfError(f"files={files}; expected at least 1.")


def _mode(spark: Any, path: str) -> str:
    """Choose the write mode: Spark's "error" refuses a directory that exists even if nothing is in it."""
    listing = spark.read.format("binaryFile").option("recursiveFileLookup", True)
    try:
        return "append" if listing.load(path).select("path").isEmpty() else "error"
    except Exception:  # no such path: the usual case
        return "error"
