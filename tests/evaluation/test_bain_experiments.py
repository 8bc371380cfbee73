"""Bain et al.: their formulas as printed and corrected, and a tiny run of each experiment."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.evaluation import bain_noise, bain_pums, bain_sanity, bain_simulated, census
from dpspark.evaluation.bain import DELTA, EPSILON, PaperReleases, noise_std, paper_noise, sweep_fit, to_unit_box
from dpspark.evaluation.experiment import Cell, Experiment, Setting
from dpspark.evaluation.page import draw_plots, section
from dpspark.evaluation.runner import run_experiment
from dpspark.mechanisms.noisy import AdditiveNoise
from dpspark.regression.formula import parse_formula
from dpspark.regression.ols import Moments

BOUNDS = {"a": {"lower": -2, "upper": 6}, "b": {"lower": 0, "upper": 10}, "y": {"lower": -50, "upper": 50}}


def people(count: int = 500) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    a, b = random.uniform(-2, 6, count), random.uniform(0, 10, count)
    return {"a": a, "b": b, "y": 3 + 2 * a - b + random.normal(0, 2, count)}


def test_noise_as_printed_and_corrected() -> None:
    """Kills: a lost root over the logarithm, d for √d, an intercept that is forgotten. 475.7 = √(2 ln 81920)/0.01 by hand."""
    assert math.sqrt(2 * math.log(1.25 * 2**16)) / 0.01 == pytest.approx(475.7, abs=0.05)
    assert noise_std("as printed", 3, EPSILON, DELTA) == pytest.approx(475.7 * math.sqrt(3), rel=1e-4)
    assert noise_std("corrected", 3, EPSILON, DELTA) == pytest.approx(475.7 * 4, rel=1e-4)


def test_the_printed_noise_breaks_from_six_columns_on() -> None:
    """Kills: findings that say otherwise than docs/corrections.md, where five columns are the last."""
    assert bain_noise.kept_width() == 5


def test_noise_is_symmetric_with_one_scale() -> None:
    drawn = np.array([paper_noise(7.0, 3, np.random.default_rng(seed)) for seed in range(800)])
    assert (drawn == drawn.transpose(0, 2, 1)).all()
    assert drawn.std(axis=0) == pytest.approx(np.full((3, 3), 7.0), rel=0.1)


def test_unit_box_is_the_same_rows() -> None:
    """Kills: noise compared in coordinates that are not the paper's."""
    random = np.random.default_rng(1)
    centred = np.column_stack([np.ones(50), random.uniform(-1, 1, (50, 2))])
    unit = np.column_stack([np.ones(50), (centred[:, 1:] + 1) / 2])
    assert to_unit_box(centred.T @ centred) == pytest.approx(unit.T @ unit)


def test_without_noise_the_sweep_is_least_squares() -> None:
    """Kills: rows of the wrong regressors, df of n − k, coefficients left in scaled units."""
    rows = people()
    exact = PaperReleases(rows, BOUNDS).exact
    fit = sweep_fit(exact, parse_formula("y ~ a + b", exact.terms, {}))
    x = np.column_stack([np.ones(500), rows["a"], rows["b"]])
    beta, rss, *_ = np.linalg.lstsq(x, rows["y"], rcond=None)
    assert fit.estimates == pytest.approx(beta)
    assert fit.s2 == pytest.approx(rss[0] / (500 - 3))
    assert fit.std_errors == pytest.approx(np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * fit.s2))


def test_a_matrix_that_is_not_positive_still_answers() -> None:
    """As in the paper: negative eigenvalues become the least positive one. Kills: a repair that is not called."""
    exact = PaperReleases(people(), BOUNDS).exact
    values, vectors = np.linalg.eigh(exact.scaled)
    values[0] = -3.0
    broken = Moments(exact.terms, (vectors * values) @ vectors.T, exact.middle, exact.half, AdditiveNoise(1.0, 1.0))
    values[0] = values[1]
    repaired = Moments(exact.terms, (vectors * values) @ vectors.T, exact.middle, exact.half, AdditiveNoise(1.0, 1.0))
    formula = parse_formula("y ~ a + b", exact.terms, {})
    assert sweep_fit(broken, formula).estimates == pytest.approx(sweep_fit(repaired, formula).estimates)


def test_rows_outside_the_bounds_are_clipped() -> None:
    """Kills: a paper's method that sees more than dpspark does."""
    rows = people()
    rows["y"][0] = 1e9
    assert PaperReleases(rows, BOUNDS).exact.scaled.max() <= 500


def test_simulated_rows_are_those_of_section_3_1() -> None:
    """Kills: another set of rows for each C, Y that is not C·X1, bounds taken from the rows."""
    rows, bounds = bain_simulated.simulated(2_000, 0, 10)
    same, _ = bain_simulated.simulated(2_000, 0, 100)
    assert (rows["x1"] == same["x1"]).all()
    assert np.std(rows["y"] - 10 * rows["x1"]) == pytest.approx(1, abs=0.1)
    assert bounds == bain_simulated.simulated(500, 0, 10)[1]
    assert all(bound["lower"] < rows[name].min() <= rows[name].max() < bound["upper"] for name, bound in bounds.items())


@pytest.fixture
def few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {"age": np.arange(18, 96.0), "educ": np.arange(78.0) % 16 + 1}
    rows = {name: np.tile(column, 4000) for name, column in made.items()}
    rows["income"] = 200 * rows["age"] + 4000 * rows["educ"] + np.random.default_rng(0).normal(0, 9000, 78 * 4000)
    monkeypatch.setattr(census, "_generated", lambda: rows)


def tiny(experiment: Experiment, keep: Any, out: Path, data: Path | None = None) -> str:
    """Its page, of few trials of the cells to keep."""

    def cells(setting: Setting) -> list[Cell]:
        chosen = [cell for cell in experiment.cells(setting) if keep(cell)]
        return [{**cell, **{key: 6 for key in ("trials", "draws", "sets") if key in cell}} for cell in chosen]

    small = replace(experiment, cells=cells)
    table = run_experiment(small, Setting(True, data), out, 1, lambda step: None)
    plots = draw_plots(small, table, out)
    assert all((out / name).stat().st_size > 10_000 for name in plots)
    text = section(small, table, plots, "")
    assert "nan" not in text
    return text


@pytest.mark.usefixtures("few_people")
def test_sanity_end_to_end(tmp_path: Path) -> None:
    assert "times dpspark's" in tiny(bain_sanity.EXPERIMENT, lambda cell: True, tmp_path)


def test_noise_end_to_end(tmp_path: Path) -> None:
    assert "up to d = 5" in tiny(bain_noise.EXPERIMENT, lambda cell: True, tmp_path)


def test_simulated_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bain_simulated, "MANY_ROWS", 200_000)
    assert "NOT IDENTIFIED" in tiny(bain_simulated.EXPERIMENT, lambda cell: cell["C"] < 100, tmp_path)


@pytest.mark.usefixtures("few_people")
def test_census_end_to_end_with_a_file(tmp_path: Path) -> None:
    """Kills: a file that is not read, and a table that leaves one of the sets of rows out."""
    random = np.random.default_rng(0)
    age, educ = random.integers(18, 90, 3000), random.integers(1, 17, 3000)
    columns = {"age": age, "educ": educ, "income": 300.0 * age + 2000 * educ}
    pq.write_table(pa.table(columns), tmp_path / "pums_ca_10000.parquet")
    text = tiny(bain_pums.EXPERIMENT, lambda cell: True, tmp_path, tmp_path)
    assert "| generated microdata, n = 312,000 |" in text
    assert "| California PUMS, a sample, n = 3,000 |" in text
    assert "| without noise | educ |" in text
