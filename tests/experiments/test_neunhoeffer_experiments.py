"""Neunhoeffer's notebook: its noise as printed and corrected, its regression, and a tiny run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpspark.core.records import Records
from dpspark.mechanisms.lines.plane import Plane
from dpspark.privacy.budget import Budget
from dpspark.privacy.keyed import KeyedRandom
from experiments import neunhoeffer_lines as lines
from experiments.experiment import Cell, Setting
from experiments.neunhoeffer_page import errors
from experiments.noise import ExperimentNoise
from experiments.page import draw_plots, section
from experiments.runner import run_experiment
from tests.lines import calibrate


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
def test_corrected_noise_spends_epsilon_on_the_longest_row_within_bounds(method: str) -> None:
    """Sum over entries of |change| over scale, at every corner. Kills: epsilon for each entry, centred sensitivities, and noise
    that no row needs."""
    inverse = np.triu(1 / lines.noise_scales(method, 1.0))
    corners = [np.abs([y, 1.0, x]) for y in (-25, 0, 30) for x in (-8, 0, 8)]
    assert max(z @ inverse @ z for z in corners) == pytest.approx(1)


def test_the_first_mechanism_corrected_by_hand() -> None:
    """900 + 30 + 240 + 1 + 8 + 64 = 1243. Kills: 2d times the squared norm, which spends a fifth of epsilon."""
    assert lines.noise_scales("first, corrected", 0.5) == pytest.approx(np.full((3, 3), 2486.0))


def test_printed_noise_does_not() -> None:
    """docs/corrections.md: rows far longer than 1. Kills: a correction of what was right."""
    assert lines.spent("first, as printed") > 100
    assert lines.spent("second, as printed") > 2


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_dpsparks_line_by_hand(epsilon: float) -> None:
    """Scores spread by 2 where a row is added: a kernel made for epsilon, told 5,000 rows. Kills: another epsilon, a replaced
    row, the private number of rows as a guess."""
    rows = lines.measure({"method": "dpspark", "epsilon": epsilon, "draws": 3}, np.random.default_rng(3))
    plane = Plane((-8.0, 8.0), (-25.0, 30.0))
    line = calibrate("huber", plane, Budget(epsilon), Records("added"), expected_rows=5000)
    assert line.kernel.exponent == pytest.approx(epsilon / 2)  # type: ignore[attr-defined]
    people, random = lines.rows(), np.random.default_rng(3)
    for row in rows:
        fit = line.kernel.fit(people["x"], people["y"], KeyedRandom(random.bytes(32)), "line")
        assert (row["intercept"], row["slope"]) == (fit.intercept, fit.slope)


class Unit(ExperimentNoise):
    """Noise of one scale, upwards, on every entry."""

    def discrete_laplace(self, scale: float, count: int) -> list[int]:
        return [round(scale)] * count


def test_dpsparks_matrix_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six entries of [-1, 1] each, one row added: 6/epsilon. In original units of x, where 8 is 1, x'x has 64·6/epsilon more.

    Kills: another epsilon, noise for each entry by itself, a replaced row."""
    monkeypatch.setattr(lines, "ExperimentNoise", Unit)
    (row,) = lines.measure({"method": "dpspark matrix", "epsilon": 2.0, "draws": 1}, np.random.default_rng(0))
    people = {name: np.clip(values, *lines.BOUNDS[name].values()) for name, values in lines.rows().items()}
    z = np.column_stack([np.ones(lines.ROWS), people["x"] / 8, (people["y"] - 2.5) / 27.5])
    moments = z.T @ z + 3.0
    slope = np.linalg.solve(moments[:2, :2], moments[:2, 2])[1] * 27.5 / 8
    assert row["slope"] == pytest.approx(slope, rel=1e-6)


def test_a_draw_without_an_answer_is_not_left_out() -> None:
    """Kills: a median of the draws that were answered."""
    table = pd.DataFrame({"slope": [3.0, 3.1, np.nan], "true_slope": 3.0, "true_se": 0.05})
    assert errors(table).to_numpy() == pytest.approx([0, 2, np.inf])


def test_end_to_end(tmp_path: Path) -> None:
    """Kills: numbers on the page that are not the table's, one epsilon for all, a method that is missing from a plot."""

    def cells(setting: Setting) -> list[Cell]:
        few = [cell for cell in lines.cells(setting) if cell["epsilon"] >= 1]
        return [{**cell, "draws": 3 if cell["method"] == "dpspark" else 9} for cell in few]

    small = replace(lines.EXPERIMENT, cells=cells)
    table = run_experiment(small, Setting(True), tmp_path, 1, lambda step: None)
    plots = draw_plots(small, table, tmp_path)
    assert all((tmp_path / name).stat().st_size > 10_000 for name in plots)
    text = " ".join(section(small, table, plots, "").split())
    assert not re.search(r"\bnan\b", text)
    robust = table[(table.method == "dpspark") & (table.epsilon == 1)]
    assert robust.slope.to_numpy() == pytest.approx(np.full(3, 3.0), abs=0.2)
    found = table.assign(error=errors(table)).groupby(["epsilon", "method"]).error
    medians = found.quantile(0.5, interpolation="higher")
    for epsilon in (1, 5):
        ratio = medians[epsilon, "second, corrected"] / medians[epsilon, "dpspark"]
        assert f"- epsilon = {epsilon}: first, corrected" in text
        assert f"second, corrected {ratio:.0f} times" in text or f"second, corrected {ratio:.1f} times" in text
    assert (
        f"| second, corrected | {medians[1, 'second, corrected']:.2g} | {medians[5, 'second, corrected']:.2g} |" in text
    )
    assert "told to expect 5,000 rows" in text
    names = [text.get_text() for text in lines.plots(table)["slopes"].axes[0].get_yticklabels()]
    assert sorted(names) == sorted(lines.METHODS)
