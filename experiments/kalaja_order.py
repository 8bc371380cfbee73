"""Kalaja, figure 4.5: scaling before or after the cross-validation split.

As printed: standardised columns over the largest norm, by statistics of all rows (Wang's order) or of the train rows, which
the analyst gets as they are; AdaSSP with the thesis's noise. Corrected: public bounds, the same before and after, with the same
AdaSSP; dpspark's default, and with rows and y capped together. epsilon = 0.1 to 3, delta = 1e-6; 10 folds, 12 draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.kalaja import CAPPED, DEFAULT, FOUR, PAPER, Method, Printed, Public
from experiments.kalaja_runs import about_data, cells_of, figure_of, measure_methods, verdict

if TYPE_CHECKING:
    import pandas as pd

BEFORE, AFTER = "scaled before the split (printed)", "scaled after it (printed)"
FIXED = "AdaSSP, public bounds, cap with y"
METHODS: dict[str, Method] = {
    BEFORE: Printed("max", before=True),
    AFTER: Printed("max"),
    DEFAULT: Public(),
    FIXED: Public("adassp", "kalaja", "cap", True),
    CAPPED: Public("gram_ridge", None, "cap", True),
}


def cells(setting: Setting) -> list[Cell]:
    return cells_of(setting, FOUR)


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    return measure_methods(cell, METHODS, random)


def plots(table: pd.DataFrame) -> dict[str, Any]:
    looks = {name: index for index, name in enumerate(METHODS)}
    return {"": figure_of(table, looks, "Scaled before or after the split")}


def findings(table: pd.DataFrame) -> str:
    wide = table.pivot(index=["set", "epsilon"], columns="method", values="median")
    order = wide[AFTER] / wide[BEFORE]
    return (
        f"{about_data(table)} The median error with statistics of the train rows is {order.min():.2f} to "
        f"{order.max():.2f} times that with statistics of all rows. Both orders are not private: the analyst is "
        "given means, deviations, the longest row and the largest y. With public bounds there is no order to "
        f"choose: a row is scaled without looking at any other. Against the printed method after the split, geometric "
        f"means over sets: AdaSSP with rows and y capped together has {verdict(table, FIXED, AFTER)} its error, dpspark's "
        f"default {verdict(table, DEFAULT, AFTER)}, and with rows and y capped together {verdict(table, CAPPED, AFTER)}."
    )


EXPERIMENT = Experiment(
    name="kalaja-order",
    paper=PAPER,
    figures="figure 4.5",
    title="Scaling before or after the split",
    claim="""If the analyst is given the train rows' statistics, results are almost the same as if all rows had been scaled
    together before the split.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
