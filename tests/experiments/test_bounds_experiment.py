"""The experiment of private bounds: its sums are those of the rows, and its errors those of least squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpspark.mechanisms.registry import BOUNDS
from experiments.experiment import Setting
from experiments.real_bounds import CAP, DEFAULT, EARLIER, EXPERIMENT, Sums, measure, root_mean_square, tell
from experiments.surveys import GENERATED, survey


def small(name: str) -> dict[str, np.ndarray]:
    return survey(name, 3000, np.random.default_rng(3), None)


@pytest.mark.parametrize("name", GENERATED)
def test_the_sums_are_those_of_the_clipped_rows(name: str) -> None:
    """Kills: a bound on the wrong side; errors of the clipped rows instead of the rows."""
    people = small(name)
    of = Sums(people)
    rows = np.column_stack([np.ones(3000), people["age"], people["educ"], np.clip(people["income"], 100.0, 5e4)])
    assert of.clipped(100.0, 5e4) == pytest.approx(rows.T @ rows)
    whole = np.linalg.lstsq(rows[:, :3], people["income"], rcond=None)[0]
    assert of.beta == pytest.approx(whole)


def test_every_method_is_measured_with_the_product_s_defaults() -> None:
    assert next(iter(BOUNDS)) == "rank"
    cells = EXPERIMENT.cells(Setting(quick=True))
    assert {DEFAULT, EARLIER, CAP} < {cell["method"] for cell in cells}
    assert all("headroom" not in cell and "share" not in cell for cell in cells)


def test_what_it_tells() -> None:
    """A row for each survey, with a number of each method: small, from the real flow. Seeded: one outcome."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for cell in EXPERIMENT.cells(Setting(quick=True)):
        if cell["data"] == "log-normal":
            rows += [{**cell, **row} for row in measure(cell, np.random.default_rng(5))]
    table = pd.DataFrame(rows)
    errors = root_mean_square(table)
    assert errors.loc[("log-normal", 5000, 40.0, DEFAULT)] < errors.loc[("log-normal", 5000, 40.0, CAP)]
    assert tell(table).count("\n| log-normal") == 1
