"""Kalaja, figures 4.3 and 4.4: how rows are mapped into a ball.

As printed (not private: means, deviations and largest values are the data's): standardised columns over each row's norm
(Wang), over the largest norm (one long row then shortens all the others), or each row and its y over its norm; no intercept.
Corrected: public bounds and row_norm project, none (the box), cap, or cap with the response. All with AdaSSP and the thesis's
noise; then dpspark's default, gram_ridge on the box, and gram_ridge on the last. epsilon = 0.1 to 3, delta = 1e-6; 10 folds,
12 draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.kalaja import CAPPED, DEFAULT, FOUR, PAPER, Method, Printed, Public
from experiments.kalaja_runs import (
    NOT_PRIVATE,
    THESIS_RIDGE,
    about_data,
    cells_of,
    figure_of,
    measure_methods,
    ratio_lines,
    verdict,
)

if TYPE_CHECKING:
    import pandas as pd

ROW, LARGEST, WITH_Y = "row norms (printed)", "largest norm (printed)", "row norms, y too (printed)"
PROJECT, BOX, CAP, BOTH = "AdaSSP, project", "AdaSSP, box", "AdaSSP, cap", "AdaSSP, cap with y"  # public bounds
METHODS: dict[str, Method] = {
    ROW: Printed("row"),
    PROJECT: Public("adassp", "kalaja", "project", False),
    DEFAULT: Public(),
    LARGEST: Printed("max"),
    WITH_Y: Printed("row", with_y=True),
    BOX: Public("adassp", "kalaja", None),
    CAPPED: Public("gram_ridge", None, "cap", True),
    BOTH: Public("adassp", "kalaja", "cap", True),
    CAP: Public("adassp", "kalaja", "cap", False),
}


def cells(setting: Setting) -> list[Cell]:
    return cells_of(setting, FOUR)


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    return measure_methods(cell, METHODS, random, ridge_of=ROW)


def plots(table: pd.DataFrame) -> dict[str, Any]:
    looks = {name: index for index, name in enumerate(METHODS) if name != CAP}  # as good as equal to the one with y
    return {"": figure_of(table, looks, "AdaSSP by mapping, and dpspark", 5, (NOT_PRIVATE, THESIS_RIDGE))}


def findings(table: pd.DataFrame) -> str:
    wide = table.pivot(index=["set", "epsilon"], columns="method", values="median")
    wins = int((wide[ROW] < wide[LARGEST]).sum())
    return (
        f"{about_data(table)} Geometric means over {table.set.nunique()} sets.\n\n"
        f"{ratio_lines(table, ROW, [*METHODS, NOT_PRIVATE, THESIS_RIDGE])}\n\n"
        f"Row norms beat the largest norm in {wins} of {len(wide)} settings. The printed mappings spend nothing on means, "
        "deviations and largest values, and hand them out; all the others have public bounds. Against "
        f"the printed row norms: AdaSSP with a projected row has {verdict(table, PROJECT, ROW)} the error, with the box "
        f"{verdict(table, BOX, ROW)}. dpspark's default, a ridge known in advance on the box, has "
        f"{verdict(table, DEFAULT, ROW)}; the same mechanism with rows and y capped together {verdict(table, CAPPED, ROW)}."
    )


EXPERIMENT = Experiment(
    name="kalaja-mapping",
    paper=PAPER,
    figures="figures 4.3 and 4.4",
    title="Mapping rows into a ball",
    claim="""No mapping is always best. Row norms give better predictions than the largest norm on these sets, more so with many
    columns, but are hard to interpret; dividing y too has mixed results.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
