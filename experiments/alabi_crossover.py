"""Alabi et al., slides "Robustness and DP Algorithm Design" and "Conclusion": robust or not, by epsilon·nvar(x).

y = 0.25 + 0.5x + N(0, 0.1²), clipped to [0, 1]; x evenly spread, or normal about 0.5 with a standard deviation of 0.1 or 0.05;
n = 30 to 300,000; epsilon = 1 and 8. The slides print no parameters. Every draw has rows of its own; an error is that of p25
against least squares without privacy, in standard errors, and infinite where a mechanism gives no line. dpspark is told the
var(x) of the law that rows are drawn from, never that of the rows, and n where it is public; where not, the power of ten
next to it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.privacy.keyed import KeyedRandom
from experiments.alabi import (
    ADDED,
    DELTA,
    PAPER,
    REPLACED,
    TERMS,
    drawn_errors,
    kernel_of,
    quantile,
    shown,
    told_rows,
)
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.marks import open_curve, ruled
from experiments.style import common_legend, label, panels

if TYPE_CHECKING:
    import pandas as pd

SIZES = (30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
EVEN = "even"
SPREADS: dict[str, float] = {EVEN: 1 / 12, "0.1": 0.01, "0.05": 0.0025}  # var(x), by name
LARGEST = {
    (EVEN, 1.0): 100_000,
    (EVEN, 8.0): 30_000,
    ("0.1", 1.0): 300_000,
    ("0.1", 8.0): 100_000,
    ("0.05", 1.0): 100_000,
}
EXP, SUFF = "DPExpTheilSen, corrected", "DPSuffStats, corrected"
# In the order of `look`: printed, corrected, dpspark, others.
METHODS = ("DPExpTheilSen, as printed", EXP, REPLACED, SUFF, "DPSuffStats, as printed", ADDED, "Gaussian matrix")
BANDS = (EXP, REPLACED, SUFF)
TOP, BOTTOM = 200.0, 0.02  # of the panels, in standard errors
CLEARLY = 1.5
SHOWN_AS = {EVEN: "x evenly spread", "0.1": "sd(x) = 0.1", "0.05": "sd(x) = 0.05"}


def cells(setting: Setting) -> list[Cell]:
    most = 10_000 if setting.quick else max(SIZES)
    sizes = SIZES[1::2] if setting.quick else SIZES
    return [
        {"x": x, "epsilon": epsilon, "n": n, "method": method, "draws": _draws(n, setting)}
        for x in SPREADS
        for epsilon in (1.0, 8.0)
        for n in sizes
        if n <= min(most, LARGEST.get((x, epsilon), max(SIZES)))
        for method in METHODS
    ]


def _draws(n: int, setting: Setting) -> int:
    if setting.quick:
        return 20 if n <= 1_000 else 6
    return 80 if n <= 1_000 else 50 if n <= 3_000 else 30 if n <= 10_000 else 16 if n <= 30_000 else 10


def simulated(x: str, n: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    at = random.random(n) if x == EVEN else np.clip(random.normal(0.5, float(x), n), 0, 1)
    return at, np.clip(0.25 + 0.5 * at + random.normal(0, 0.1, n), 0, 1)


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    guesses = {"expected_rows": told_rows(cell["method"], cell["n"]), "x_variance": SPREADS[cell["x"]]}
    kernel = kernel_of(cell["method"], cell["epsilon"], **guesses)
    secret = KeyedRandom(random.bytes(32))
    drawn, nvar = [], 0.0
    for draw in range(cell["draws"]):
        errors, truth = drawn_errors(kernel, *simulated(cell["x"], cell["n"], random), 1, secret, draw)
        drawn.append(float(errors["p25"][0]) / truth.std_errors["p25"])
        nvar += truth.nvar / cell["draws"]
    low, middle, high = (quantile(drawn, level) for level in (0.25, 0.5, 0.75))
    lines = float(np.isfinite(drawn).mean())
    return [
        {
            "low": low,
            "median": middle,
            "high": high,
            "answered": lines,
            "nvar": nvar,
            "strength": cell["epsilon"] * nvar,
        }
    ]


def plots(table: pd.DataFrame) -> dict[str, Any]:
    settings = list(table.groupby(["epsilon", "x"], sort=False).groups)
    settings.sort(key=lambda setting: (setting[0], -SPREADS[setting[1]]))
    figure, axes = panels(len(settings), wide=3, size=(4.6, 4.0))
    for at, (epsilon, x) in zip(axes, settings, strict=True):
        part = table[(table.epsilon == epsilon) & (table.x == x)]
        for index, method in enumerate(METHODS):
            line = part[part.method == method].sort_values("n")
            low, high = ("low", "high") if method in BANDS else ("median", "median")
            open_curve(at, line.strength, (line["median"], line[low], line[high]), index, method, TOP)
        ruled(at, TOP, BOTTOM)
        place = crossing(part)
        if place:
            at.axvline(place, color="0.6", lw=1.5, ls=":")
        at.set_xscale("log")
        label(at, f"epsilon = {epsilon:g}, {SHOWN_AS[x]}", "epsilon · nvar(x)", "error of p25, in SE", legend=False)
    common_legend(figure, axes[0])
    figure.suptitle(
        "Median errors, with quartiles of three; all replace-one, but for dpspark, add/remove\n"
        "grey: DPSuffStats passes DPExpTheilSen (both corrected)",
        fontsize=14,
    )
    return {"": figure}


def crossing(part: pd.DataFrame, robust: str = EXP, other: str = SUFF) -> float | None:
    """The epsilon·nvar from which on `other` has the smaller median, between two sizes by their ratio's logarithm."""
    ours, theirs = (part[part.method == method].sort_values("n") for method in (robust, other))
    gaps = np.log(theirs["median"].to_numpy() / ours["median"].to_numpy())
    at = np.log(ours.strength.to_numpy())
    ahead = np.flatnonzero(gaps >= 0)
    if not len(ahead) or ahead[-1] == len(gaps) - 1:
        return None
    last = int(ahead[-1])
    step = 0.5 if not math.isfinite(gaps[last]) else gaps[last] / (gaps[last] - gaps[last + 1])
    return math.exp(at[last] + step * (at[last + 1] - at[last]))


def findings(table: pd.DataFrame) -> str:
    found, places = [], []
    for (epsilon, x), part in table.groupby(["epsilon", "x"], sort=False):
        place = crossing(part)
        if place:
            places.append((float(epsilon), place))
            met = f"at {place:.0f} (n of about {place / (epsilon * SPREADS[x]):,.0f})"
        else:
            met = f"not up to {part.strength.max():.0f} (n = {part.n.max():,})"
        found.append(f"- epsilon = {epsilon:g}, {SHOWN_AS[x]}: {met}")
    return "\n\n".join(
        [
            "The epsilon·nvar(x) from which on DPSuffStats has the smaller median error of p25 than DPExpTheilSen, both "
            "corrected:",
            "\n".join(found),
            rule(places),
            _falls(table),
            _ours(table),
            f"{TERMS} dpspark is told the var(x) of the law of x, and n where it is public; with add/remove the power of "
            f"ten next to n. Gaussian noise has delta = {DELTA:g}.",
            f"Median errors of p25 in standard errors (all replace-one, but for {ADDED}):",
            _table(table),
        ]
    )


def rule(places: list[tuple[float, float]]) -> str:
    """Which product of epsilon and nvar the crossover keeps to; `places`: epsilon and epsilon·nvar of each."""
    if len({epsilon for epsilon, _ in places}) < 2:
        return "Crossovers at two epsilons would be needed to tell which product of epsilon and nvar they keep to."
    ends, apart = {}, {}
    for power, name in enumerate(("epsilon·nvar", "epsilon²·nvar")):
        values = [place * epsilon**power for epsilon, place in places]
        ends[name], apart[name] = f"{min(values):.0f} to {max(values):.0f} in {name}", max(values) / min(values)
    told = "; ".join(f"{text}, {apart[name]:.1f} times apart" for name, text in ends.items())
    steady, other = sorted(apart, key=lambda name: apart[name])
    clear = apart[other] >= CLEARLY * apart[steady]
    return f"That is from {told}: {f'{steady} is the steadier sign' if clear else 'neither is clearly the steadier sign'} here."


def _falls(table: pd.DataFrame) -> str:
    """How medians change with nvar, of the two whose crossover it is."""
    powers = {}
    for method in (SUFF, EXP):
        each = []
        for _, part in table[table.method == method].groupby(["epsilon", "x"], sort=False):
            part = part[np.isfinite(part["median"])]
            if len(part) > 1:
                each.append(float(np.polyfit(np.log(part.nvar), np.log(part["median"]), 1)[0]))
        powers[method] = f"nvar^{np.median(each):.2f}" if each else "nothing: it has no line"
    return (
        f"Over all n with a line, and in the middle of these settings, the median of DPSuffStats goes as {powers[SUFF]} "
        f"and that of DPExpTheilSen as {powers[EXP]}. Noise of one size is nvar^-0.50 in standard errors."
    )


def _ours(table: pd.DataFrame) -> str:
    medians = table.pivot_table("median", ["epsilon", "x", "n"], "method", sort=False)
    best = medians[[EXP, SUFF, "Gaussian matrix"]].min(axis=1)
    told = []
    for method in (REPLACED, ADDED):
        ratio = best / medians[method]
        told.append(
            f"{method}: in {(ratio >= 1).sum()} of {len(ratio)} settings no worse than that, which has {ratio.median():.1f} "
            f"times its error in the middle of all settings, {ratio.min():.2g} at the least and {ratio.max():.2g} at the most"
        )
    return (
        f"dpspark chooses by epsilon·rows·var(x). Against the best of DPExpTheilSen, DPSuffStats (corrected) and a "
        f"Gaussian matrix, chosen afterwards at each setting: {'; '.join(told)}."
    )


def _table(table: pd.DataFrame) -> str:
    lines = ["| epsilon | x | n | " + " | ".join(METHODS) + " |", "|---|---|---|" + "---|" * len(METHODS)]
    for (epsilon, x, n), part in table.groupby(["epsilon", "x", "n"], sort=False):
        medians = part.set_index("method")["median"]
        lines.append(f"| {epsilon:g} | {x} | {n:,} | {' | '.join(shown(medians[method]) for method in METHODS)} |")
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="alabi-crossover",
    paper=PAPER,
    figures="slides on robustness, synthetic sets and the conclusion",
    title="Robust or least squares: the crossover",
    claim="""epsilon·nvar(x) tells whether to choose a robust method: private least squares works great where it is large,
    otherwise private robust estimators do better; there is a crossover between the two.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
