"""Alabi et al., slides "Opportunity Insights (OI) Application": p25 and p75 of tracts, privacy error against standard error.

Parameters: epsilon = 1, 2, 4, 8, 16. Tracts are invented (jobs/make_tracts.py: ranks in [0, 1], 20 to 200 people each); with
--data also oi_cells.parquet, the simulated cells of Opportunity Insights (111, of 5 to 200 people). Ĉ(q) is the least c such
that a share q of the draws is within c of least squares without privacy; it is shown in standard errors of that, and so is the
share of tracts whose Ĉ(0.68) is below one. Noise infusion (Chetty & Friedman, 2019) is the baseline of the slides: normal noise
of √2·χ/(epsilon·n), χ being the largest n·(change by one more person in a corner) of all tracts. It is not private: χ comes
from the tracts. As printed each statistic has the whole epsilon; halved, p25 and p75 share it. dpspark is told to expect 100
people in a tract, whatever the tracts are.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from dpspark.privacy.keyed import KeyedRandom
from experiments.alabi import (
    AT,
    METHODS,
    NARROW,
    PAPER,
    Truth,
    drawn_errors,
    error_rows,
    kernel_of,
    least_squares,
)
from experiments.alabi_tracts_page import EXPECTED, INFUSED, INFUSED_HALF, SHOWN, tell, tract_plot
from experiments.experiment import Cell, Experiment, Row, Setting
from jobs.make_tracts import tract_batch

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
SEED = 2000  # of jobs/make_tracts.py
GENERATED, REAL = "generated", "oi_cells"
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))

Tracts = list[tuple[np.ndarray, np.ndarray]]


def cells(setting: Setting) -> list[Cell]:
    draws = setting.trials(40, 20)
    found: list[Cell] = [{"data": GENERATED, "tracts": setting.trials(40, 10), "draws": draws}]
    if setting.data is not None and (path := setting.data / f"{REAL}.parquet").exists():
        found.append({"data": REAL, "tracts": setting.trials(111, 20), "draws": draws, "file": str(path)})
    epsilons = EPSILONS[::2] if setting.quick else EPSILONS
    methods = (*SHOWN, NARROW) if setting.quick else (*METHODS, INFUSED, INFUSED_HALF)
    return [
        {**rows, "epsilon": epsilon, "method": method} for rows in found for epsilon in epsilons for method in methods
    ]


def tracts_of(cell: Cell) -> Tracts:
    every = _generated(cell["tracts"]) if cell["data"] == GENERATED else _read(cell["file"])
    return every[: cell["tracts"]]


@lru_cache(maxsize=1)
def _generated(count: int) -> Tracts:
    table = tract_batch(0, count, SEED)
    return _split(table["tract"].to_numpy(), table["parent_rank"].to_numpy(), table["kid_rank"].to_numpy())


@lru_cache(maxsize=1)
def _read(file: str) -> Tracts:
    table = pq.read_table(Path(file), columns=["cell", "parent_rank", "kid_rank"])
    return _split(*(table[name].to_numpy() for name in table.column_names))


def _split(places: np.ndarray, x: np.ndarray, y: np.ndarray) -> Tracts:
    return [(x[places == place], y[places == place]) for place in np.unique(places)]


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    tracts = tracts_of(cell)
    if cell["method"] in (INFUSED, INFUSED_HALF):
        drawn = infused(tracts, cell["epsilon"] / (2 if cell["method"] == INFUSED_HALF else 1), cell["draws"], random)
    else:
        kernel = kernel_of(cell["method"], cell["epsilon"], expected_rows=EXPECTED)
        secret = KeyedRandom(random.bytes(32))
        drawn = [drawn_errors(kernel, x, y, cell["draws"], secret, at) for at, (x, y) in enumerate(tracts)]
    return [
        {"tract": at, "n": len(tracts[at][0]), **row}
        for at, (errors, truth) in enumerate(drawn)
        for row in error_rows({name: errors[name] for name in AT}, truth)
    ]


def infused(
    tracts: Tracts, epsilon: float, draws: int, random: np.random.Generator
) -> list[tuple[dict[str, np.ndarray], Truth]]:
    """Chetty & Friedman's noise, for each statistic by itself."""
    truths = [least_squares(x, y) for x, y in tracts]
    chi = {
        name: max(len(x) * corner_change(x, y, truth, name) for (x, y), truth in zip(tracts, truths, strict=True))
        for name in AT
    }
    found = []
    for (x, _), truth in zip(tracts, truths, strict=True):
        std = {name: math.sqrt(2) * chi[name] / (epsilon * len(x)) for name in AT}
        found.append(({name: np.abs(random.normal(0, std[name], draws)) for name in AT}, truth))
    return found


def corner_change(x: np.ndarray, y: np.ndarray, truth: Truth, name: str) -> float:
    """The most that a person more, in a corner of the square, moves a statistic."""
    more = (least_squares(np.append(x, at), np.append(y, up)).values[name] for at, up in CORNERS)
    return max(abs(value - truth.values[name]) for value in more)


def plots(table: pd.DataFrame) -> dict[str, Any]:
    return {str(data): tract_plot(table[table.data == data]) for data in table.data.unique()}


EXPERIMENT = Experiment(
    name="alabi-tracts",
    paper=PAPER,
    figures="slides on Opportunity Insights (IL, NC)",
    title="Tracts: the privacy error against the standard error",
    claim="""DPExpTheilSen outperforms or matches Opportunity Insights' noise infusion, and private lines with an error below
    the standard error are possible even for small tracts.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=tell,
)
