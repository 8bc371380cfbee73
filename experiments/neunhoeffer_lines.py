"""Neunhoeffer, *Statistical Analyses and Differential Privacy* (notebook): fitted lines over epsilon, densities of the slope.

Parameters of the notebook: n = 10,000, x ~ N(0, 2²), y = 2 + 3x + N(0, 1), 100 draws at each epsilon of 0.01 to 100, delta = 0.
Its two mechanisms add Laplace noise to DᵀD of D = (y, 1, x) and solve for the line:

    first   one scale for all entries, 2d/epsilon, as if rows had norm 1; corrected: the most that a row within public bounds
            moves the six entries by, together, over epsilon
    second  products of the data's ranges over epsilon, for each of six entries; corrected: the largest products of values
            within public bounds, and a sixth of epsilon each

dpspark's default for one line is kind theil_sen; beside it the matrix with Laplace noise (kind gram), of which any regression
can be made. Public bounds: x in [-8, 8], y in [-25, 30]. A record is added or removed: n is private, and dpspark is told to
expect 5,000 rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.privacy.keyed import KeyedRandom
from dpspark.spec.choose import choose_lines
from dpspark.spec.spec import load_spec
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.neunhoeffer_page import error_plot, line_plot, slope_plot, tell
from experiments.noise import ExperimentNoise
from experiments.releases import COMMON, Releases

if TYPE_CHECKING:
    import pandas as pd

ROWS, SEED = 10_000, 2019
EPSILONS = (0.01, 0.1, 0.3, 0.5, 0.7, 1.0, 5.0, 100.0)
QUICK = (0.1, 1.0, 5.0)
EXPECTED = 5_000  # rows, a public guess: the number itself is private
BOUNDS = {"x": {"lower": -8, "upper": 8}, "y": {"lower": -25, "upper": 30}}
LONGEST = np.array([30.0, 1.0, 8.0])  # the largest absolute values of (y, 1, x)
NOTEBOOK = ("first, as printed", "first, corrected", "second, as printed", "second, corrected")
METHODS = (*NOTEBOOK, "dpspark", "dpspark matrix")
PART = 25  # draws in a cell


def cells(setting: Setting) -> list[Cell]:
    epsilons, parts = (QUICK, 1) if setting.quick else (EPSILONS, 4)
    draws = setting.trials(PART, 12)
    return [
        {"method": method, "epsilon": epsilon, "part": part, "draws": draws}
        for epsilon in epsilons
        for method in METHODS
        for part in range(parts)
    ]


@lru_cache(maxsize=1)
def rows() -> dict[str, np.ndarray]:
    random = np.random.default_rng(SEED)
    x = random.normal(0, 2, ROWS)
    return {"x": x, "y": 2 + 3 * x + random.normal(0, 1, ROWS)}


def cross_products(bounded: bool) -> np.ndarray:
    """DᵀD of D = (y, 1, x), in original units."""
    people = dict(rows())
    if bounded:
        people = {name: np.clip(people[name], side["lower"], side["upper"]) for name, side in BOUNDS.items()}
    columns = np.column_stack([people["y"], np.ones(ROWS), people["x"]])
    return columns.T @ columns


def noise_scales(method: str, epsilon: float) -> np.ndarray:
    """The scale of the Laplace noise of each entry of DᵀD."""
    d = len(LONGEST)
    if method == "first, as printed":
        return np.full((d, d), 2 * d / epsilon)
    if method == "first, corrected":
        return np.full((d, d), float(np.triu(np.outer(LONGEST, LONGEST)).sum()) / epsilon)
    if method == "second, as printed":
        widths = np.array([np.ptp(rows()["y"]), 1.0, np.ptp(rows()["x"])])
        return (ROWS - 1) / ROWS * np.outer(widths, widths) / epsilon
    return np.outer(LONGEST, LONGEST) * (d * (d + 1) // 2) / epsilon


def spent(method: str) -> float:
    """By how many times the stated epsilon the worst of these rows gives itself away when it is removed."""
    columns = np.abs(np.column_stack([rows()["y"], np.ones(ROWS), rows()["x"]]))
    upper = np.triu(1 / noise_scales(method, 1.0))
    return float(np.einsum("ni,ij,nj->n", columns, upper, columns).max())


def ols(matrix: np.ndarray) -> tuple[float, float, float]:
    """The notebook's ols_cov: intercept, slope, and the slope's standard error, NaN if the variance is not positive."""
    inverse = np.linalg.inv(matrix[1:, 1:])
    intercept, slope = inverse @ matrix[1:, 0]
    residual = matrix[0, 0] - matrix[0, 1:] @ inverse @ matrix[1:, 0]
    variance = residual / (matrix[1, 1] - 2) * inverse[1, 1]
    return float(intercept), float(slope), float(np.sqrt(variance)) if variance > 0 else np.nan


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    method, epsilon, draws = cell["method"], cell["epsilon"], cell["draws"]
    if method == "dpspark":
        lines = _robust(epsilon, draws, random)
    elif method == "dpspark matrix":
        lines = _matrix(epsilon, draws, random)
    else:
        lines = _notebook(method, epsilon, draws, random)
    _, slope, std_error = ols(cross_products(True))
    times = spent(method) if method in NOTEBOOK else np.nan
    truth = {"true_slope": slope, "true_se": std_error, "spent": times, "n": ROWS, "expected": EXPECTED}
    return [{"intercept": a, "slope": b, "se": se, **truth} for a, b, se in lines]


def _notebook(method: str, epsilon: float, draws: int, random: np.random.Generator) -> list[tuple[float, float, float]]:
    exact, scales = cross_products(bounded=method.endswith("corrected")), noise_scales(method, epsilon)
    lines = []
    for _ in range(draws):
        upper = np.triu(random.laplace(0, scales))
        lines.append(ols(exact + upper + np.triu(upper, 1).T))
    return lines


def _privacy(epsilon: float) -> dict[str, Any]:
    return {"epsilon": epsilon, "neighbours": "add_remove"}


def _matrix(epsilon: float, draws: int, random: np.random.Generator) -> list[tuple[float, float, float]]:
    conf = {"columns": BOUNDS, "privacy": _privacy(epsilon), "mechanism": {"name": "laplace"}}
    releases, noise = Releases(rows(), conf), ExperimentNoise(random)
    fits = [releases.draw(noise).regress("y ~ x") for _ in range(draws)]
    return [(fit.params["(intercept)"], fit.params["x"], fit.std_errors["x"]) for fit in fits]


def _robust(epsilon: float, draws: int, random: np.random.Generator) -> list[tuple[float, float, float]]:
    asked = {"x": "x", "y": "y", "target": "mean", "expected_rows": EXPECTED}
    release = {"name": "line", "version": "1", "kind": "theil_sen", **asked}
    chosen = choose_lines(load_spec({**COMMON, "columns": BOUNDS, "privacy": _privacy(epsilon), "release": release}))
    people = rows()
    fits = [chosen.kernel.fit(people["x"], people["y"], KeyedRandom(random.bytes(32)), "line") for _ in range(draws)]
    return [(fit.intercept, fit.slope, np.nan) for fit in fits]


def plots(table: pd.DataFrame) -> dict[str, Any]:
    return {"": line_plot(table, rows(), BOUNDS), "slopes": slope_plot(table), "errors": error_plot(table)}


EXPERIMENT = Experiment(
    name="neunhoeffer-lines",
    paper="Neunhoeffer",
    figures="the notebook's plots of lines and of densities",
    title="Lines over epsilon",
    claim="""The notebook draws lines and densities for each epsilon and leaves the verdict to the reader; of its first
    mechanism a comment asks: is this ok?""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=tell,
)
