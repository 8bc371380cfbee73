"""The experiment on robust standard errors: quick, on generated rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from experiments.experiment import Setting
from experiments.real_errors import EXPERIMENT, Truth, coverage, measure, spec_of
from experiments.robust_designs import DESIGNS, population


def test_its_cells_measure_and_add_up(tmp_path: Path) -> None:
    cells = [{**cell, "runs": 4, "rows": 5000} for cell in EXPERIMENT.cells(Setting(quick=True))]
    assert {cell["design"] for cell in cells} == {name for name, design in DESIGNS.items() if not design.real}
    rows = [{**cells[0], **row} for row in measure(cells[0], np.random.default_rng(1))]
    found = coverage(pd.DataFrame(rows))
    assert list(found.term) == ["(intercept)", "x", "z"]
    assert found[["hc1", "classical", "robust"]].to_numpy().max() <= 1.0
    assert "| spread grows with x | x | 4 |" in EXPERIMENT.findings(pd.DataFrame(rows))
    assert EXPERIMENT.plots(pd.DataFrame(rows))


def test_the_truth_is_least_squares_on_all_people() -> None:
    """Kills: categories or bounds of the truth that are not those of the release."""
    name = "a rare, noisy category"
    people = population(name, None)
    truth = Truth.of(spec_of(name).domain, people, "y").at(-3.0, 3.0)
    x = np.column_stack([np.ones(len(people["x"])), people["x"], *(people["c"] == code for code in range(1, 5))])
    expected = np.linalg.lstsq(x.astype(float), np.clip(people["y"], -3, 3), rcond=None)[0]
    assert np.allclose(list(truth.values()), expected)
    assert list(truth) == ["(intercept)", "x", "c[b]", "c[c]", "c[d]", "c[rare]"]
