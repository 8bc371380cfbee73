"""Kalaja, figures 4.7 and 4.8: clipping before the rows are scaled, in the train rows alone or in the test rows too.

As printed: cut above, not below, at mean + c standard deviations of the train rows, c = 1, 1.3, 1.6, 2; then standardised, over
the largest norm, AdaSSP with the thesis's noise. Corrected: public bounds at the mean ± c standard deviations of the whole set,
which stand for an expert's, on both sides and for every row; with AdaSSP, rows and y capped together, and with dpspark's
default. epsilon = 0.1 to 3, delta = 1e-6; 10 folds, 12 draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.kalaja import CAPPED, DEFAULT, FOUR, PAPER, Method, Printed, Public, Table
from experiments.kalaja_runs import (
    about_data,
    cells_of,
    figure_of,
    measure_methods,
    ratio_lines,
    ratios,
    set_ratios,
    verdict,
)
from experiments.style import TRUTH, common_legend, curve, label, panels

if TYPE_CHECKING:
    import pandas as pd

CUTS = (1.0, 1.3, 1.6, 2.0)
NONE = "no clipping (printed)"


@dataclass(frozen=True)
class Around:
    """Bounds at the mean ± so many standard deviations; y keeps its own."""

    deviations: float

    def __call__(self, table: Table) -> np.ndarray:
        middle, half = table.x.mean(axis=0), self.deviations * table.x.std(axis=0)
        return np.vstack([np.column_stack([middle - half, middle + half]), table.bounds[-1:]])


def train_only(c: float) -> str:
    return f"train rows cut at {c:g} (printed)"


def test_too(c: float) -> str:
    return f"test rows too, at {c:g} (printed)"


def public(c: float) -> str:
    return f"AdaSSP, cap with y, public ±{c:g}"


def default(c: float) -> str:
    return f"{DEFAULT}, public ±{c:g}"


def capped(c: float) -> str:
    return f"{CAPPED}, public ±{c:g}"


KINDS = {
    "train rows cut (printed)": train_only,
    "test rows too (printed)": test_too,
    f"{DEFAULT}, public bounds": default,
    "AdaSSP, cap with y, public bounds": public,
    f"{CAPPED}, public bounds": capped,
}
METHODS: dict[str, Method] = {
    NONE: Printed("max"),
    **{train_only(c): Printed("max", clip=c) for c in CUTS},
    **{test_too(c): Printed("max", clip=c, clip_test=True) for c in CUTS},
    **{public(c): Public("adassp", "kalaja", "cap", True, bounds=Around(c)) for c in CUTS},
    **{default(c): Public(bounds=Around(c)) for c in CUTS},
    **{capped(c): Public("gram_ridge", None, "cap", True, bounds=Around(c)) for c in CUTS},
}


def cells(setting: Setting) -> list[Cell]:
    return cells_of(setting, FOUR)


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    return measure_methods(cell, METHODS, random)


def plots(table: pd.DataFrame) -> dict[str, Any]:
    shown = (NONE, train_only(1.3), default(1.3), test_too(1.3), public(1.3), capped(1.3))
    looks = {name: index for index, name in enumerate(shown)}
    return {"": figure_of(table, looks, "Clipping before scaling"), "c": _by_cut(table)}


def _by_cut(table: pd.DataFrame) -> Any:
    found, each = ratios(table, NONE), set_ratios(table, NONE).groupby("epsilon")
    low, high = each.quantile(0.25), each.quantile(0.75)
    figure, axes = panels(2)
    for at, epsilon in zip(axes, (found.index[0], found.index[-1]), strict=True):
        for index, (name, of) in enumerate(KINDS.items()):
            middle, least, most = ([one[of(c)][epsilon] for c in CUTS] for one in (found, low, high))
            curve(at, CUTS, middle, least, most, index, name)
        at.axhline(1, color=TRUTH, lw=1, ls=":", label="no clipping")
        at.set_ylim(bottom=0)
        label(at, f"epsilon = {epsilon:g}", "c, in standard deviations", "error, relative to no clipping", legend=False)
    common_legend(figure, axes[0])
    figure.suptitle("Where to clip: geometric mean of the sets; bands hold the middle half of them", fontsize=14)
    return figure


def findings(table: pd.DataFrame) -> str:
    found = ratios(table, NONE)
    last = found.index[-1]
    best = {name: CUTS[int(np.argmin([found[of(c)][last] for c in CUTS]))] for name, of in KINDS.items()}
    told = "; ".join(f"{name}, {c:g} ({found[KINDS[name](c)][last]:.2f})" for name, c in best.items())
    wide = table.pivot(index=["set", "epsilon"], columns="method", values="median")
    worse = sum(int((wide[test_too(c)] > wide[train_only(c)]).sum()) for c in CUTS)
    middle = CUTS[1]
    return (
        f"{about_data(table)} Geometric means over {table.set.nunique()} "
        f"sets.\n\n{ratio_lines(table, NONE, list(METHODS))}\n\nThe best c at epsilon = {last:g}: {told}. "
        f"Cutting the test rows too is worse than not in {worse} of {len(wide) * len(CUTS)} settings. At c = {middle:g} the "
        f"printed cut of the train rows has {verdict(table, train_only(middle), NONE)} the error of no clipping, dpspark's "
        f"default {verdict(table, default(middle), NONE)}, and with rows and y capped together "
        f"{verdict(table, capped(middle), NONE)}. A cut on one side bounds nothing, as a low value can still set the largest "
        "norm, and a cut at the data's mean and deviation is not private; public bounds clip every row alike, on both sides."
    )


EXPERIMENT = Experiment(
    name="kalaja-clipping",
    paper=PAPER,
    figures="figures 4.7 and 4.8",
    title="Clipping before scaling",
    claim="""Clipping the train rows helps on half of the sets as epsilon grows; the best c is between 1.3 and 1.6. Clipping the
    test rows too is much worse.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
