"""Rows with a skewed column of money: real ones from a file, and generated ones whose tails differ."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

ACS = "acs2024_adults"
Rows = dict[str, np.ndarray]


def _log_normal(random: np.random.Generator, lean: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(10.3 + 2.2 * lean + random.normal(0, 0.9, len(lean))))


def _heavy(random: np.random.Generator, lean: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(10 + 2.2 * lean + random.normal(0, 1.2, len(lean))))


def _pareto(random: np.random.Generator, lean: np.ndarray) -> np.ndarray:
    """One in twenty is in a tail of Pareto's index 2.5."""
    most = np.exp(10.4 + 2 * lean + random.normal(0, 0.6, len(lean)))
    top = random.random(len(lean)) < 0.05 * np.exp(2 * lean)
    return np.where(top, 120_000 * random.random(len(lean)) ** (-1 / 2.5), most)


def _zeros(random: np.random.Generator, lean: np.ndarray) -> np.ndarray:
    some = np.exp(9.5 + 3 * lean + random.normal(0, 1, len(lean)))
    return np.where(random.random(len(lean)) < 0.4, 0.0, some)


def _losses(random: np.random.Generator, lean: np.ndarray) -> np.ndarray:
    gains = np.exp(10.2 + 2.2 * lean + random.normal(0, 0.8, len(lean)))
    losses = np.where(random.random(len(lean)) < 0.1, np.exp(10 + random.normal(0, 1, len(lean))), 0.0)
    return np.asarray(gains - losses)


def _topped(random: np.random.Generator, lean: np.ndarray) -> np.ndarray:
    """Log-normal, and whoever is among the highest of 2,000 has their mean: as surveys hide them."""
    income = _log_normal(random, lean)
    least = np.quantile(income, 1 - 1 / 2000)
    return np.where(income > least, income[income > least].mean(), income)


GENERATED: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "log-normal": _log_normal,
    "log-normal, heavy": _heavy,
    "Pareto tail": _pareto,
    "many zeros": _zeros,
    "with losses": _losses,
    "top-coded": _topped,
}
TWO_SIDED = ("with losses",)  # both bounds of these are private
EDUC = {True: 24.0, False: 20.0}  # the largest code: of the file, of generated rows


def survey(name: str, rows: int, random: np.random.Generator, file: str | None) -> Rows:
    """So many rows of a survey: a sample of the file's, or generated ones."""
    if file is None:
        age = random.integers(18, 91, rows).astype(float)
        educ = np.clip(np.round(random.normal(13, 3, rows)), 1, 20)
        return {"age": age, "educ": educ, "income": GENERATED[name](random, 0.06 * (educ - 13) + 0.004 * (age - 50))}
    whole = _read(file)
    if rows >= len(whole["age"]):
        return whole
    chosen = random.choice(len(whole["age"]), rows, replace=False)
    return {name: values[chosen] for name, values in whole.items()}


@lru_cache(maxsize=1)
def _read(file: str) -> Rows:
    names = {"age": "AGEP", "educ": "SCHL", "income": "PINCP"}
    table = pq.read_table(Path(file), columns=list(names.values()))
    return {ours: table[name].to_numpy().astype(float) for ours, name in names.items()}
