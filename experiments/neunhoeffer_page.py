"""What the page says of the notebook's lines: the lines, their slopes, and errors over epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.alabi import quantile
from experiments.marks import open_curve, ruled
from experiments.style import TRUTH, common_legend, label, log_axis, look, panels

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
OURS, MATRIX, PRIVATE = "dpspark", "dpspark matrix", ("first, corrected", "second, corrected", "dpspark matrix")
TOP, BOTTOM = 2000.0, 0.02  # of the plot of errors, in standard errors


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


def slope_plot(table: pd.DataFrame) -> Figure:
    """Every slope, a row for each method: the notebook has densities, which few draws would bend."""
    epsilons = [epsilon for epsilon in _few(table) if epsilon > 0.01] or _few(table)
    figure, axes = panels(len(epsilons), wide=len(epsilons), size=(5.4, 4.2))
    truth = float(table.true_slope.iloc[0])
    for at, epsilon in zip(axes, epsilons, strict=True):
        shown = table[table.epsilon == epsilon]
        usual = shown[shown.method == "second, corrected"].slope
        reach = float(np.quantile((usual - truth).abs(), 0.8)) * 1.5
        for index, method in enumerate(SHOWN):
            slopes = shown[shown.method == method].slope
            inside = slopes[(slopes - truth).abs() <= reach]
            spread = index + 0.5 * (np.arange(len(inside)) / max(1, len(inside) - 1) - 0.5)
            at.plot(inside, spread, **look(index, ls="none", ms=4, alpha=0.5))
            note = f"{(slopes - truth).abs().gt(reach).sum()} off, {slopes.isna().sum()} none"
            at.text(truth + 1.05 * reach, index, note, va="center", fontsize=10)
        at.axvline(truth, color=TRUTH, lw=1.5, ls="--")
        at.set_xlim(truth - reach, truth + 1.75 * reach)
        at.set_yticks(range(len(SHOWN)), SHOWN if at is axes[0] else [])
        at.invert_yaxis()
        label(at, f"epsilon = {epsilon:g}", "slope, y per x", "", legend=False)
    draws = len(table[(table.method == OURS) & (table.epsilon == epsilons[0])])
    figure.suptitle(
        f"Released slopes of {draws} draws each (dashed: without noise); how many are off the panel, or not identified",
        fontsize=14,
    )
    return figure


def errors(table: pd.DataFrame) -> pd.Series:
    """In standard errors; infinite where a method does not answer, so that no draw is left out."""
    return ((table.slope - table.true_slope).abs() / table.true_se).fillna(np.inf)


def error_plot(table: pd.DataFrame) -> Figure:
    figure, (at,) = panels(1, size=(8.8, 5.8))
    epsilons = sorted(table.epsilon.unique())
    for index, method in enumerate(SHOWN):
        one = table[table.method == method]
        of = [errors(one[one.epsilon == epsilon]) for epsilon in epsilons]
        low, middle, high = ([quantile(part, level) for part in of] for level in (0.25, 0.5, 0.75))
        open_curve(at, epsilons, (middle, low, high), index, method, TOP)
    ruled(at, TOP, BOTTOM)
    log_axis(at, "x", sorted(set(epsilons) - {0.5, 0.7}))  # their marks would touch
    label(
        at,
        "Error of the slope: median and quartiles of all draws; not identified counts as infinite",
        "epsilon",
        "error, in standard errors",
        False,
    )
    common_legend(figure, at)
    return figure


def tell(table: pd.DataFrame) -> str:
    of = errors(table).groupby([table.epsilon, table.method])
    median, answered = of.apply(lambda part: quantile(part, 0.5)), of.apply(lambda part: np.isfinite(part).mean())
    spent = table.groupby("method").spent.first()
    epsilons = sorted(table.epsilon.unique())
    ahead = [epsilon for epsilon in epsilons if median[epsilon, MATRIX] < median[epsilon, "second, corrected"]]
    middle = 1.0
    told = table[(table.method == "second, as printed") & (table.epsilon == middle)]
    made, shown = (told.slope - told.true_slope).abs().median(), told.se.median()
    return "\n\n".join(
        [
            f"The first mechanism hardly adds any noise: the worst of the {table.n.iloc[0]:,} rows, "
            f"removed, gives itself away {spent['first, as printed']:.0f} times as much as the stated epsilon allows. For "
            f"the second it is {spent['second, as printed']:.1f} times; corrected, {spent['first, corrected']:.2f} and "
            f"{spent['second, corrected']:.2f} times, and for the longest row within the bounds just epsilon.",
            "Median errors, over that of dpspark's default for a line at the same epsilon:",
            "\n".join(_ratios(epsilon, median, answered) for epsilon in epsilons),
            f"dpspark's matrix has the smaller median than the corrected second mechanism at {_listed(ahead)}, of "
            f"{_listed(epsilons)}. Where the noise drowns the line or its residuals it says NOT IDENTIFIED, which counts "
            f"as an infinite error here; the notebook draws a line all the same. The notebook's standard error leaves the "
            f"noise out: at epsilon = {middle:g} it is {shown:.2g} in the median, and the error made {made:.2g}.",
            f"Corrected mechanisms and dpspark have the same public bounds, delta = 0 and a record added or removed. n is "
            f"private: dpspark's line is told to expect {table.expected.iloc[0]:,} rows, and the others need no number.",
            "Median error of the slope in standard errors, of all draws (and how many are answered, where not all are):",
            _table(table, median, answered),
        ]
    )


def _ratios(epsilon: float, median: pd.Series, answered: pd.Series) -> str:
    times = []
    for method in PRIVATE:
        value, share = median[epsilon, method] / median[epsilon, OURS], answered[epsilon, method]
        text = f"{value:.0f} times" if value >= 10 else f"{value:.1f} times"
        if not np.isfinite(value):
            text = "no median"
        times.append(f"{method} {text}" + (f" ({share:.0%} answered)" if share < 1 else ""))
    return f"- epsilon = {epsilon:g}: {', '.join(times)}"


def _listed(epsilons: list[float]) -> str:
    return f"epsilon = {', '.join(f'{epsilon:g}' for epsilon in epsilons)}" if epsilons else "no epsilon"


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
    shown = "not identified" if not np.isfinite(value) else f"{value:.0f}" if value >= 10 else f"{value:.2g}"
    return shown if answered == 1 else f"{shown} ({answered:.0%})"
