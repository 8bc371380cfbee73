"""Kalaja, figure 4.1: the instability of SSP, least squares on noisy sufficient statistics.

Parameters: Wang's pre-processing (standardised, row norms, y over its largest, all from the data: not private), no intercept;
epsilon up to 3 (the thesis: 2), delta = 1e-6; 10 folds, 12 draws. Wang's code: √ln(4/delta)/epsilon on both statistics, not
symmetric. The thesis: symmetric, √(2 ln(1.25/(delta/2)))/(epsilon/2). Corrected: the product's ssp, both calibrated together.
gram_ridge, dpspark's default mechanism, on the same rows; dpspark's default, from a conf with public bounds; and with rows
and y capped together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.core.domain import Domain, Numeric
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.mechanisms.regression.base import NoisyRegression
from dpspark.privacy.budget import gaussian_delta
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.kalaja import CAPPED, DEFAULT, DELTA, FOUR, PAPER, Method, Printed, Problem, Public, Table
from experiments.kalaja_runs import about_data, cells_of, figure_of, measure_methods, verdict
from experiments.noise import ExperimentNoise

if TYPE_CHECKING:
    import pandas as pd

WANG, THESIS, JOINT = "SSP, Wang's code", "SSP, the thesis", "SSP, calibrated together"
RIDGE = "gram_ridge, same rows"


@dataclass(frozen=True)
class PlainSSP:
    """The papers' own noise, on rows of norm 1 and a response in [-1, 1]."""

    domain: Domain
    epsilon: float
    symmetric: bool

    @property
    def std(self) -> float:
        if self.symmetric:
            return math.sqrt(2 * math.log(2.5 / DELTA)) / (self.epsilon / 2)
        return math.sqrt(math.log(4 / DELTA)) / self.epsilon

    def release(self, rows: Any, noise: ExperimentNoise, report: Any) -> NoisyRegression:
        products = scaled_matrix(rows.gram(self.domain))
        width = len(products) - 1
        drawn = noise.random.normal(0, self.std, (width, width))
        if self.symmetric:
            drawn = np.triu(drawn) + np.triu(drawn, 1).T
        cross = products[:-1, -1] + noise.random.normal(0, self.std, width)
        return NoisyRegression(np.linalg.solve(products[:-1, :-1] + drawn, cross), None)


@dataclass(frozen=True)
class PlainMethod:
    symmetric: bool

    def __call__(self, table: Table, train: np.ndarray, test: np.ndarray) -> Problem:
        problem = Printed("row", before=True)(table, train, test)
        columns = tuple(Numeric(f"z{i}", -1.0, 1.0) for i in range(problem.test.shape[1]))
        domain = Domain(columns, response=columns[-1].name)
        return replace(problem, mechanism=lambda epsilon: PlainSSP(domain, epsilon, self.symmetric))


METHODS: dict[str, Method] = {
    WANG: PlainMethod(symmetric=False),
    THESIS: PlainMethod(symmetric=True),
    DEFAULT: Public(),
    JOINT: Printed("row", "ssp", before=True),
    RIDGE: Printed("row", "gram_ridge", before=True),
    CAPPED: Public("gram_ridge", None, "cap", True),
}


def cells(setting: Setting) -> list[Cell]:
    return cells_of(setting, FOUR)


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    return measure_methods(cell, METHODS, random)


def plots(table: pd.DataFrame) -> dict[str, Any]:
    looks = {name: index for index, name in enumerate(METHODS)}
    return {"": figure_of(table, looks, "Least squares on noisy statistics", top=50)}


def findings(table: pd.DataFrame) -> str:
    wide = table.pivot(index=["set", "epsilon"], columns="method", values="median")
    share = {name: f"{int((wide[name] > 1).sum())} of {len(wide)}" for name in METHODS}
    upper = table[table.method == THESIS].high.max()
    epsilon = 1.0
    reached = gaussian_delta(epsilon * math.sqrt(2 / math.log(4 / DELTA)), epsilon)
    return (
        f"{about_data(table)} Settings (sets and epsilons) where the median error is above that of the mean of y: "
        f"{share[WANG]} with Wang's code, {share[THESIS]} with the thesis's noise, {share[JOINT]} with the two "
        f"statistics calibrated together; {share[RIDGE]} with gram_ridge on the same rows; {share[DEFAULT]} with "
        f"dpspark's default, {share[CAPPED]} with rows and y capped together. Against SSP calibrated together, geometric "
        f"means over sets: dpspark's default has {verdict(table, DEFAULT, JOINT)} the error, with rows and y capped together "
        f"{verdict(table, CAPPED, JOINT)}. The largest upper quartile of the thesis's SSP is {upper:.2g} times the variance "
        f"of y. Wang's code is not private: at epsilon = 1 its delta is {reached:.1g}, not {DELTA:g}. Symmetric or not does "
        "not matter to privacy. All but dpspark's two take means, deviations and the largest y from the data as they are, "
        "which no noise makes good."
    )


EXPERIMENT = Experiment(
    name="kalaja-ssp",
    paper=PAPER,
    figures="figure 4.1",
    title="SSP is unstable",
    claim="""SSP, with Wang's noise or with symmetric and larger noise, hardly reaches the error of the trivial solution, and
    may fail by any factor as the noisy matrix comes close to singular.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
