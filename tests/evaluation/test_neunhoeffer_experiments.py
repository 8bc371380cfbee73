"""Neunhoeffer's notebook: its noise as printed and corrected, its regression, and a tiny run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpspark.evaluation import neunhoeffer_lines as lines
from dpspark.evaluation.experiment import Cell, Setting
from dpspark.evaluation.page import draw_plots, section
from dpspark.evaluation.runner import run_experiment


def test_the_rows_are_the_notebook_s() -> None:
    """Its printed regression: 2.0044 and 2.9943, standard errors 0.0100 and 0.0050. Kills: another variance of x or y."""
    intercept, slope, std_error = lines.ols(lines.cross_products(False))
    assert intercept == pytest.approx(2, abs=0.04)
    assert slope == pytest.approx(3, abs=0.02)
    assert std_error == pytest.approx(0.005, rel=0.03)


def test_ols_is_least_squares() -> None:
    people = lines.rows()
    slope, intercept = np.polyfit(people["x"], people["y"], 1)
    found = lines.ols(lines.cross_products(False))
    assert found[:2] == pytest.approx((intercept, slope))
    residuals = people["y"] - intercept - slope * people["x"]
    centred = people["x"] - people["x"].mean()
    assert found[2] == pytest.approx(np.sqrt(residuals @ residuals / 9998 / (centred @ centred)))


def test_scales_as_printed() -> None:
    """Of DᵀD: n·2d/(n·epsilon) for all entries; products of ranges, where the intercept's is 1."""
    assert (lines.noise_scales("first, as printed", 0.5) == 12).all()
    second = lines.noise_scales("second, as printed", 2.0)
    assert second[1, 1] == pytest.approx(0.5, rel=1e-3)
    assert second[0, 1] == pytest.approx(np.ptp(lines.rows()["y"]) / 2, rel=1e-3)
    assert second[0, 2] == pytest.approx(second[0, 1] * second[1, 2] * 2, rel=1e-3)


@pytest.mark.parametrize("method", ["first, corrected", "second, corrected"])
def test_corrected_noise_keeps_epsilon_for_every_row_within_bounds(method: str) -> None:
    """Sum over entries of |change| over scale, at every corner. Kills: epsilon for each entry, centred sensitivities."""
    inverse = np.triu(1 / lines.noise_scales(method, 1.0))
    corners = [np.abs([y, 1.0, x]) for y in (-25, 0, 30) for x in (-8, 0, 8)]
    assert max(z @ inverse @ z for z in corners) <= 1 + 1e-12


def test_printed_noise_does_not() -> None:
    """docs/corrections.md: rows far longer than 1. Kills: a correction of what was right."""
    assert lines.spent("first, as printed") > 100
    assert lines.spent("second, as printed") > 2


def test_end_to_end(tmp_path: Path) -> None:
    def cells(setting: Setting) -> list[Cell]:
        few = [cell for cell in lines.cells(setting) if cell["epsilon"] >= 1]
        return [{**cell, "draws": 3 if cell["method"] == "dpspark" else 8} for cell in few]

    small = replace(lines.EXPERIMENT, cells=cells)
    table = run_experiment(small, Setting(True), tmp_path, 1, lambda step: None)
    plots = draw_plots(small, table, tmp_path)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in plots)
    text = section(small, table, plots, "")
    assert "| dpspark |" in text
    assert "nan" not in text
    robust = table[(table.method == "dpspark") & (table.epsilon == 1)]
    assert robust.slope.to_numpy() == pytest.approx(np.full(3, 3.0), abs=0.2)
