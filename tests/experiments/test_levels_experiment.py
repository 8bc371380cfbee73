"""The experiment on levels, small: a row for each, with errors that fall from tracts to states."""

from __future__ import annotations

import pandas as pd

from experiments.experiment import Setting, generator_of
from experiments.real_levels import EXPERIMENT, NAMES, geography, measure


def test_a_row_for_each_level() -> None:
    """Kills: a truth of another level; a level that is left out. Seeded: one outcome."""
    (cell,) = EXPERIMENT.cells(Setting(quick=True))
    levels = geography(cell)
    levels.check()
    assert [len(levels.groups(name)) for name in NAMES] == [3, 6, 24]
    table = pd.DataFrame([{**cell, **row} for row in measure(cell, generator_of(EXPERIMENT, cell))])
    assert table.level.tolist() == ["tract", "county", "state"]
    assert (table["count"] == [24, 6, 3]).all()
    assert table.raw.is_monotonic_decreasing
    assert (table.held > 0.6).all()
    told = EXPERIMENT.findings(table)
    assert told.count("\n| 4 |") == 3
    assert {cell["epsilon"] for cell in EXPERIMENT.cells(Setting())} == {1.0, 2.0, 4.0}
