"""Sheffet, figure 1: the error of six estimators of one regression against n, with m redundant regressors.

Parameters of the paper: p = 20, 40 columns, epsilon = 0.1, n = 2^12 to 2^27, m = 0, 1, 5, 10, 20 (there are 19 other y: 20 is
all of them); ‖β̃ − β‖/‖β‖. Ours: see sheffet.py; 100 tables and draws for each n. AᵀA of n normal rows is drawn from its
Wishart law; sheffet-spark does the same with real rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.evaluation.experiment import Cell, Experiment, Row, Setting
from dpspark.evaluation.noise import ExperimentNoise
from dpspark.evaluation.releases import Releases
from dpspark.evaluation.sheffet import (
    BOUNDS,
    CONF,
    DELTA,
    EPSILON,
    EXACT_ONLY,
    EXTRA,
    PAPER,
    SIX,
    SQUARED_NORM,
    WIDTH,
    dpspark_errors,
    draw_betas,
    draw_gram,
    error,
    paper_matrices,
    solve,
    summary,
    to_scaled,
)
from dpspark.evaluation.style import PALETTE, TRUTH, curve, label, panels
from dpspark.privacy.budget import gaussian_delta

if TYPE_CHECKING:
    import pandas as pd

DPSPARK, PLAIN = "dpspark", "least squares, not private"
LOOKS = dict(zip((*SIX[:2], DPSPARK, *SIX[2:], EXACT_ONLY), range(len(PALETTE)), strict=True))
SHOWN = (14, 18, 22, 25)  # of log2 n, in the table of the findings


def cells(setting: Setting) -> list[Cell]:
    sizes = range(12, 28) if not setting.quick else (14, 18, 22, 25, 27)
    return [{"log2_rows": size, "trials": setting.trials(100, 12)} for size in sizes]


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    rows, noise = 2 ** cell["log2_rows"], ExperimentNoise(random)
    errors: dict[tuple[str, str, int], list[float]] = {}
    for _ in range(cell["trials"]):
        betas = draw_betas(random)
        gram = draw_gram(betas, rows, random)
        for constants in ("paper", "exact"):
            for name, matrix in paper_matrices(gram, rows, constants, noise).items():
                for extra in EXTRA:
                    errors.setdefault((constants, name, extra), []).append(error(solve(matrix, extra), betas, extra))
        for extra, found in dpspark_errors(Releases(to_scaled(gram, rows), CONF), betas, noise).items():
            errors.setdefault(("", DPSPARK, extra), []).append(found)
            errors.setdefault(("", PLAIN, extra), []).append(error(solve(gram, extra), betas, extra))
    return [
        {"constants": constants, "estimator": name, "extra": extra, **summary(found)}
        for (constants, name, extra), found in errors.items()
    ]


def plots(table: pd.DataFrame) -> dict[str, Any]:
    return {constants: _figure(table, constants) for constants in ("paper", "exact")}


def _figure(table: pd.DataFrame, constants: str) -> Any:
    figure, axes = panels(6, wide=3, size=(4.8, 4.2))
    for at, extra in zip(axes, EXTRA, strict=False):
        shown = table[table.extra == extra]
        for name, index in LOOKS.items():
            line = shown[(shown.estimator == name) & shown.constants.isin([constants, ""])].sort_values("log2_rows")
            if len(line):
                curve(at, line.log2_rows, line["median"], line.low, line.high, index, name)
        line = shown[shown.estimator == PLAIN].sort_values("log2_rows")
        at.plot(line.log2_rows, line["median"], color=TRUTH, lw=1.5, ls="-", label=PLAIN)
        at.set_yscale("log")
        at.set_ylim(4e-5, 12)
        label(at, f"m = {extra}", "rows n, as a power of 2", "relative error of β", legend=False)
    for extra, index in zip(EXTRA, (0, 1, 3, 4, 5), strict=True):
        gain = _gain(table, constants, extra)
        axes[5].plot(gain.index, gain, label=f"m = {extra}", color=PALETTE[index], marker="o", lw=2)
    axes[5].axhline(1, color=TRUTH, lw=1)
    label(axes[5], "Best of the paper's, over dpspark", "rows n, as a power of 2", "ratio of errors")
    for at in axes:
        at.set_xticks(range(12, 28, 3))
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5, fontsize=11)
    what = "the paper's constants" if constants == "paper" else "exact constants"
    figure.suptitle(f"Six estimators with {what}: median and quartiles; epsilon = {EPSILON:g}", fontsize=14)
    return figure


def _best(table: pd.DataFrame, constants: str, extra: int) -> pd.DataFrame:
    """The estimator with the least median at each n."""
    shown = table[(table.extra == extra) & (table.constants == constants)]
    return shown.loc[shown.groupby("log2_rows")["median"].idxmin()].set_index("log2_rows")


def _gain(table: pd.DataFrame, constants: str, extra: int) -> pd.Series:
    ours = table[(table.extra == extra) & (table.estimator == DPSPARK)].set_index("log2_rows")["median"]
    return (_best(table, constants, extra)["median"] / ours).sort_index()


def findings(table: pd.DataFrame) -> str:
    return "\n\n".join([_numbers(table), _paper_claims(table), _why(table)])


def _numbers(table: pd.DataFrame) -> str:
    lines = [
        "| m | n | best of six, paper's constants | best, exact constants | dpspark | not private |",
        "|---|" + "---|" * 5,
    ]
    ours = table[table.constants == ""].set_index(["estimator", "extra", "log2_rows"])["median"]
    for extra in EXTRA:
        paper, exact = (_best(table, constants, extra) for constants in ("paper", "exact"))
        for size in (size for size in SHOWN if size in paper.index):
            both = [f"{best['median'][size]:.2g} ({best.estimator[size]})" for best in (paper, exact)]
            plain = [f"{ours[name, extra, size]:.2g}" for name in (DPSPARK, PLAIN)]
            lines.append(f"| {extra} | 2^{size} | {' | '.join([*both, *plain])} |")
    return "Medians of the relative error; a β of zeros has 1.\n\n" + "\n".join(lines)


def _paper_claims(table: pd.DataFrame) -> str:
    simple = _best(table, "paper", 0).sort_index()
    losing = [size for size in simple.index if simple.estimator[size] not in SIX[:2]]
    since = [size for size in simple.index if not losing or size > max(losing)]
    m0 = f"from n = 2^{since[0]} on, as the paper says for large n" if since else "at no n, against the paper"
    few = table[(table.constants == "paper") & (table.extra > 0) & (table.log2_rows < 22)]
    wide = few.pivot(index=["extra", "log2_rows"], columns="estimator", values="median")
    beaten = int((wide[["JL", "Wishart, scaled"]].min(axis=1) < wide["Analyze Gauss, scaled"]).sum())
    told = "This is the paper's finding." if beaten > len(wide) / 2 else "We do not see the paper's finding."
    return (
        f"With m = 0 Analyze Gauss, scaled or not, is the best of the six {m0}. The paper has scaled Analyze Gauss "
        "behind JL and scaled Wishart for all m > 0 and n below 2^22: here one of them has the smaller median in "
        f"{beaten} of {len(wide)} such settings. {told} It gives no delta, no B and no number of columns with "
        f"noise; ours are {DELTA:g}, B² = {SQUARED_NORM:g} and {WIDTH}."
    )


def _why(table: pd.DataFrame) -> str:
    sizes = [size for size in sorted(table.log2_rows.unique()) if size >= 18]
    constants = [float(_gain(table, "paper", m)[n] / _gain(table, "exact", m)[n]) for m in EXTRA for n in sizes]
    whole = [float(_gain(table, "paper", m)[n]) for m in EXTRA for n in sizes]
    ours = table[table.estimator == DPSPARK]
    useless = sorted(ours[ours["median"] > 1].log2_rows.unique())
    few = (
        f" At n = {', '.join(f'2^{n}' for n in useless)} its median error is above 1 for some m: no use."
        if useless
        else ""
    )
    printed = gaussian_delta((EPSILON / (2 * np.log(2 / DELTA))) ** 0.5, EPSILON)
    return (
        f"From n = 2^{sizes[0]} on, exact constants alone divide the least error by {min(constants):.1f} to "
        f"{max(constants):.1f}; the best of the paper's has {min(whole):.1f} to {max(whole):.1f} times the error of dpspark."
        f" The rest of that is bounds: x within ±{BOUNDS['x0']:g} and y within ±{BOUNDS['y0']:g}, which an analyst who knows "
        "that x is standardised and y some three times as wide could set without the data, put all columns on one scale, so "
        "that a row's norm is not all y. dpspark is least squares where its matrix says that it is identified and `repair: "
        f"ridge` where not; it draws for a 41st column, the intercept, too.{few} The variance of Analyze Gauss is printed with "
        f"epsilon in place of epsilon²; so read, delta would be {printed:.1g}. Shown is epsilon². Inverse-Wishart sampling has "
        "its n + d degrees of freedom from an n that is taken for public."
    )


EXPERIMENT = Experiment(
    name="sheffet-figure1",
    paper=PAPER,
    figures="figure 1",
    title="Six private second-moment matrices",
    claim="""With m = 0 redundant regressors Analyze Gauss is best once n is large. With m > 0 it fails, often by factors.
    Scaled to be positive definite it does better, but worse than the Johnson-Lindenstrauss and inverse-Wishart estimators and
    than scaled Wishart noise for n < 2^22. All errors grow with m.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
