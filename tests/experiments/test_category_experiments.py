"""The experiments of categorical columns and of identification: quick, from cells to findings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments import real_categories, real_identification
from experiments.acs import SHARES, columns_of, people
from experiments.experiment import Setting, generator_of


def test_categories_from_cells_to_findings() -> None:
    """Kills: a truth that is not that of the rows; errors of another column; a table that counts refused draws as covered."""
    experiment = real_categories.EXPERIMENT
    cells = [cell for cell in experiment.cells(Setting(quick=True)) if cell.get("sample", 20_000) == 20_000]
    rows = [{**cell, **row} for cell in cells for row in experiment.measure(cell, generator_of(experiment, cell))]
    table = pd.DataFrame(rows)
    known, released = (table[table.method == m] for m in (real_categories.KNOWN, real_categories.RELEASED))
    assert known.answered.all()
    states = known.column == "state"
    assert known[states].square.mean() < 0.5 * released[released.column == "state"].square.mean()
    assert known.covered.mean() == pytest.approx(0.95, abs=0.08)
    assert released.covered.isna().all()
    text = experiment.findings(table)
    assert "NOT IDENTIFIED" in text
    assert "| 20,000 |" in text


def test_identification_from_cells_to_findings() -> None:
    experiment = real_identification.EXPERIMENT
    names = ("a rare category", "nearly collinear")
    cells = [cell for cell in experiment.cells(Setting(quick=True)) if cell["design"] in names]
    rows = [{**cell, **row} for cell in cells for row in experiment.measure(cell, generator_of(experiment, cell))]
    table = pd.DataFrame(rows)
    assert (table[table.target == 100].answered == 1).all()
    assert table[table.target == 2].answered.between(0.05, 0.95).all()
    assert "a rare category" in experiment.findings(table)


def test_every_design_is_that_of_rows() -> None:
    """Kills: a block whose categories are not all of the rows, a number beyond its bounds."""
    for name in real_identification.DESIGNS:
        domain, moments = real_identification.design(name)
        if domain.known is not None:
            np.testing.assert_allclose(domain.known.project(moments, 1.0), moments, atol=1e-12)
        assert np.diag(moments).max() <= 1 + 1e-12
    assert len(real_identification.DESIGNS) >= 10


def test_generated_people_have_every_category() -> None:
    found = people(None, 50_000, np.random.default_rng(1))
    for name, shares in SHARES.items():
        assert set(np.unique(found[name])) <= set(range(1, len(shares) + 1))
    columns = columns_of(("age", "sex"), {"sex": [1, 2]})
    assert columns == {"age": {"lower": 18, "upper": 95}, "sex": {"categories": [1, 2]}}
