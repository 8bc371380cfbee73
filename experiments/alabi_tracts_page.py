"""What the page says of tracts: errors in standard errors, and the share of tracts where they are below one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpspark.privacy.budget import zcdp_epsilon
from experiments.alabi import ADDED, DELTA, METHODS, NARROW, REPLACED, TERMS, quantile, relation, shown
from experiments.marks import open_curve, ruled
from experiments.style import common_legend, curve, label, log_axis, panels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

INFUSED, INFUSED_HALF = "noise infusion, as printed", "noise infusion, halved"
EXP, EXP_PRINTED = "DPExpTheilSen, corrected", "DPExpTheilSen, as printed"
# In the order of `look`: printed, corrected, dpspark, others.
SHOWN = (
    EXP_PRINTED,
    EXP,
    REPLACED,
    "DPSuffStats, corrected",
    "DPGradDescent, corrected",
    ADDED,
    INFUSED_HALF,
    "DPSSTheilSen, corrected",
)
EXPECTED = 100  # people in a tract: a guess for any file, not what this one has
TOP, BOTTOM = 300.0, 0.03  # of the panels, in standard errors
NAMES = {"generated": "invented tracts", "oi_cells": "Opportunity Insights' simulated cells"}


def share_below(errors: pd.Series) -> float:
    """Of tracts, where the privacy error Ĉ(0.68), in standard errors, is below one."""
    return float((errors < 1).mean())


def tract_plot(table: pd.DataFrame) -> Figure:
    figure, axes = panels(4)
    epsilons = sorted(table.epsilon.unique())
    p25, p75 = (table[table.target == target] for target in ("p25", "p75"))
    for at, column, share in ((axes[0], "c68", "0.68"), (axes[1], "c95", "0.95")):
        for index, method in enumerate(SHOWN):
            parts = [p25[(p25.method == method) & (p25.epsilon == epsilon)][column] for epsilon in epsilons]
            low, middle, high = ([quantile(part, level) for part in parts] for level in (0.25, 0.5, 0.75))
            open_curve(at, epsilons, (middle, low, high), index, method, TOP)
        ruled(at, TOP, BOTTOM)
        log_axis(at, "x", epsilons)
        label(at, f"C({share}) of p25", "epsilon", "in standard errors", legend=False)
    for at, part, name in ((axes[2], p25, "p25"), (axes[3], p75, "p75")):
        for index, method in enumerate(SHOWN):
            of = [part[(part.method == method) & (part.epsilon == epsilon)].c68 for epsilon in epsilons]
            shares = [100 * share_below(one) for one in of]
            spread = [math.sqrt(share * (100 - share) / len(one)) for share, one in zip(shares, of, strict=True)]
            low, high = ([s + side * d for s, d in zip(shares, spread, strict=True)] for side in (-1, 1))
            curve(at, epsilons, shares, low, high, index, method)
        log_axis(at, "x", epsilons)
        label(at, f"Tracts with C(0.68) of {name} below one standard error", "epsilon", "% of tracts", legend=False)
    common_legend(figure, axes[0])
    tracts, name = table.tract.nunique(), NAMES[table.data.iloc[0]]
    figure.suptitle(
        f"{tracts} {name}: median and quartiles (above), share ± its standard error (below)\n"
        f"all replace-one, but for {ADDED}",
        fontsize=14,
    )
    return figure


def tell(table: pd.DataFrame) -> str:
    return "\n\n".join(part for data in table.data.unique() for part in _of_set(table[table.data == data], str(data)))


def _of_set(table: pd.DataFrame, data: str) -> list[str]:
    p25, p75 = (table[table.target == target].groupby(["method", "epsilon"]) for target in ("p25", "p75"))
    shares, medians = p25.c68.apply(share_below), p25.c68.apply(lambda part: quantile(part, 0.5))
    epsilons = sorted(table.epsilon.unique())
    theirs = [method for method in table.method.unique() if method in METHODS and method.endswith("corrected")]

    def where(one: str, other: str) -> str:
        return listed(epsilon for epsilon in epsilons if shares[one, epsilon] >= shares[other, epsilon])

    each = f"at epsilon = {', '.join(f'{epsilon:g}' for epsilon in epsilons)}"
    below = {
        method: ", ".join(f"{shares[method, epsilon]:.0%}" for epsilon in epsilons) for method in (REPLACED, ADDED)
    }
    most = ", ".join(f"{max(shares[method, epsilon] for method in theirs):.0%}" for epsilon in epsilons)
    best = [min(medians[method, epsilon] for method in theirs) for epsilon in epsilons]
    times = {
        method: " / ".join(f"{one / medians[method, epsilon]:.1f}" for one, epsilon in zip(best, epsilons, strict=True))
        for method in (REPLACED, ADDED)
    }
    narrow = [medians[EXP, epsilon] / medians[NARROW, epsilon] for epsilon in epsilons]
    apart = (p75.c68.apply(share_below) - shares).abs().max()
    return [
        f"*{NAMES[data][0].upper()}{NAMES[data][1:]}* ({table.tract.nunique()} of {table.n.min()} to {table.n.max()} "
        f"people). One record replaced: with dpspark {below[REPLACED]} of the tracts have a privacy error of p25 below the "
        f"standard error {each}; with the best of the corrected mechanisms of the paper, chosen afterwards at each "
        f"epsilon, {most}. The median error of that best one is {times[REPLACED]} times dpspark's. One record added or "
        f"removed: with dpspark {below[ADDED]}, {times[ADDED]} times.",
        f"{TERMS} There DPExpTheilSen has {1 / max(narrow):.2f} to {1 / min(narrow):.2f} times its median error. dpspark "
        f"is told to expect {EXPECTED} people in a tract, and nothing of x.",
        f"The claim, at half of epsilon for each value: DPExpTheilSen has at least as many tracts below the standard error "
        f"as noise infusion at {where(EXP, INFUSED_HALF)}; {REPLACED} at {where(REPLACED, INFUSED_HALF)}. As printed each "
        f"value has the whole epsilon, so that the two together spend twice what is stated. With p75 shares are at most "
        f"{100 * apart:.0f} percentage points from those of p25.",
        *_descent(medians, epsilons),
        "Share of tracts below one standard error; medians of C(0.68) and C(0.95) of p25 in standard errors:",
        _table(table, shares, medians),
    ]


def _descent(medians: pd.Series, epsilons: list[float]) -> list[str]:
    """What the zCDP of gradient descent is worth."""
    printed = "DPGradDescent, as printed"
    if printed not in medians.index.get_level_values("method"):
        return []
    epsilon = epsilons[0]
    worth = zcdp_epsilon(epsilon**2 / 2, DELTA)
    return [
        f"DPGradDescent has a median C(0.68) of {shown(medians[printed, epsilon])} at epsilon = {epsilon:g} as printed, "
        f"and of {shown(medians['DPGradDescent, corrected', epsilon])} corrected: what the code calls epsilon is "
        f"epsilon²/2-zCDP, which with delta = {DELTA:g} promises an epsilon of {worth:.1f}."
    ]


def listed(epsilons: Iterable[float]) -> str:
    found = [f"{epsilon:g}" for epsilon in epsilons]
    return f"epsilon = {', '.join(found)}" if found else "no epsilon"


def _table(table: pd.DataFrame, shares: pd.Series, medians: pd.Series) -> str:
    epsilons = sorted(table.epsilon.unique())
    p25 = table[table.target == "p25"].groupby(["method", "epsilon"])
    tails = p25.c95.apply(lambda part: quantile(part, 0.5))
    lines = ["| method | relation | " + " | ".join(f"epsilon = {epsilon:g}" for epsilon in epsilons) + " |"]
    lines.append("|---|---|" + "---|" * len(epsilons))
    for method in table.method.unique():
        each = ((shares[method, e], medians[method, e], tails[method, e]) for e in epsilons)
        cells = " | ".join(f"{share:.0%}; {shown(middle)}; {shown(tail)}" for share, middle, tail in each)
        kind = relation(method) if method in METHODS else "not private"
        lines.append(f"| {method} | {kind} | {cells} |")
    return "\n".join(lines)
