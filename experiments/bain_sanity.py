"""Bain et al., figures 4 and 5: a variance and a covariance released 1,000 times, and their true values.

Parameters of the paper: epsilon = 0.01, delta = 2^-16, d = 3, n = 1,223,992. Rows are generated census microdata of that size:
the variance of the first attribute, age, and its covariance with the second, educ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.covariance import covariance_of
from dpspark.analysis.ols import Moments
from experiments.bain import DELTA, EPSILON, METHODS, PAPER, PaperReleases, conf_for
from experiments.census import GENERATED, ROWS, bounds_of, census_rows
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise
from experiments.releases import Releases
from experiments.style import PALETTE, TRUTH, bin_edges, label, panels

if TYPE_CHECKING:
    import pandas as pd

STATISTICS = {"variance of age": (0, 0, "years²"), "covariance of age and educ": (0, 1, "years × education codes")}


def cells(setting: Setting) -> list[Cell]:
    usual = {"data": GENERATED, "epsilon": EPSILON, "trials": setting.trials(1_000, 300)}
    return [{**usual, "method": method} for method in METHODS]


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    rows, bounds, epsilon = census_rows(cell), bounds_of(cell["data"]), cell["epsilon"]
    paper = PaperReleases(rows, bounds)
    truth = _covariance(paper.exact)
    if cell["method"] == "dpspark":
        releases, noise = Releases(rows, conf_for(bounds, epsilon, DELTA)), ExperimentNoise(random)
        drawn = [releases.draw(noise).covariance().to_numpy() for _ in range(cell["trials"])]
    else:
        drawn = [_covariance(paper.draw(cell["method"], epsilon, DELTA, random)) for _ in range(cell["trials"])]
    return [
        {"statistic": name, "truth": truth[i, j], "value": one[i, j]}
        for one in drawn
        for name, (i, j, _) in STATISTICS.items()
    ]


def _covariance(moments: Moments) -> np.ndarray:
    return covariance_of(moments.scaled) * np.outer(moments.half[1:], moments.half[1:])


def plots(table: pd.DataFrame) -> dict[str, Any]:
    figure, axes = panels(2)
    for at, (name, (_, _, unit)) in zip(axes, STATISTICS.items(), strict=True):
        shown = table[table.statistic == name]
        edges = bin_edges(shown.value, 0.002)
        for index, method in enumerate(METHODS):
            values = shown[shown.method == method].value
            at.hist(values, edges, color=PALETTE[index], alpha=0.35)
            at.hist(values, edges, color=PALETTE[index], histtype="step", lw=2, label=method)
        at.axvline(shown.truth.iloc[0], color=TRUTH, lw=2, ls="--", label="without noise")
        label(at, name.capitalize(), f"released value, {unit}", "trials")
    figure.suptitle(
        f"Released {len(table) // len(METHODS) // len(STATISTICS):,} times, epsilon = {EPSILON}", fontsize=14
    )
    return {"": figure}


def findings(table: pd.DataFrame) -> str:
    groups = table.groupby(["method", "statistic"])
    spread = groups.value.std()
    off = ((groups.value.mean() - groups.truth.first()) / (spread / np.sqrt(groups.size()))).abs()
    variance, covariance = STATISTICS
    truth = {name: float(table[table.statistic == name].truth.iloc[0]) for name in STATISTICS}
    sizes = "; ".join(
        f"{method} {spread[method, variance]:.2g} and {spread[method, covariance]:.2g}" for method in METHODS
    )
    return (
        f"Without noise the variance is {truth[variance]:.4g} and the covariance {truth[covariance]:.4g}. The means of "
        f"the histograms lie at most {off.max():.1f} of their own standard errors from these. Standard deviations of the "
        f"variance and the covariance: {sizes}. The corrected ones are "
        f"{spread['corrected', variance] / spread['dpspark', variance]:.1f} and "
        f"{spread['corrected', covariance] / spread['dpspark', covariance]:.1f} times dpspark's."
    )


EXPERIMENT = Experiment(
    name="bain-sanity",
    paper=PAPER,
    figures="figures 4 and 5",
    title="A variance and a covariance, again and again",
    claim=f"""At n = {ROWS:,} and epsilon = {EPSILON} the released variance and covariance are centred at the true ones.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
