"""Adults with income and four categorical columns: the American Community Survey of --data, or generated ones like them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from experiments.experiment import Setting

FILE = "acs2024_adults.parquet"
SOURCE = {
    "age": "AGEP",
    "educ": "SCHL",
    "sex": "SEX",
    "race": "RAC1P",
    "marital": "MAR",
    "state": "STATE",
    "income": "PINCP",
}
SHARES = {
    "sex": np.array([0.485, 0.515]),
    "race": np.array([0.733, 0.092, 0.01, 0.0007, 0.0014, 0.046, 0.0014, 0.037, 0.0785]),
    "marital": np.array([0.531, 0.071, 0.112, 0.014, 0.272]),
    "state": 1 / np.arange(4, 53),
}
People = dict[str, np.ndarray]


def file_of(setting: Setting) -> dict[str, str]:
    """The file of --data, for a cell; nothing where there is none."""
    place = None if setting.data is None else setting.data / FILE
    return {"file": str(place)} if place is not None and place.exists() else {}


def people(file: str | None, rows: int, random: np.random.Generator) -> People:
    """All adults of a file, or so many that are generated."""
    if file is not None:
        return dict(_read(file))
    found: People = {"age": random.integers(18, 96, rows), "educ": random.integers(1, 25, rows)}
    mean = 12_000 + 150 * found["age"] + 1900 * found["educ"]
    for name, shares in SHARES.items():
        found[name] = 1 + random.choice(len(shares), rows, p=shares / shares.sum())
        mean = mean + random.normal(0, 4000, len(shares) + 1)[found[name]]
    found["income"] = np.maximum(mean, 1000) * random.lognormal(-0.32, 0.8, rows)
    return found


@lru_cache(maxsize=1)
def _read(file: str) -> People:
    table = pq.read_table(Path(file), columns=list(SOURCE.values()))
    return {name: table[column].to_numpy() for name, column in SOURCE.items()}


def columns_of(names: tuple[str, ...], categories: dict[str, list[int]]) -> dict[str, dict[str, object]]:
    """The columns of a conf with public bounds, income up to 300,000."""
    bounds = {"age": (18, 95), "educ": (1, 24), "income": (0, 300_000)}
    return {
        name: {"lower": bounds[name][0], "upper": bounds[name][1]}
        if name in bounds
        else {"categories": categories[name]}
        for name in names
    }
