"""What the page says of tracts: errors in standard errors, and the share of tracts where they are below one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dpspark.evaluation.alabi import DEFAULT, DELTA, METHODS, PUBLIC, quantile, shown
from dpspark.evaluation.style import TRUTH, common_legend, curve, label, log_axis, panels
from dpspark.privacy.budget import zcdp_epsilon

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

INFUSED, INFUSED_HALF = "noise infusion, as printed", "noise infusion, halved"
EXP, EXP_PRINTED = "DPExpTheilSen, corrected", "DPExpTheilSen, as printed"
# In the order of `look`: printed, corrected, dpspark, others.
SHOWN = (
    EXP_PRINTED,
    EXP,
    DEFAULT,
    "DPSuffStats, corrected",
    "DPGradDescent, corrected",
    PUBLIC,
    INFUSED_HALF,
    "DPSSTheilSen, corrected",
)
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
            curve(at, epsilons, middle, low, high, index, method)
        _one_line(at, epsilons)
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
    figure.suptitle(f"{tracts} {name}: median and quartiles (above), share ± its standard error (below)", fontsize=14)
    return figure


def _one_line(axes: Any, epsilons: list[float]) -> None:
    axes.axhline(1.0, color=TRUTH, lw=1.5, ls="--", label="one standard error")
    log_axis(axes, "x", epsilons)
    axes.set_yscale("log")


def tell(table: pd.DataFrame) -> str:
    return "\n\n".join(part for data in table.data.unique() for part in _of_set(table[table.data == data], str(data)))


def _of_set(table: pd.DataFrame, data: str) -> list[str]:
    p25, p75 = (table[table.target == target].groupby(["method", "epsilon"]) for target in ("p25", "p75"))
    shares, medians = p25.c68.apply(share_below), p25.c68.apply(lambda part: quantile(part, 0.5))
    epsilons = sorted(table.epsilon.unique())
    theirs = [method for method in table.method.unique() if method in METHODS and method.endswith("corrected")]

    def where(one: str, other: str) -> str:
        return listed(epsilon for epsilon in epsilons if shares[one, epsilon] >= shares[other, epsilon])

    fewer = [min(medians[method, epsilon] for method in theirs) / medians[DEFAULT, epsilon] for epsilon in epsilons]
    fair = [min(medians[method, epsilon] for method in theirs) / medians[PUBLIC, epsilon] for epsilon in epsilons]
    below = ", ".join(f"{shares[DEFAULT, epsilon]:.0%}" for epsilon in epsilons)
    least = ", ".join(f"{max(shares[method, epsilon] for method in theirs):.0%}" for epsilon in epsilons)
    text = [
        f"*{NAMES[data][0].upper()}{NAMES[data][1:]}* ({table.tract.nunique()} of {table.n.min()} to {table.n.max()} "
        f"people). With dpspark's default {below} of the tracts have a privacy error of p25 below the standard error at "
        f"epsilon = {', '.join(f'{epsilon:g}' for epsilon in epsilons)}; with the best of the corrected mechanisms of the "
        f"paper, chosen afterwards at each epsilon, {least}. The median error of that best one is "
        f"{' / '.join(f'{ratio:.1f}' for ratio in fewer)} times dpspark's, and "
        f"{' / '.join(f'{ratio:.1f}' for ratio in fair)} times where dpspark too may take n as public.",
        f"The claim, at half of epsilon for each value: DPExpTheilSen has at least as many tracts below the standard error as "
        f"noise infusion at {where(EXP, INFUSED_HALF)}; dpspark at {where(DEFAULT, INFUSED_HALF)}. As printed each value has "
        f"the whole epsilon, so that the two together spend twice what is stated. With p75 shares are at most "
        f"{100 * (p75.c68.apply(share_below) - shares).abs().max():.0f} percentage points from those of p25.",
        "Share of tracts below one standard error; medians of C(0.68) and C(0.95) of p25 in standard errors:",
        _table(table, shares, medians),
    ]
    return [*text[:2], _descent(medians, epsilons), *text[2:]] if _descent(medians, epsilons) else text


def _descent(medians: pd.Series, epsilons: list[float]) -> str:
    """What the zCDP of gradient descent is worth."""
    printed = "DPGradDescent, as printed"
    if printed not in medians.index.get_level_values("method"):
        return ""
    epsilon = epsilons[0]
    worth = zcdp_epsilon(epsilon**2 / 2, DELTA)
    return (
        f"DPGradDescent has a median C(0.68) of {shown(medians[printed, epsilon])} at epsilon = {epsilon:g} as printed, and of "
        f"{shown(medians['DPGradDescent, corrected', epsilon])} corrected: what the code calls epsilon is epsilon²/2-zCDP, "
        f"which with delta = {DELTA:g} promises an epsilon of {worth:.1f}."
    )


def listed(epsilons: Iterable[float]) -> str:
    found = [f"{epsilon:g}" for epsilon in epsilons]
    return f"epsilon = {', '.join(found)}" if found else "no epsilon"


def _table(table: pd.DataFrame, shares: pd.Series, medians: pd.Series) -> str:
    epsilons = sorted(table.epsilon.unique())
    p25 = table[table.target == "p25"].groupby(["method", "epsilon"])
    tails = p25.c95.apply(lambda part: quantile(part, 0.5))
    lines = ["| method | " + " | ".join(f"epsilon = {epsilon:g}" for epsilon in epsilons) + " |"]
    lines.append("|---|" + "---|" * len(epsilons))
    for method in table.method.unique():
        each = ((shares[method, e], medians[method, e], tails[method, e]) for e in epsilons)
        cells = " | ".join(f"{share:.0%}; {shown(middle)}; {shown(tail)}" for share, middle, tail in each)
        lines.append(f"| {method} | {cells} |")
    return "\n".join(lines)
