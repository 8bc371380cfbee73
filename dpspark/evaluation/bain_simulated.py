"""Bain et al., figures 11 to 17: regressions on simulated rows, over the coefficient C.

Parameters of the paper: epsilon = 0.01, delta = 2^-16, d = 5, n = 50,000, 1,000 trials. Rows as in its section 3.1: four
columns N(mean, sd), means even in [100, 10,000] and sds even in [0, 100]; the fifth is Y = C·X1 + N(0, 1). Here Y is regressed
on all four, which are the same for every C, and a trial is one of 50 sets of rows and a draw of noise. Bounds are public, 4.5
sds to either side. The beta distance is the l2 distance of all coefficients from least squares without noise, the coefficient
distance that of X1's. Also at n = 1,000,000, where the signal is larger than the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.evaluation.bain import DELTA, EPSILON, METHODS, PAPER, PaperReleases, conf_for, noise_std, sweep_fit
from dpspark.evaluation.experiment import Cell, Experiment, Row, Setting
from dpspark.evaluation.noise import ExperimentNoise
from dpspark.evaluation.releases import Releases
from dpspark.evaluation.style import PALETTE, TRUTH, label, log_axis, look, panels
from dpspark.regression.formula import parse_formula
from dpspark.regression.ols import SMALLEST_KAPPA

if TYPE_CHECKING:
    import pandas as pd

RIDGE = "dpspark, ridge"
SHOWN = (*METHODS, RIDGE)
PAPER_ROWS, MANY_ROWS = 50_000, 1_000_000
COEFFICIENTS = (1, 3, 10, 30, 100, 300, 1000)
QUANTILES = (0.80, 0.76, 0.73, 0.70)
NAMES = ("x1", "x2", "x3", "x4")
FORMULA = "y ~ x1 + x2 + x3 + x4"
SEED = 11
WIDE = 4.5  # sds from the mean to a bound
FEW = 0.1  # a smaller share of answers is not shown


def cells(setting: Setting) -> list[Cell]:
    values = COEFFICIENTS[::3] if setting.quick else COEFFICIENTS
    size = {"sets": setting.trials(50, 6), "draws": setting.trials(20, 15)}
    return [{"rows": rows, "C": value, **size} for rows in (MANY_ROWS, PAPER_ROWS) for value in values]


def simulated(rows: int, number: int, coefficient: float) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A set of rows, and its public bounds."""
    random = np.random.default_rng([SEED, number])  # means and sds are the same for every n
    means, stds = random.uniform(100, 10_000, len(NAMES)), random.uniform(0, 100, len(NAMES))
    columns = {name: random.normal(mean, std, rows) for name, mean, std in zip(NAMES, means, stds, strict=True)}
    columns["y"] = coefficient * columns["x1"] + random.normal(0, 1, rows)
    middles = np.append(means, coefficient * means[0])
    halves = WIDE * np.append(stds, np.hypot(coefficient * stds[0], 1.0))
    bounds = {
        name: {"lower": float(middle - half), "upper": float(middle + half)}
        for name, middle, half in zip(columns, middles, halves, strict=True)
    }
    return columns, bounds


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    found: list[Row] = []
    for number in range(cell["sets"]):
        rows, bounds = simulated(cell["rows"], number, cell["C"])
        paper = PaperReleases(rows, bounds)
        formula = parse_formula(FORMULA, paper.exact.terms, {})
        truth = sweep_fit(paper.exact, formula).estimates
        releases, noise = Releases(rows, conf_for(bounds, EPSILON, DELTA)), ExperimentNoise(random)
        for _ in range(cell["draws"]):
            for method in METHODS[:2]:
                fit = sweep_fit(paper.draw(method, EPSILON, DELTA, random), formula)
                found.append(_distances(method, fit.estimates, truth, fit.s2, True))
            release = releases.draw(noise)
            for method, repair in ((METHODS[2], "none"), (RIDGE, "ridge")):
                result = release.regress(FORMULA, repair=repair)
                estimates, clear = np.array(list(result.params.values())), result.kappa >= SMALLEST_KAPPA
                found.append(_distances(method, estimates, truth, result.sigma2, clear))
    return found


def _distances(method: str, estimates: np.ndarray, truth: np.ndarray, s2: float, clear: bool) -> Row:
    """Infinite where the method says that nothing is identified."""
    answered = bool(np.isfinite(estimates).all())
    return {
        "method": method,
        "answered": answered,
        "clear": bool(clear),  # the regressors are well determined, after noise
        "beta_distance": float(np.linalg.norm(estimates - truth)) if answered else np.inf,
        "distance": float(abs(estimates[1] - truth[1])) if answered else np.inf,
        "s2": s2 if answered and s2 > 0 else np.inf,
    }


def _draw(at: Any, table: pd.DataFrame, column: str, of: Callable[[Any], float], band: bool = False) -> None:
    """Of the trials that a method answers, and the legend says how many those are; none if they are few."""
    for index, method in enumerate(SHOWN):
        chosen = table[table.method == method]
        answers = chosen[np.isfinite(chosen[column])]
        share = len(answers) / len(chosen)
        groups = (answers if share >= FEW else answers[:0]).groupby("C")[column]
        line = groups.apply(of) if groups.ngroups else groups.median()
        if band:
            at.fill_between(
                line.index, groups.quantile(0.25), groups.quantile(0.75), color=PALETTE[index], alpha=0.18, lw=0
            )
        at.plot(line.index, line, label=method if share > 0.995 else f"{method} (answers {share:.0%})", **look(index))
    log_axis(at, "x", sorted(table.C.unique()))
    at.set_yscale("log")


def _quantile(level: float) -> Callable[[Any], float]:
    return lambda values: float(np.quantile(values, level))


def plots(table: pd.DataFrame) -> dict[str, Any]:
    sizes = (PAPER_ROWS, MANY_ROWS)
    figure, axes = panels(6, wide=3, size=(5.0, 4.0))
    measures: list[tuple[str, Callable[[Any], float], str]] = [
        ("beta_distance", np.mean, "beta distance: mean, middle half"),
        ("beta_distance", _quantile(0.95), "95% quantile of beta distance"),
        ("s2", _quantile(0.95), "95% quantile of s²"),
    ]
    for at, (rows, (column, of, title)) in zip(axes, product(sizes, measures), strict=True):
        _draw(at, table[table.rows == rows], column, of, band=of is np.mean)
        if column == "s2":
            at.axhline(1.0, color=TRUTH, ls="--", lw=1.5, label="true variance")
        low, high = at.get_ylim()
        at.set_ylim(low / 2, high * (high / low) ** 0.5)  # room for the legend
        unit = "s², squared units of Y" if column == "s2" else "distance, units of Y"
        label(at, f"n = {rows:,}: {title}", "coefficient C", unit)
    figure.suptitle(f"Y ~ X1 + ... + X4 on simulated rows, epsilon = {EPSILON}", fontsize=14)
    quantiles, axes = panels(2 * len(QUANTILES), wide=4, size=(4.2, 3.9))
    relative = table.assign(share=table.distance / table.C)
    for at, (rows, level) in zip(axes, product(sizes, QUANTILES), strict=True):
        _draw(at, relative[relative.rows == rows], "share", _quantile(level))
        at.axhline(1.0, color=TRUTH, ls="--", lw=1.5, label="C itself")
        at.set_ylim(0.01, 100)
        label(at, f"n = {rows:,}: {level:.0%} quantile", "coefficient C", "|released − C| / C", level == QUANTILES[0])
    quantiles.suptitle(f"Distance of X1's coefficient, as a share of C, epsilon = {EPSILON}", fontsize=14)
    return {"": figure, "quantiles": quantiles}


def findings(table: pd.DataFrame) -> str:
    relative = table.assign(share=(table.distance / table.C).replace(np.inf, np.nan))
    of = relative.groupby(["rows", "method"])
    answered, error = of.answered.mean(), of.share.median()
    clear = of.clear.mean()

    def shares(rows: int) -> str:
        return ", ".join(f"{error[rows, method]:.2g} ({method})" for method in SHOWN if answered[rows, method] >= FEW)

    printed = relative[(relative.rows == PAPER_ROWS) & (relative.method == "as printed")].share
    low, high = printed.quantile(QUANTILES[-1]), printed.quantile(QUANTILES[0])
    most = int(table.C.max())
    s2 = table[(table.rows == MANY_ROWS) & (table["C"] == most)].groupby("method").s2.median()
    over = relative[(relative.rows == PAPER_ROWS) & (relative.method == "corrected")].groupby("C").share.median()
    return (
        f"Distances grow with C because the bounds of Y do: corrected, the median distance of X1's coefficient is between "
        f"{over.min():.2g} and {over.max():.2g} times C for every C. Of the trials that are answered it is "
        f"{shares(PAPER_ROWS)} times C at n = {PAPER_ROWS:,} and {shares(MANY_ROWS)} at n = {MANY_ROWS:,}. The paper has "
        f"nearly all coefficients very close to C at the 70% level: here the printed noise gives a distance of {low:.2g} C "
        f"there, and {high:.2g} C at 80%.\n\n"
        f"At the paper's n the noise drowns the signal: a column in [0, 1] with a standard deviation of a ninth has a sum of "
        f"squares of {PAPER_ROWS / (2 * WIDE) ** 2:,.0f} around its mean, and the printed noise on it a standard deviation of "
        f"{noise_std('as printed', len(NAMES) + 1, EPSILON, DELTA):,.0f}. The paper's repaired matrix answers all the same. "
        f"dpspark answers {answered[PAPER_ROWS, 'dpspark']:.0%} of the trials, and says NOT IDENTIFIED to the others. At n = "
        f"{MANY_ROWS:,} its regressors are well determined in {clear[MANY_ROWS, 'dpspark']:.0%} of the trials and it answers "
        f"{answered[MANY_ROWS, 'dpspark']:.0%}: Y is so nearly C·X1 that a sum of squared residuals is often not positive "
        f"after noise, and there is then no variance to make a standard error from. The variance is 1; at C = "
        f"{most} and n = {MANY_ROWS:,} the median s² is {s2['as printed']:.1g} as printed and {s2['corrected']:.1g} corrected."
    )


EXPERIMENT = Experiment(
    name="bain-simulated",
    paper=PAPER,
    figures="figures 11 to 17",
    title="Simulated regressions",
    claim="""Beta distance and s² grow with the coefficient C. A few trials are far off; at the 70% level nearly all
    coefficients are very close to C.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
