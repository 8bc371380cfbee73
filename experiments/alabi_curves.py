"""Alabi et al., slides "Error Metrics", "DPSuffStats" and "Synthetic Datasets": errors over epsilon, n, var(x) and |slope|.

The slides print no parameters: these are those of the example in the code of their paper. x ~ N(0.5, var(x)), y = 0.45 +
slope·(x − 0.5) + N(0, 0.005), both clipped to [0, 1]; epsilon = 1, n = 300 (there 1,000), var(x) = 0.05, slope 0.5, and each of
them varied. Ĉ(q) is the least c such that a share q of the draws is within c of least squares without privacy, in standard
errors of that; medians and quartiles are over sets of rows. dpspark is told the var(x) of the law that x is drawn from, never
that of the rows, and n where it is public; where not, its nearest power of ten.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.privacy.keyed import KeyedRandom
from experiments.alabi import (
    ADDED,
    DELTA,
    METHODS,
    NARROW,
    PAPER,
    REPLACED,
    TERMS,
    drawn_errors,
    error_rows,
    kernel_of,
    quantile,
    relation,
    shown,
    told_rows,
)
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.marks import legend_below, open_curve, ruled
from experiments.style import label, log_axis, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

USUAL = {"epsilon": 1.0, "n": 300, "variance": 0.05, "slope": 0.5}
NOISE = 0.005  # the variance of y about its line
VARIED: dict[str, tuple[float, ...]] = {
    "epsilon": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "n": (30, 100, 300, 1000, 3000),
    "variance": (0.001, 0.003, 0.01, 0.05),
    "slope": (0.0, 0.25, 0.5, 1.0),
}
UNITS = {"epsilon": "epsilon", "n": "rows n", "variance": "var(x), bounds of x = 1", "slope": "|slope|, y per x"}
# In the order of `look`: printed, corrected, dpspark, others.
ROBUST = (
    "DPExpTheilSen, as printed",
    "DPExpTheilSen, corrected",
    REPLACED,
    "DPWideTheilSen, corrected",
    "DPSSTheilSen, as printed",
    ADDED,
    "DPSSTheilSen, corrected",
    NARROW,
)
SQUARES = (
    "DPSuffStats, as printed",
    "DPSuffStats, corrected",
    REPLACED,
    "DPGradDescent, as printed",
    "DPGradDescent, corrected",
    ADDED,
)
TOP, BOTTOM = 300.0, 0.05  # of the panels, in standard errors


def cells(setting: Setting) -> list[Cell]:
    sets, draws = setting.trials(6, 3), setting.trials(50, 14)
    varied: list[Cell] = [{**USUAL, "varied": name, name: value} for name, values in VARIED.items() for value in values]
    if setting.quick:
        varied = [cell for cell in varied if cell["n"] <= 300]
    methods = [method for method in METHODS if method in (*ROBUST, *SQUARES)]
    return [{**cell, "method": method, "sets": sets, "draws": draws} for cell in varied for method in methods]


def simulated(cell: Cell, at: int) -> tuple[np.ndarray, np.ndarray]:
    """The same rows for every method."""
    random = np.random.default_rng([at, cell["n"]])
    x = np.clip(random.normal(0.5, math.sqrt(cell["variance"]), cell["n"]), 0, 1)
    noise = random.normal(0, math.sqrt(NOISE), cell["n"])
    return x, np.clip(0.45 + cell["slope"] * (x - 0.5) + noise, 0, 1)


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    guesses = {"expected_rows": told_rows(cell["method"], cell["n"]), "x_variance": cell["variance"]}
    kernel = kernel_of(cell["method"], cell["epsilon"], **guesses)
    secret = KeyedRandom(random.bytes(32))
    drawn = [drawn_errors(kernel, *simulated(cell, at), cell["draws"], secret, at) for at in range(cell["sets"])]
    return [{"set": at, **row} for at, (errors, truth) in enumerate(drawn) for row in error_rows(errors, truth)]


def plots(table: pd.DataFrame) -> dict[str, Any]:
    return {"robust": _plot(table, ROBUST, "Medians of pairs"), "squares": _plot(table, SQUARES, "Least squares")}


def _plot(table: pd.DataFrame, methods: tuple[str, ...], name: str) -> Figure:
    figure, axes = panels(4)
    for at, varied in zip(axes, VARIED, strict=True):
        part = table[(table.varied == varied) & (table.target == "p25")]
        values = sorted(part[varied].unique())
        for index, method in enumerate(methods):
            of = [part[(part.method == method) & (part[varied] == value)].c68 for value in values]
            low, middle, high = ([quantile(one, level) for one in of] for level in (0.25, 0.5, 0.75))
            open_curve(at, values, (middle, low, high), index, method, TOP)
        ruled(at, TOP, BOTTOM)
        if varied != "slope":
            log_axis(at, "x", values)
        label(at, f"C(0.68) of p25 against {UNITS[varied].split(',')[0]}", UNITS[varied], "in standard errors", False)
    legend_below(figure, axes[0])
    rest = ", ".join(f"{UNITS[key].split(',')[0]} = {value:g}" for key, value in USUAL.items())
    what = f"{name}: median and quartiles over sets of rows; all replace-one, but for {ADDED}"
    figure.suptitle(f"{what}\notherwise {rest}", fontsize=14)
    return figure


def findings(table: pd.DataFrame) -> str:
    medians = table.groupby(["target", "method", "varied", *USUAL]).c68.apply(lambda part: quantile(part, 0.5))

    def median(method: str, target: str = "p25", **changed: float) -> float:
        where = {**USUAL, **changed}
        varied = next(iter(changed), "epsilon")
        return float(medians[(target, method, varied, *(where[key] for key in USUAL))])

    sizes = sorted(table[table.varied == "n"].n.unique())
    effects = []
    for name, values in {**VARIED, "n": sizes}.items():
        ends = [median("DPSuffStats, corrected", "slope", **{name: end}) for end in (values[0], values[-1])]
        effects.append(
            f"{shown(ends[0])} to {shown(ends[1])} over {UNITS[name].split(',')[0]} {values[0]:g} to {values[-1]:g}"
        )
    steep = VARIED["slope"][-1]
    flat, tilted = (_slope_error(table, slope) for slope in (0.0, steep))
    return "\n\n".join(
        [
            f"The four effects of the slides, on C(0.68) of the slope by DPSuffStats (corrected), in standard errors: "
            f"{'; '.join(effects)}. The slides have |α|/(ε·nvar)² for what privacy adds to the mean squared error of the "
            f"slope, which is 0 for a flat line. It is 18(1 + α²)/(ε·nvar)²: a flat line's C(0.68) here is "
            f"{flat:.2g} y per x, and one of slope {steep:g} has {tilted / flat:.2f} times that (the formula: "
            f"{math.sqrt(1 + steep**2):.2f}).",
            _against(table, median),
            _terms(table, median),
            f"Medians of C(0.68) and C(0.95) of p25 in standard errors, at epsilon = {USUAL['epsilon']:g}, n = "
            f"{USUAL['n']}, var(x) = {USUAL['variance']:g}, slope {USUAL['slope']:g}:",
            _table(table),
        ]
    )


def _slope_error(table: pd.DataFrame, slope: float) -> float:
    """C(0.68) of DPSuffStats' slope in units of y per x, the median of all sets."""
    part = table[(table.method == "DPSuffStats, corrected") & (table.varied == "slope") & (table.slope == slope)]
    part = part[part.target == "slope"]
    return quantile(part.c68 * part.std_error, 0.5)


def _settings(table: pd.DataFrame) -> list[dict[str, float]]:
    """The one thing that is changed in each setting."""
    found = table[["varied", *USUAL]].drop_duplicates().to_dict("records")
    return [{setting["varied"]: setting[setting["varied"]]} for setting in found]


def _against(table: pd.DataFrame, median: Any) -> str:
    """dpspark against the best of theirs at every setting."""
    theirs = [method for method in table.method.unique() if method.endswith("corrected")]
    settings = _settings(table)
    best = [min(median(method, **changed) for method in theirs) for changed in settings]
    told = []
    for method in (REPLACED, ADDED):
        ratios = [one / median(method, **changed) for one, changed in zip(best, settings, strict=True)]
        told.append(
            f"{method} has the smaller one in {sum(ratio > 1 for ratio in ratios)}, and that best one {min(ratios):.1f} to "
            f"{max(ratios):.1f} times its error"
        )
    return (
        f"The median C(0.68) of p25 in {len(settings)} settings, against the best of the corrected mechanisms, chosen "
        f"afterwards at each: {'; '.join(told)}."
    )


def _terms(table: pd.DataFrame, median: Any) -> str:
    """What the methods are told and promise."""
    wide = [median("DPExpTheilSen, corrected", **changed) / median(NARROW, **changed) for changed in _settings(table)]
    return (
        f"{TERMS} There DPExpTheilSen has {1 / max(wide):.2f} to {1 / min(wide):.2f} times its error. dpspark is told the "
        f"var(x) of the law of x, and n where it is public; with add/remove the power of ten next to n. DPGradDescent has "
        f"delta = {DELTA:g}."
    )


def _table(table: pd.DataFrame) -> str:
    part = table[(table.varied == "epsilon") & (table.epsilon == USUAL["epsilon"]) & (table.target == "p25")]
    lines = ["| method | relation | C(0.68) | C(0.95) |", "|---|---|---|---|"]
    for method in part.method.unique():
        one = part[part.method == method]
        lines.append(
            f"| {method} | {relation(method)} | {shown(quantile(one.c68, 0.5))} | {shown(quantile(one.c95, 0.5))} |"
        )
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="alabi-curves",
    paper=PAPER,
    figures="slides on error metrics, DPSuffStats and synthetic sets",
    title="One line: errors over epsilon, n, var(x) and the slope",
    claim="""A smaller |α|, a larger epsilon, a larger n and a larger var(x) each make the error of DPSuffStats smaller; private
    robust methods approach robust ones without privacy, and the others least squares.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
