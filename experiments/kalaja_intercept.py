"""Kalaja, figure 4.6: an intercept.

As printed: standardised columns over the largest norm, AdaSSP with the thesis's noise, without an intercept and with a column
of ones. The order is not stated: appended before the norm is taken, or after, where a row's squared norm is 2 and the noise
must double (so it does here; as printed it would not). Corrected: a conf, whose intercept is part of the row. Once with y of
mean 0, as the files have it, and once with half a standard deviation added to y: then there is something for an intercept to
do. epsilon = 0.1 to 3, delta = 1e-6; 10 folds, 12 draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpspark.privacy.budget import gaussian_delta
from experiments.experiment import Cell, Experiment, Row, Setting
from experiments.kalaja import CAPPED, DEFAULT, DELTA, FOUR, PAPER, Method, Printed, Public, unit_mechanism
from experiments.kalaja_runs import about_data, cells_of, figure_of, measure_methods, ratio_lines, verdict

if TYPE_CHECKING:
    import pandas as pd

WITHOUT, BEFORE, AFTER = "no intercept (printed)", "intercept inside the norm (printed)", "intercept beside it, B² = 2"
FIXED = "AdaSSP, public bounds, cap with y"
OFFSETS = (0.5, 0.0)  # of y, in its standard deviations
METHODS: dict[str, Method] = {
    WITHOUT: Printed("max"),
    BEFORE: Printed("max", intercept="ball"),
    DEFAULT: Public(),
    AFTER: Printed("max", intercept="after"),
    FIXED: Public("adassp", "kalaja", "cap", True),
    CAPPED: Public("gram_ridge", None, "cap", True),
}


def cells(setting: Setting) -> list[Cell]:
    return [{**cell, "offset": offset} for offset in OFFSETS for cell in cells_of(setting, FOUR)]


def measure(cell: Cell, random: np.random.Generator) -> list[Row]:
    return measure_methods(cell, METHODS, random)


def plots(table: pd.DataFrame) -> dict[str, Any]:
    looks = {name: index for index, name in enumerate(METHODS)}
    shown = table[table.offset == OFFSETS[0]]
    return {"": figure_of(shown, looks, f"An intercept, y with a mean of {OFFSETS[0]:g} sd")}


def reached_delta(epsilon: float) -> float:
    """Of the thesis's noise for B² = 1 where rows have B² = 2: two statistics move twice as far, one √2 times."""
    mechanism = unit_mechanism("kalaja", 3, 1.0, epsilon)
    each = mechanism.statistics.mu / np.sqrt(3)
    return gaussian_delta(float(each * np.sqrt(4 + 4 + 2)), epsilon)


def findings(table: pd.DataFrame) -> str:
    reached = reached_delta(1.0)
    kept = "private still, as the thesis's constants have that much to spare" if reached <= DELTA else "too much"
    parts = [f"{about_data(table)} Geometric means over {table.set.nunique()} sets."]
    parts += [_with_mean(table[table.offset == offset], offset) for offset in OFFSETS]
    parts.append(
        f"Appended after the mapping an intercept makes the squared norm 2; with noise for 1, delta at epsilon = 1 would be "
        f"{reached:.1g} where {DELTA:g} is promised: {kept}. A release of dpspark always has one, as part of the row that its "
        "noise is for."
    )
    return "\n\n".join(parts)


def _with_mean(table: pd.DataFrame, offset: float) -> str:
    return (
        f"y with a mean of {offset:g} standard deviations:\n\n{ratio_lines(table, WITHOUT, list(METHODS))}\n\n"
        f"Against the printed method without one, an intercept inside the norm has {verdict(table, BEFORE, WITHOUT)} the "
        f"error, dpspark's default {verdict(table, DEFAULT, WITHOUT)}, and with rows and y capped together "
        f"{verdict(table, CAPPED, WITHOUT)}."
    )


EXPERIMENT = Experiment(
    name="kalaja-intercept",
    paper=PAPER,
    figures="figure 4.6",
    title="An intercept",
    claim="""Wang left the intercept out, perhaps by accident. It matters with few columns, and less the more there are.""",
    cells=cells,
    measure=measure,
    plots=plots,
    findings=findings,
)
