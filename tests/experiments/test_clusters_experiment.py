"""The experiment on errors by clusters, small: what it generates, and what it says."""

from __future__ import annotations

import numpy as np
import pandas as pd

from experiments.experiment import Setting, generator_of
from experiments.real_clusters import DESIGNS, EXPERIMENT, TRUTH, measure, rows_of


def test_rows_are_alike_within_clusters() -> None:
    """Kills: a design whose rows are independent. Residuals' correlation is 0.2: five deviations of 2000 clusters are 0.06."""
    columns, code = rows_of(2000, 40_000, True, np.random.default_rng(1))
    residual = columns["y"] - 1 - TRUTH["x"] * columns["x"] - TRUTH["z"] * columns["z"]
    sizes = np.bincount(code, minlength=2000)
    sums = np.bincount(code, residual, minlength=2000)
    pairs = (sums**2 - np.bincount(code, residual**2, minlength=2000)).sum() / (sizes * (sizes - 1)).sum()
    assert abs(pairs / residual.var() - 0.2) < 0.06
    assert sizes.max() > 3 * sizes.mean()


def test_quick_cells_say_what_they_found() -> None:
    """Seeded: one outcome. Errors by clusters are wider, so that they miss no more often than equal variances do."""
    (cell,) = EXPERIMENT.cells(Setting(quick=True))
    rows = [{**cell, **row} for row in measure(cell, generator_of(EXPERIMENT, cell))]
    assert [row["term"] for row in rows] == list(TRUTH)
    assert rows[0]["answered"] > 0.5
    assert rows[0]["cluster"] >= rows[0]["classical"]
    told = EXPERIMENT.findings(pd.DataFrame(rows))
    assert cell["design"] in told
    assert "equal variances cover" in told


def test_full_cells_have_every_design() -> None:
    assert {cell["design"] for cell in EXPERIMENT.cells(Setting())} == set(DESIGNS)
