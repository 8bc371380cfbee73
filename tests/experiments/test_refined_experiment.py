"""The rows that refined is measured on."""

from __future__ import annotations

import numpy as np
import pytest

from dpspark.core.domain import Domain, Numeric
from dpspark.exact.residuals import Residual
from experiments.experiment import Setting
from experiments.real_refined import cells, measure
from experiments.refined_rows import LAWS, invented, repeated_set
from experiments.rows import ArrayRows


def test_repeated_rows_are_those_rows() -> None:
    """Kills: a remainder that is left out, or counted as often as whole repetitions."""
    rng = np.random.default_rng(1)
    columns = tuple(rng.uniform(-1, 1, 50) for _ in range(3))
    domain = Domain(tuple(Numeric(name, -1, 1) for name in "aby"), response="y")
    residual = Residual.of(domain, np.array([0.1, 0.2, -0.3]))
    short = ArrayRows(columns, 180)
    long = ArrayRows(tuple(np.tile(column, 4)[:180] for column in columns), 180)
    assert short.gram(domain).reveal() == long.gram(domain).reveal()
    for rows in (short, long):
        assert rows.residual_histograms(domain, {"r": residual}).reveal("r")[1].sum() == 180
    assert short.residual_sums(domain, residual, 0.4).reveal() == long.residual_sums(domain, residual, 0.4).reveal()


def test_sets_have_no_collinear_columns() -> None:
    data = repeated_set("airfoil", None, 10_000)
    regressors = np.column_stack(data.rows.columns[:-1])
    assert np.linalg.eigvalsh(np.corrcoef(regressors.T))[0] > 0.01
    mechanism = data.mechanism("gram_ridge", 1.0, 1e-6)
    exact = data.rows.gram(mechanism.domain).reveal()
    assert exact[0] / mechanism.domain.steps_per_row == data.squares[0, 0] == 10_000


@pytest.mark.parametrize("law", LAWS)
def test_invented_rows_have_their_truth(law: str) -> None:
    """Within 6 standard errors of least squares. Kills: errors whose mean is not 0, or a response that its bounds cut off."""
    _, rows, truth = invented(law, 200_000, np.random.default_rng(2))
    x = np.column_stack([np.ones(200_000), *rows.columns[:-1]])
    y = np.clip(rows.columns[-1], -1, 1)
    beta = np.linalg.lstsq(x, y, rcond=None)[0]
    error = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * np.var(y - x @ beta))
    assert np.abs((beta - truth) / error).max() < 6


def test_quick_cells_are_measured() -> None:
    for cell in cells(Setting(quick=True)):
        found = measure({**cell, "draws": 2}, np.random.default_rng(3))
        assert all(0 <= row["answered"] <= 1 for row in found)
