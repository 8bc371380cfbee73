"""Bain et al., figures 11 to 17: regressions on simulated rows, over the coefficient C.

Parameters of the paper: epsilon = 0.01, delta = 2^-16, d = 5, n = 50,000, 1,000 trials. Rows as in its section 3.1: four
columns N(mean, sd), means even in [100, 10,000] and sds even in [0, 100]; the fifth is Y = C·X1 + N(0, 1). Here Y is regressed
on all four, which are the same for every C, and a trial is one of 50 sets of rows and a draw of noise. Bounds are public, 4.5
sds to either side. The beta distance is the l2 distance of all coefficients from least squares without noise, the coefficient
distance that of X1's. Bands of quantiles are from the sets of rows drawn again with replacement. Also at n = 1,000,000, where
the signal is larger than the noise.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.analysis.ols import Moments, directions, fit_scaled
from dpspark.core.formula import parse_formula
from dpspark.mechanisms.gram.identification import is_enough
from experiments.bain import DELTA, EPSILON, METHODS, PAPER, PaperReleases, conf_for, noise_std, sweep_fit
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.noise import ExperimentNoise
from experiments.releases import Releases
from experiments.style import TRUTH, common_legend, curve, label, log_axis, look, panels

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
AGAIN = 60  # times the sets are drawn again
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 5)
BANDS = "90% of redrawn sets"


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
        made: list[Row] = []
        for _ in range(cell["draws"]):
            for method in METHODS[:2]:
                fit = sweep_fit(paper.draw(method, EPSILON, DELTA, random), formula)
                made.append(_distances(method, fit.estimates, truth, fit.s2))
            release = releases.draw(noise)
            for method, repair in ((METHODS[2], "none"), (RIDGE, "ridge")):
                result = release.regress(FORMULA, repair=repair)
                made.append(_distances(method, np.array(list(result.params.values())), truth, result.sigma2))
                if method == METHODS[2] and is_enough(result.kappa_w):
                    made[-1]["unsaid"] = abs(_slope(release.content.moments) - truth[1])
        found += [{**row, "set": number} for row in made]
    return found


def _slope(moments: Moments) -> float:
    """X1's coefficient whether or not the product would give it out, to see what is kept back."""
    regressors, response, to_original, shift = directions(moments, parse_formula(FORMULA, moments.terms, {}))
    return float((to_original @ fit_scaled(moments, regressors, response)[0] + shift)[1])


def _distances(method: str, estimates: np.ndarray, truth: np.ndarray, s2: float) -> Row:
    """Infinite where the method says that nothing is identified."""
    answered = bool(np.isfinite(estimates).all())
    return {
        "method": method,
        "answered": answered,
        "beta_distance": float(np.linalg.norm(estimates - truth)) if answered else np.inf,
        "intercept": float(abs(estimates[0] - truth[0])) if answered else np.inf,
        "distance": float(abs(estimates[1] - truth[1])) if answered else np.inf,
        "s2": s2 if answered and s2 > 0 else np.inf,
        "unsaid": np.nan,  # the distance, of dpspark alone, if its regressors are clear, answered or not
    }


def _draw(at: Any, table: pd.DataFrame, column: str, level: float) -> None:
    """A quantile of the trials that a method answers; the panel says how many those are. Not drawn if they are few."""
    notes = []
    for index, method in enumerate(SHOWN):
        chosen = table[table.method == method]
        answers = chosen[np.isfinite(chosen[column])]
        share = len(answers) / len(chosen)
        if share < 0.995:
            notes.append(f"{method}: answers {share:.0%}" + (", not drawn" if share < FEW else ""))
        if share < FEW:
            at.plot([], [], label=method, **look(index))  # for the legend
            continue
        line = {c: (one[column].quantile(level), *_band(one, column, level)) for c, one in answers.groupby("C")}
        middle, low, high = np.array(list(line.values())).T
        curve(at, list(line), middle, low, high, index, method)
    if notes:
        left, top = (0.03, 0.97) if column != "share" else (0.03, 0.09)  # where the curves are not
        at.text(left, top, "\n".join(notes), transform=at.transAxes, va="top", fontsize=10)
    log_axis(at, "x", sorted(table.C.unique()))
    at.set_yscale("log")


def _band(table: pd.DataFrame, column: str, level: float) -> tuple[float, float]:
    """Quartiles around a median; around another quantile 90% of what it is if the sets are drawn again."""
    if level == 0.5:
        return float(table[column].quantile(0.25)), float(table[column].quantile(0.75))
    sets = [one.to_numpy() for _, one in table.groupby("set")[column]]
    random = np.random.default_rng(SEED)
    again = [
        np.quantile(np.concatenate([sets[i] for i in random.integers(0, len(sets), len(sets))]), level)
        for _ in range(AGAIN)
    ]
    return float(np.quantile(again, 0.05)), float(np.quantile(again, 0.95))


def plots(table: pd.DataFrame) -> dict[str, Any]:
    sizes = (PAPER_ROWS, MANY_ROWS)
    figure, axes = panels(6, wide=3, size=(5.0, 4.0))
    measures = [
        ("beta_distance", 0.5, "median beta distance"),
        ("beta_distance", 0.95, "95% quantile of beta distance"),
        ("s2", 0.95, "95% quantile of s²"),
    ]
    for at, (rows, (column, level, title)) in zip(axes, product(sizes, measures), strict=True):
        _draw(at, table[table.rows == rows], column, level)
        if column == "s2":
            at.axhline(1.0, color=TRUTH, ls="--", lw=1.5, label="true variance")
        unit = "s², squared units of Y" if column == "s2" else "l2 norm, all coefficients"
        label(at, f"n = {rows:,}: {title}", "coefficient C", unit, legend=False)
    common_legend(figure, axes[2])
    figure.suptitle(f"Y ~ X1 + ... + X4, epsilon = {EPSILON}. Bands: quartiles (left), {BANDS} (others)", fontsize=14)
    quantiles, axes = panels(2 * len(QUANTILES), wide=4, size=(4.2, 3.9))
    relative = table.assign(share=table.distance / table.C)
    for at, (rows, level) in zip(axes, product(sizes, QUANTILES), strict=True):
        _draw(at, relative[relative.rows == rows], "share", level)
        at.axhline(1.0, color=TRUTH, ls="--", lw=1.5, label="an error of C")
        low, high = at.get_ylim()
        log_axis(at, "y", [tick for tick in TICKS if low / 1.6 <= tick <= 1.2 * high])
        at.set_ylim(low / 1.6, 1.2 * high)  # room for the note
        label(
            at, f"n = {rows:,}: {level:.0%} quantile", "coefficient C", "|X1's, less least squares'| / C", legend=False
        )
    common_legend(quantiles, axes[0])
    quantiles.suptitle(f"Distance of X1's coefficient, epsilon = {EPSILON}. Bands: {BANDS}", fontsize=14)
    return {"": figure, "quantiles": quantiles}


def findings(table: pd.DataFrame) -> str:
    relative = table.assign(share=(table.distance / table.C).replace(np.inf, np.nan))
    of = relative.groupby(["rows", "method"])
    answered, error = of.answered.mean(), of.share.median()

    def shares(rows: int) -> str:
        return ", ".join(f"{error[rows, method]:.2g} ({method})" for method in SHOWN if answered[rows, method] >= FEW)

    printed = relative[(relative.rows == PAPER_ROWS) & (relative.method == "as printed")]
    low, high = printed.share.quantile(QUANTILES[-1]), printed.share.quantile(QUANTILES[0])
    of_intercept = float((printed.intercept / printed.beta_distance).median())
    most = int(table.C.max())
    s2 = table[(table.rows == MANY_ROWS) & (table["C"] == most)].groupby("method").s2.median()
    over = relative[(relative.rows == PAPER_ROWS) & (relative.method == "corrected")].groupby("C").share.median()
    return (
        f"Distances grow with C as the bounds of Y do: corrected, the median distance of X1's coefficient is between "
        f"{over.min():.2g} and {over.max():.2g} times C for every C. Of the trials that are answered it is "
        f"{shares(PAPER_ROWS)} times C at n = {PAPER_ROWS:,} and {shares(MANY_ROWS)} at n = {MANY_ROWS:,}. The paper has "
        f"nearly all coefficients very close to C at the 70% level: here the printed noise gives a distance of {low:.2g} C "
        f"there, and {high:.2g} C at 80%. The beta distance adds coefficients of unlike units; the intercept's part of it is "
        f"{of_intercept:.0%} (as printed, median).\n\n"
        f"At the paper's n a column in [0, 1] with a standard deviation of a ninth has a sum of squares of "
        f"{PAPER_ROWS / (2 * WIDE) ** 2:,.0f} around its mean, and the printed noise on it a standard deviation of "
        f"{noise_std('as printed', len(NAMES) + 1, EPSILON, DELTA):,.0f}. The paper's repaired matrix answers all the same; "
        f"dpspark answers {answered[PAPER_ROWS, 'dpspark']:.0%} of the trials, and says NOT IDENTIFIED to the others. "
        f"{_kept_back(table)} The variance of Y around the line is 1; at C = {most} and n = {MANY_ROWS:,} the median s² is "
        f"{s2['as printed']:.1g} as printed and {s2['corrected']:.1g} corrected."
    )


def _kept_back(table: pd.DataFrame) -> str:
    """What dpspark does not answer where its regressors are clear: does leaving it out flatter the rest?"""
    many = table[(table.rows == MANY_ROWS) & (table.method == "dpspark")]
    clear = many[many.unsaid.notna()]
    told = (
        f"At n = {MANY_ROWS:,} its regressors are well determined in {len(clear) / len(many):.0%} of the trials and it "
        f"answers {many.answered.mean():.0%}: Y is so nearly C·X1 that a sum of squared residuals may not be positive after "
        "noise, and there is then no variance to make a standard error from."
    )
    said, unsaid = ((one.unsaid / one.C).median() for one in (clear[clear.answered], clear[~clear.answered]))
    if not np.isfinite([said, unsaid]).all():
        return told
    return (
        f"{told} Curves and medians of dpspark are of its answers alone, those of the paper's methods of all trials. The "
        f"coefficient that it keeps back would be {unsaid:.2g} C away in the median, that of its answers is {said:.2g} C."
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
