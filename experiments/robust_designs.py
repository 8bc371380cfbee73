"""The designs of the coverage of robust standard errors: people that are drawn from, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

SEED = 17
POPULATION = 400_000
INCOME = {"lower": 0, "upper": 300_000}
PRIVATE = {"lower": 0, "upper": "private", "search": [0, 10_000_000]}
PEOPLE: dict[str, Any] = {
    "age": {"lower": 18, "upper": 95},
    "educ": {"lower": 1, "upper": 24},
    "sex": {"categories": ["M", "F"]},
}
HOURS = {"hours": {"lower": 0, "upper": 99}}
PLAIN, WITH_HOURS = "income ~ age + educ + sex", "income ~ age + educ + sex + hours"


@dataclass(frozen=True)
class Design:
    """One regression, the columns of its release, how many rows are drawn, and which coefficient is of interest."""

    formula: str
    columns: dict[str, Any]
    shown: str
    rows: int = 200_000
    real: bool = False  # of a file


DESIGNS = {
    "ACS, income to 300,000": Design(PLAIN, {**PEOPLE, "income": INCOME}, "educ", real=True),
    "ACS with hours, income to 300,000": Design(WITH_HOURS, {**PEOPLE, **HOURS, "income": INCOME}, "hours", real=True),
    "ACS, private bound": Design(PLAIN, {**PEOPLE, "income": PRIVATE}, "educ", real=True),
    "ACS with hours, private bound": Design(WITH_HOURS, {**PEOPLE, **HOURS, "income": PRIVATE}, "hours", real=True),
    "spread grows with x": Design("y ~ x + z", {name: {"lower": -1, "upper": 1} for name in "xzy"}, "x", 50_000),
    "skewed": Design(
        "y ~ x + z", {"x": {"lower": 0, "upper": 1}, "z": {"lower": 0, "upper": 1}, "y": {"lower": 0, "upper": 40}}, "x"
    ),
    "a rare, noisy category": Design(
        "y ~ x + c",
        {
            "x": {"lower": 0, "upper": 1},
            "c": {"categories": ["a", "b", "c", "d", "rare"]},
            "y": {"lower": -3, "upper": 3},
        },
        "c[rare]",
        100_000,
    ),
    "nearly equal variances": Design("y ~ x + z", {name: {"lower": -1, "upper": 1} for name in "xzy"}, "x", 50_000),
}


def population(design: str, file: str | None) -> dict[str, np.ndarray]:
    """The people of a design, as a release reads them: categories are codes."""
    return _acs(str(file)) if DESIGNS[design].real else _generated(design)


@lru_cache(maxsize=1)
def _acs(file: str) -> dict[str, np.ndarray]:
    names = {"age": "AGEP", "educ": "SCHL", "hours": "WKHP", "income": "PINCP"}
    table = pq.read_table(Path(file), columns=[*names.values(), "SEX"])
    found = {ours: np.nan_to_num(table[name].to_numpy().astype(float)) for ours, name in names.items()}
    return {**found, "sex": table["SEX"].to_numpy().astype(np.int64) - 1}  # 1 is a man


@lru_cache(maxsize=1)
def _generated(design: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(SEED)
    return MAKERS[design](rng, POPULATION)


def _growing(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    x, z = rng.uniform(-1, 1, rows), rng.uniform(-1, 1, rows)
    return {"x": x, "z": z, "y": 0.2 * x - 0.1 * z + 0.3 * np.abs(x) ** 1.5 * rng.normal(size=rows)}


def _skewed(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    x, z = rng.uniform(0, 1, rows), rng.uniform(0, 1, rows)
    return {"x": x, "z": z, "y": 1 + x + (0.3 + x) * rng.lognormal(0, 1, rows)}


def _rare(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    x, c = rng.uniform(0, 1, rows), rng.choice(5, rows, p=[0.4, 0.3, 0.2, 0.08, 0.02])
    spread = np.array([0.3, 0.2, 0.3, 0.5, 0.9])[c]
    return {"x": x, "c": c, "y": 0.3 * x + 0.1 * c + spread * rng.normal(size=rows)}


def _equal(rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
    x, z = rng.uniform(-1, 1, rows), rng.uniform(-1, 1, rows)
    return {"x": x, "z": z, "y": 0.2 * x - 0.1 * z + (0.2 + 0.02 * x) * rng.normal(size=rows)}


MAKERS: dict[str, Callable[[np.random.Generator, int], dict[str, np.ndarray]]] = {
    "spread grows with x": _growing,
    "skewed": _skewed,
    "a rare, noisy category": _rare,
    "nearly equal variances": _equal,
}
