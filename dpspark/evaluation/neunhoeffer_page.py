"""What the page says of the notebook's lines: the lines, densities of their slopes, and errors over epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from dpspark.evaluation.style import TRUTH, common_legend, curve, label, log_axis, look, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# In the order of `look`: printed, corrected, dpspark, others.
SHOWN = (
    "second, as printed",
    "second, corrected",
    "dpspark",
    "dpspark matrix",
    "first, as printed",
    "first, corrected",
)
LINES = ("first, as printed", "second, as printed", "second, corrected", "dpspark")
FEW_EPSILONS = (0.01, 0.1, 1.0, 5.0)
POINTS = 600
FEW = 0.1  # a smaller share of answers is not shown


def _few(table: pd.DataFrame) -> list[float]:
    return [epsilon for epsilon in FEW_EPSILONS if epsilon in set(table.epsilon)]


def line_plot(table: pd.DataFrame, rows: Mapping[str, np.ndarray], bounds: Mapping[str, Any]) -> Figure:
    epsilons = _few(table)
    figure, axes = panels(len(LINES) * len(epsilons), wide=len(epsilons), size=(3.6, 3.0))
    ends = np.array(list(bounds["x"].values()), float)
    at = iter(axes)
    for method in LINES:
        for epsilon in epsilons:
            one, place = table[(table.method == method) & (table.epsilon == epsilon)], next(at)
            place.plot(rows["x"][:POINTS], rows["y"][:POINTS], ".", color="0.6", ms=2)
            drawn = one[one.slope.notna()]
            place.plot(
                ends,
                drawn.intercept.to_numpy() + np.outer(ends, drawn.slope),
                color=look(SHOWN.index(method))["color"],
                lw=1.2,
                alpha=0.35,
            )
            place.set(xlim=ends, ylim=list(bounds["y"].values()))
            label(place, f"{method}, ε = {epsilon:g}", "x", "y")
    figure.suptitle(f"Lines of {len(one)} draws each, {len(rows['x']):,} rows (grey: {POINTS} of them)", fontsize=14)
    return figure


def density_plot(table: pd.DataFrame) -> Figure:
    epsilons = [epsilon for epsilon in _few(table) if epsilon > 0.01] or _few(table)
    figure, axes = panels(len(epsilons), wide=len(epsilons), size=(5.0, 4.2))
    truth = float(table.true_slope.iloc[0])
    for at, epsilon in zip(axes, epsilons, strict=True):
        shown = table[table.epsilon == epsilon]
        usual = shown[shown.method == "second, corrected"].slope
        reach = float(np.quantile((usual - truth).abs(), 0.8)) * 1.5
        grid = np.linspace(truth - reach, truth + reach, 400)
        for index, method in enumerate(SHOWN):
            slopes = shown[shown.method == method].slope.dropna()
            inside = slopes[(slopes - truth).abs() < 2 * reach]
            if len(inside) >= max(5, len(shown[shown.method == method]) / 2) and inside.std() > 0:
                density = stats.gaussian_kde(inside)(grid)
                at.plot(grid, density / density.max(), label=method, **look(index, marker=None))
        at.axvline(truth, color=TRUTH, lw=1.5, ls="--", label="without noise")
        label(at, f"epsilon = {epsilon:g}", "slope, y per x", "density, highest = 1", legend=False)
    common_legend(figure, axes[0])
    figure.suptitle("Densities of the released slope", fontsize=14)
    return figure


def errors(table: pd.DataFrame) -> pd.Series:
    """NaN where a method does not answer."""
    return (table.slope - table.true_slope).abs() / table.true_se


def error_plot(table: pd.DataFrame) -> Figure:
    figure, (at,) = panels(1, size=(8.4, 5.6))
    for index, method in enumerate(SHOWN):
        one = table[table.method == method]
        of = errors(one).groupby(one.epsilon)
        low, middle, high = (of.quantile(level) for level in (0.25, 0.5, 0.75))
        kept = of.count() >= FEW * of.size()
        curve(at, middle.index[kept], middle[kept], low[kept], high[kept], index, method)
    at.axhline(1.0, color=TRUTH, lw=1.5, ls="--", label="one standard error")
    log_axis(at, "x", sorted(set(table.epsilon) - {0.5, 0.7}))  # their marks would touch
    at.set_yscale("log")
    label(
        at,
        "Error of the slope: median, and the middle half of the draws answered",
        "epsilon",
        "error, in standard errors",
        False,
    )
    common_legend(figure, at)
    return figure


def tell(table: pd.DataFrame) -> str:
    epsilon = 1.0
    of = errors(table).groupby([table.epsilon, table.method])
    median, answered = of.median(), of.count() / of.size()
    spent = table.groupby("method").spent.first()
    fewer = median[epsilon, "second, corrected"] / median[epsilon, "dpspark"]
    matrix = median[epsilon, "second, corrected"] / median[epsilon, "dpspark matrix"]
    told = table[(table.method == "second, as printed") & (table.epsilon == epsilon)]
    made, shown = (told.slope - told.true_slope).abs().median(), told.se.median()
    return "\n\n".join(
        [
            f"The first mechanism hardly adds any noise: the worst of the {table.n.iloc[0]:,} rows, "
            f"removed, gives itself away {spent['first, as printed']:.0f} times as much as the stated epsilon allows. For the "
            f"second it is {spent['second, as printed']:.1f} times; corrected, {spent['first, corrected']:.2f} and "
            f"{spent['second, corrected']:.2f} times.",
            f"At epsilon = {epsilon:g} the corrected second mechanism has **{fewer:.1f} times** the median error of dpspark's "
            f"default for a line, and {matrix:.1f} times that of dpspark's matrix, both with delta = 0. The matrix answers "
            f"{answered[epsilon, 'dpspark matrix']:.0%} of its draws and says NOT IDENTIFIED to those where the noise drowns "
            f"the line or its residuals; the notebook draws a line all the same. The notebook's standard error leaves the "
            f"noise out: it is {shown:.2g} in the median, and the error made {made:.2g}.",
            "Median error of the slope in standard errors, of the draws that are answered (and how many are):",
            _table(table, median, answered),
        ]
    )


def _table(table: pd.DataFrame, median: pd.Series, answered: pd.Series) -> str:
    epsilons = sorted(table.epsilon.unique())
    lines = [
        "| epsilon | " + " | ".join(f"{epsilon:g}" for epsilon in epsilons) + " |",
        "|---|" + "---|" * len(epsilons),
    ]
    for method in SHOWN:
        shown = [_median(median[epsilon, method], answered[epsilon, method]) for epsilon in epsilons]
        lines.append(f"| {method} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _median(value: float, answered: float) -> str:
    if answered < FEW:
        return "not identified"
    shown = f"{value:.0f}" if value >= 10 else f"{value:.2g}"
    return shown if answered == 1 else f"{shown} ({answered:.0%})"
