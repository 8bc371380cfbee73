"""The rows that refined is measured on: seven UCI sets, repeated to n, and invented ones whose law is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.spec.choose import choose_regression
from dpspark.spec.spec import load_spec
from experiments.kalaja import load_table
from experiments.releases import COMMON
from experiments.rows import ArrayRows

SETS = ("airfoil", "bike", "concrete", "parkinsons", "pol", "protein", "wine")
LEAST_EIGENVALUE = 0.01  # of the regressors' correlations: columns are left out until it is exceeded
LAWS = ("normal", "exponential", "lognormal", "t with 3 degrees", "two categories")
REACH = {"normal": 6.0, "exponential": 12.0, "lognormal": 16.0, "t with 3 degrees": 16.0, "two categories": 6.0}


@dataclass(frozen=True)
class Rows:
    """Rows in the order of a conf's columns, the response last, and what they say without noise, in scaled coordinates."""

    conf: dict[str, Any]
    rows: ArrayRows
    squares: np.ndarray
    beta: np.ndarray
    sigma2: float

    def mechanism(self, name: str, epsilon: float, delta: float) -> RegressionMechanism:
        privacy = {"epsilon": epsilon, "delta": delta}
        return choose_regression(load_spec({**self.conf, "privacy": privacy, "mechanism": {"name": name}}))


def conf_of(columns: dict[str, Any]) -> dict[str, Any]:
    release = {**COMMON["release"], "kind": "regression", "response": "y"}
    return {**COMMON, "columns": columns, "release": release, "nulls": "drop_row"}


@lru_cache(maxsize=2)
def repeated_set(name: str, file: str | None, n: int) -> Rows:
    """A UCI set with bounds at its 1% and 99% quantiles."""
    table = load_table(name, file)
    clipped = np.clip(table.x, table.bounds[:-1, 0], table.bounds[:-1, 1])
    kept = _kept(clipped)
    bounds = [table.bounds[j] for j in (*kept, -1)]
    names = [*(f"x{j}" for j in kept), "y"]
    columns = {
        name: {"lower": float(low), "upper": float(high)} for name, (low, high) in zip(names, bounds, strict=True)
    }
    found = (*(clipped[:, j] for j in kept), table.y)
    scaled = np.column_stack([(v - (a + b) / 2) / ((b - a) / 2) for v, (a, b) in zip(found, bounds, strict=True)])
    times, rest = divmod(n, len(scaled))
    z = np.column_stack([np.ones(len(scaled)), scaled])
    matrix = times * z.T @ z + z[:rest].T @ z[:rest]
    squares, cross = matrix[:-1, :-1], matrix[:-1, -1]
    beta = np.linalg.solve(squares, cross)
    sigma2 = float(matrix[-1, -1] - beta @ cross) / (n - len(beta))
    return Rows(conf_of(columns), ArrayRows(found, n), squares, beta, sigma2)


def _kept(x: np.ndarray) -> list[int]:
    """The columns that are left once the one with most of the least eigenvector is taken out, again and again."""
    kept = [j for j in range(x.shape[1]) if x[:, j].min() < x[:, j].max()]
    while True:
        values, vectors = np.linalg.eigh(np.corrcoef(x[:, kept].T))
        if values[0] > LEAST_EIGENVALUE:
            return kept
        kept.pop(int(np.argmax(np.abs(vectors[:, 0]))))


def invented(law: str, n: int, random: np.random.Generator) -> tuple[dict[str, Any], ArrayRows, np.ndarray]:
    """Rows of a linear model with independent errors of one law; the truth in original units, which are scaled ones."""
    reach = REACH[law]
    x = random.uniform(-1, 1, (n, 3))
    truth = np.array([0.05, 0.15, -0.1, 0.1])
    columns: dict[str, Any] = {name: {"lower": -1, "upper": 1} for name in "abc"}
    parts = [*x.T]
    if law == "two categories":
        parts[2] = (random.random(n) < 0.1).astype(float)
        columns["c"] = {"categories": [0, 1]}
    error = 0.55 / reach * _errors(law, n, random)
    y = truth[0] + np.column_stack(parts) @ truth[1:] + error
    columns["y"] = {"lower": -1, "upper": 1}
    return conf_of(columns), ArrayRows((*parts, y), n), truth


def _errors(law: str, n: int, random: np.random.Generator) -> np.ndarray:
    """Of mean 0, and within REACH of it: what is beyond is drawn from the ends, by the product's own clipping of y."""
    if law == "exponential":
        return random.exponential(1.0, n) - 1
    if law == "lognormal":
        most = 14.0
        drawn = np.exp(random.normal(0, 1, n))
        return np.minimum(drawn, most) - _mean_of_lognormal(most)
    if law == "t with 3 degrees":
        return np.clip(random.standard_t(3, n), -14, 14)
    return random.normal(0, 1, n)


def _mean_of_lognormal(most: float) -> float:
    """E min(e^Z, most)."""
    from scipy.special import ndtr

    at = math.log(most)
    return float(math.exp(0.5) * ndtr(at - 1) + most * (1 - ndtr(at)))
