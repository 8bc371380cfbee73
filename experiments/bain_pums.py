"""Bain et al., tables 3 and 4 and figures 18 to 20: income ~ age + educ, 1,000 times.

Parameters of the paper: epsilon = 0.01, delta = 2^-16, d = 3, n = 1,223,992, the California PUMS. Without --data rows are
generated microdata of that size whose population regression is table 4; with it also pums_ca_10000.parquet (a sample of those
people) and acs2024_adults.parquet. At other epsilons too. Truth is least squares on the same rows within the same public
bounds; an error is a coefficient's distance from that, in its standard errors. Between the corrected mechanism and dpspark's
is a step: the same with an exact calibration. Beside dpspark's default, Gaussian noise, its
Laplace noise (delta = 0), its Wishart noise and its Johnson-Lindenstrauss sampling with 100 n rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.core.formula import parse_formula
from experiments.bain import ANALYTIC, DELTA, EPSILON, METHODS, PAPER, PaperReleases, conf_for, sweep_fit
from experiments.bain_pums_page import coefficient_plot, error_plot, tell
from experiments.census import FORMULA, GENERATED, bounds_of, census_cells, census_rows
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise
from experiments.releases import Releases

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = (EPSILON, 0.1, 1.0, 3.0)
MECHANISMS: dict[str, dict[str, Any]] = {
    "dpspark": {},
    "dpspark laplace": {"name": "laplace"},
    "dpspark wishart": {"name": "wishart"},
    "dpspark projection": {"name": "johnson_lindenstrauss"},
}
TIMES_ROWS = 100  # rows of the projection, over n


def cells(setting: Setting) -> list[Cell]:
    trials, epsilons = setting.trials(1_000, 100), EPSILONS[::2] if setting.quick else EPSILONS
    methods = (*METHODS[:2], ANALYTIC, *(METHODS[2:] if setting.quick else MECHANISMS))
    return [
        {**rows, "epsilon": epsilon, "method": method, "trials": trials}
        for rows in census_cells(setting)
        for epsilon in epsilons
        for method in methods
    ]


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    rows, bounds = census_rows(cell), bounds_of(cell["data"])
    paper = PaperReleases(rows, bounds)
    formula = parse_formula(FORMULA, paper.exact.terms, {})
    truth = sweep_fit(paper.exact, formula)
    fits = _ours(cell, rows, random) if cell["method"] in MECHANISMS else _theirs(cell, paper, random)
    found = []
    for estimates, std_errors in fits:
        row: Row = {"n": int(paper.exact.rows)}
        for at, term in enumerate(("intercept", "age", "educ")):
            row |= {term: estimates[at], f"{term}_se": std_errors[at]}
            row |= {f"{term}_true": truth.estimates[at], f"{term}_true_se": truth.std_errors[at]}
        found.append(row)
    return found


def _theirs(cell: Cell, paper: PaperReleases, random: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    formula = parse_formula(FORMULA, paper.exact.terms, {})
    for _ in range(cell["trials"]):
        fit = sweep_fit(paper.draw(cell["method"], cell["epsilon"], DELTA, random), formula)
        yield fit.estimates, fit.std_errors


def _ours(cell: Cell, rows: dict[str, np.ndarray], random: np.random.Generator) -> Iterator[tuple[Any, Any]]:
    """NaN where the noise drowns the signal."""
    options = dict(MECHANISMS[cell["method"]])
    if options.get("name") == "johnson_lindenstrauss":
        options["rows"] = TIMES_ROWS * len(rows["age"])
    releases = Releases(rows, conf_for(bounds_of(cell["data"]), cell["epsilon"], DELTA, **options))
    noise = ExperimentNoise(random)
    for _ in range(cell["trials"]):
        result = releases.draw(noise).regress(FORMULA)
        yield list(result.params.values()), list(result.std_errors.values())


def plots(table: pd.DataFrame) -> dict[str, Any]:
    shown = table[(table.data == GENERATED) & (table.epsilon == EPSILON)]
    return {"": coefficient_plot(shown), "errors": error_plot(table)}


EXPERIMENT = Experiment(
    name="bain-pums",
    paper=PAPER,
    figures="tables 3 and 4, figures 18 to 20",
    title="Income by age and education",
    claim="""At n = 1,223,992 and epsilon = 0.01 the noisy regression is close to the true one and keeps its stars; a
    coefficient may still be far off, the intercept most of all. How far cannot be told.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=tell,
)
