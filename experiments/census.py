"""Rows of income ~ age + educ: generated microdata of the paper's size, or a file with real people."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from dpspark.demo.microdata import calibrate, microdata_batch
from experiments.experiment import Cell, Setting

ROWS = 1_223_992  # of the California PUMS in the paper
SEED = 2000
GENERATED = "generated"
FORMULA = "income ~ age + educ"
# The file's names of age, educ and income, and the largest code of educ.
FILES = {
    "pums_ca_10000": ("age", "educ", "income", 16),
    "acs2024_adults": ("AGEP", "SCHL", "PINCP", 24),
}
SHOWN = {
    GENERATED: "generated microdata",
    "pums_ca_10000": "California PUMS, a sample",
    "acs2024_adults": "ACS 2024 adults",
}


def census_cells(setting: Setting) -> list[Cell]:
    """One for each set of rows that there is."""
    found: list[Cell] = [{"data": GENERATED}]
    if setting.data is not None:
        paths = {name: setting.data / f"{name}.parquet" for name in FILES}
        found += [{"data": name, "file": str(path)} for name, path in paths.items() if path.exists()]
    return found


def bounds_of(data: str) -> dict[str, dict[str, float]]:
    """Public: of age, of the codes of education, and a cap on income."""
    educ = 16 if data == GENERATED else FILES[data][3]
    return {
        "age": {"lower": 18, "upper": 95},
        "educ": {"lower": 1, "upper": educ},
        "income": {"lower": 0, "upper": 300_000},
    }


def census_rows(cell: Cell) -> dict[str, np.ndarray]:
    return _generated() if cell["data"] == GENERATED else _read(cell["data"], cell["file"])


@lru_cache(maxsize=1)
def _generated() -> dict[str, np.ndarray]:
    batch = microdata_batch(0, ROWS, SEED, calibrate())
    return {name: batch.column(name).to_numpy().astype(float) for name in ("age", "educ", "income")}


@lru_cache(maxsize=1)
def _read(data: str, file: str) -> dict[str, np.ndarray]:
    names = FILES[data][:3]
    table = pq.read_table(Path(file), columns=list(names))
    return {
        ours: table[name].to_numpy().astype(float) for ours, name in zip(("age", "educ", "income"), names, strict=True)
    }
