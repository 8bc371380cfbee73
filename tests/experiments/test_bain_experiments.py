"""Bain et al.: their formulas as printed and corrected, and a tiny run of each experiment."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpspark.analysis.ols import Moments
from dpspark.core.formula import parse_formula
from dpspark.mechanisms.gram.gaussian import GaussianGram
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from experiments import bain_noise, bain_pums, bain_sanity, bain_simulated, census
from experiments.bain import (
    ANALYTIC,
    DELTA,
    EPSILON,
    PaperReleases,
    noise_std,
    paper_noise,
    sweep_fit,
    to_unit_box,
)
from experiments.bain_pums_page import errors
from experiments.experiment import Cell, Experiment, Setting
from experiments.page import section
from experiments.releases import Releases
from experiments.runner import run_experiment

BOUNDS = {"a": {"lower": -2, "upper": 6}, "b": {"lower": 0, "upper": 10}, "y": {"lower": -50, "upper": 50}}


def people(count: int = 500) -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    a, b = random.uniform(-2, 6, count), random.uniform(0, 10, count)
    return {"a": a, "b": b, "y": 3 + 2 * a - b + random.normal(0, 2, count)}


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Sensitivity over sigma, by hand: Balle & Wang (2018), Theorem 8."""

    def reached(mu: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))

    return float(brentq(lambda mu: reached(mu) - delta, 1e-5, 10, xtol=1e-14, rtol=1e-13))


def test_noise_as_printed_and_corrected() -> None:
    """Kills: a lost root over the logarithm, d for √d, an intercept that is forgotten, a sensitivity of d + 1.

    475.7 = √(2 ln 81920)/0.01 by hand; a row of four ones moves ten entries of the upper triangle by 1.
    """
    assert math.sqrt(2 * math.log(1.25 * 2**16)) / 0.01 == pytest.approx(475.7, abs=0.05)
    assert noise_std("as printed", 3, EPSILON, DELTA) == pytest.approx(475.7 * math.sqrt(3), rel=1e-4)
    assert noise_std("corrected", 3, EPSILON, DELTA) == pytest.approx(475.7 * math.sqrt(10), rel=1e-4)
    assert noise_std(ANALYTIC, 3, EPSILON, DELTA) == pytest.approx(math.sqrt(10) / gaussian_mu(0.01, 2**-16), rel=1e-4)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Releases]:
    """All of dpspark's releases that an experiment makes, as it makes them."""
    found: list[Releases] = []

    class Watched(Releases):
        def __init__(self, *given: Any):
            super().__init__(*given)
            found.append(self)

    for module in (bain_sanity, bain_noise, bain_simulated, bain_pums):
        monkeypatch.setattr(module, "Releases", Watched)
    return found


@pytest.mark.parametrize(
    ("experiment", "columns", "change"),
    [
        (bain_sanity.EXPERIMENT, 3, 4.0),  # four unit coordinates: the Frobenius norm of a row's products
        (bain_noise.EXPERIMENT, 3, 4.0),
        (bain_noise.EXPERIMENT, 10, math.sqrt(66)),  # eleven: the l2 norm of their upper triangle
        (bain_simulated.EXPERIMENT, 5, math.sqrt(21)),
        (bain_pums.EXPERIMENT, 3, 4.0),
    ],
)
@pytest.mark.usefixtures("few_people")
def test_dpspark_has_the_budget_of_the_paper(
    experiment: Experiment, columns: int, change: float, made: list[Releases]
) -> None:
    """Kills: dpspark at another epsilon or delta than the paper's rows, for other neighbours, or not its default."""
    few = {"trials": 1, "sets": 1, "draws": 1}
    for cell in experiment.cells(Setting(quick=True)):
        small = {key: few.get(key, value) for key, value in cell.items()}
        if small.get("method", "dpspark") == "dpspark" and small.get("columns", columns) == columns:
            experiment.measure({**small, "rows": 1000} if "rows" in small else small, np.random.default_rng(1))
            spec, mechanism, epsilon = made[-1].spec, made[-1].mechanism, small.get("epsilon", 0.01)
            assert (spec.privacy.epsilon, spec.privacy.delta) == (epsilon, 2**-16)
            assert (spec.privacy.neighbours, spec.records.rows, spec.domain.row_norm) == ("add_remove", 1, None)
            assert isinstance(mechanism, GaussianGram)
            assert mechanism.sigma == pytest.approx(change / gaussian_mu(epsilon, 2**-16), rel=1e-4)
            assert mechanism.noise.diagonal_std == mechanism.sigma
    assert made


@pytest.mark.usefixtures("few_people")
def test_other_mechanisms_have_the_same_budget(made: list[Releases]) -> None:
    """Kills: another epsilon for one of dpspark's mechanisms; Laplace noise with a delta."""
    for method in bain_pums.MECHANISMS:
        cell = {"data": census.GENERATED, "epsilon": 0.1, "method": method, "trials": 1}
        bain_pums.measure(cell, np.random.default_rng(1))
        pure = method == "dpspark laplace"
        assert (made[-1].spec.privacy.epsilon, made[-1].spec.privacy.delta) == (0.1, None if pure else 2**-16)
        if isinstance(made[-1].mechanism, LaplaceGram):
            assert made[-1].mechanism.noise.off_diagonal_std == pytest.approx(math.sqrt(2) * 10 / 0.1, rel=1e-6)


def test_cells_have_noise_of_their_own(tmp_path: Path) -> None:
    """Kills: one generator for all cells; corrected noise would then be printed noise, √(10/3) times."""
    experiment = replace(bain_noise.EXPERIMENT, cells=lambda setting: _of_epsilon(setting, "as printed", "corrected"))
    table = run_experiment(experiment, Setting(quick=True), tmp_path, 1, lambda step: None)
    one = table[table.norm == "spectral"].pivot(index="epsilon", columns="method", values="median")
    assert (one["corrected"] / one["as printed"]).nunique() == len(one)
    assert (one["as printed"] * one.index).round(6).nunique() == len(one)
    assert (one["corrected"] / one["as printed"]).median() == pytest.approx(math.sqrt(10 / 3), rel=0.3)


def _of_epsilon(setting: Setting, *methods: str) -> list[Cell]:
    cells = bain_noise.cells(setting)
    return [{**c, "trials": 20} for c in cells if c["method"] in methods and c["figure"] == "epsilon"]


def test_errors_are_in_standard_errors_without_noise() -> None:
    """Kills: a method measured in its own standard errors, which dpspark's noise makes long; silence that counts as 0."""
    rows = {"age": [7.0, np.nan], "age_true": [1.0, 1.0], "age_se": [100.0, np.nan], "age_true_se": [2.0, 2.0]}
    assert errors(pd.DataFrame(rows), "age").tolist() == [3.0, np.inf]


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


def tiny(experiment: Experiment, keep: Any, out: Path, data: Path | None = None) -> tuple[pd.DataFrame, str]:
    """Its rows and its page, of few trials of the cells to keep; its plots are looked at."""

    def cells(setting: Setting) -> list[Cell]:
        chosen = [cell for cell in experiment.cells(setting) if keep(cell)]
        return [{**cell, **{key: 6 for key in ("trials", "draws", "sets") if key in cell}} for cell in chosen]

    small = replace(experiment, cells=cells)
    table = run_experiment(small, Setting(True, data), out, 1, lambda step: None)
    for figure in small.plots(table).values():
        look_at(figure)
    text = " ".join(section(small, table, ["a.png"], "").split())
    assert "nan" not in text
    return table, text


def look_at(figure: Any) -> None:
    """Every panel has labels and finite data in it, and somewhere there is a legend."""
    assert figure.legends or all(axes.get_legend() for axes in figure.axes)
    for axes in figure.axes:
        assert axes.get_title()
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        lines = [line for line in axes.get_lines() if line.get_marker() != "None" and len(line.get_xdata())]
        assert axes.patches or axes.containers or any(np.isfinite(np.asarray(x.get_ydata())).all() for x in lines)


def spectral(table: pd.DataFrame, method: str, epsilon: float) -> float:
    found = table[(table.figure == "epsilon") & (table.method == method) & (table.norm == "spectral")]
    return float(found[found.epsilon == epsilon]["mean"].iloc[0])


@pytest.mark.usefixtures("few_people")
def test_sanity_end_to_end(tmp_path: Path) -> None:
    """Kills: a ratio of the wrong methods or statistics."""
    table, text = tiny(bain_sanity.EXPERIMENT, lambda cell: True, tmp_path)
    stds = {
        (method, name): one.value.std() for (method, name), one in table.groupby(["method", "statistic"], sort=False)
    }
    times = [stds["corrected", name] / stds["dpspark", name] for name in bain_sanity.STATISTICS]
    assert f"The corrected ones are {times[0]:.1f} and {times[1]:.1f} times dpspark's." in text
    assert all(2 < value < 40 for value in times)


def test_noise_end_to_end(tmp_path: Path) -> None:
    """Kills: ratios at the wrong epsilon; lines that are not the table's medians; a measurement over n, where there is none."""
    table, text = tiny(bain_noise.EXPERIMENT, lambda cell: True, tmp_path)
    assert "up to d = 5" in text
    assert "n is no part of this by construction" in text
    assert "rows" not in table.columns
    ratios = [spectral(table, "corrected", e) / spectral(table, "dpspark", e) for e in (0.01, 1.0)]
    assert f"{ratios[0]:.1f} times dpspark's at epsilon = 0.01 and {ratios[1]:.1f} times at epsilon = 1" in text
    exact = [math.sqrt(2 * math.log(1.25 * 2**16)) / e * gaussian_mu(e, 2**-16) for e in (0.01, 1.0)]
    assert f"an exact calibration alone is {exact[0]:.1f} and {exact[1]:.1f} times of it" in text
    line = bain_noise.plots(table)[""].axes[0].get_lines()[1]
    shown = table[(table.method == "corrected") & (table.norm == "spectral") & (table.figure == "epsilon")]
    assert np.asarray(line.get_ydata()).tolist() == shown.sort_values("epsilon")["median"].tolist()


def test_simulated_end_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: answers that are not counted, or drawn where there are none; a curve of another method."""
    monkeypatch.setattr(bain_simulated, "MANY_ROWS", 200_000)
    table, text = tiny(bain_simulated.EXPERIMENT, lambda cell: cell["C"] < 100, tmp_path)
    few = table[(table.rows == bain_simulated.PAPER_ROWS) & (table.method == "dpspark")]
    assert f"dpspark answers {few.answered.mean():.0%} of the trials, and says NOT IDENTIFIED" in text
    first = bain_simulated.plots(table)[""].axes[0]
    notes = [note.get_text() for note in first.texts]
    assert notes == ["dpspark: answers 0%, not drawn"]
    printed = table[(table.rows == bain_simulated.PAPER_ROWS) & (table.method == "as printed")]
    drawn = next(line for line in first.get_lines() if line.get_label() == "as printed")
    assert np.asarray(drawn.get_ydata()) == pytest.approx(printed.groupby("C").beta_distance.median().to_numpy())


def test_what_dpspark_keeps_back_is_told() -> None:
    """Kills: medians of answers alone without their share, or without what the others would have been."""
    kept = [(True, 0.02), (True, 0.04), (True, 0.02), (False, 0.5), (False, np.nan)]
    rows = [
        {"rows": bain_simulated.MANY_ROWS, "method": "dpspark", "C": 10, "answered": said, "unsaid": 10 * share}
        for said, share in kept
    ]
    told = bain_simulated._kept_back(pd.DataFrame(rows))
    assert "well determined in 80% of the trials and it answers 60%" in told
    assert "would be 0.5 C away in the median, that of its answers is 0.02 C" in told


@pytest.mark.usefixtures("few_people")
def test_the_slope_kept_back_is_the_released_one() -> None:
    """Kills: another coefficient, or one that is not in original units."""
    rows, bounds = bain_simulated.simulated(400_000, 0, 10)
    releases = Releases(rows, {"columns": bounds, "privacy": {"epsilon": 1.0, "delta": DELTA}})
    release = releases.draw(bain_simulated.ExperimentNoise(np.random.default_rng(0)))
    assert bain_simulated._slope(release.content.moments) == pytest.approx(
        release.regress(bain_simulated.FORMULA).params["x1"]
    )


@pytest.mark.usefixtures("few_people")
def test_census_end_to_end_with_a_file(tmp_path: Path) -> None:
    """Kills: a file that is not read, a table that leaves one of the sets of rows out, steps of the wrong methods."""
    random = np.random.default_rng(0)
    age, educ = random.integers(18, 90, 3000), random.integers(1, 17, 3000)
    # With residuals: without any, a standard error is 0 on some machines and a rounding error on others.
    columns = {"age": age, "educ": educ, "income": 300.0 * age + 2000 * educ + random.normal(0, 5000, 3000)}
    pq.write_table(pa.table(columns), tmp_path / "pums_ca_10000.parquet")
    table, text = tiny(bain_pums.EXPERIMENT, lambda cell: True, tmp_path, tmp_path)
    assert "| generated microdata, n = 312,000 |" in text
    assert "| California PUMS, a sample, n = 3,000 |" in text
    assert "| without noise | educ |" in text
    usual = table[(table.data == census.GENERATED) & (table.epsilon == EPSILON)]
    size = {"as printed": 20.0, "corrected": 40.0, ANALYTIC: 25.0, "dpspark": 4.0}
    set_to = usual.assign(
        educ=usual.educ_true + usual.method.map(size) * usual.educ_true_se, educ_se=1e9 * usual.educ_true_se
    )
    told = bain_pums.EXPERIMENT.findings(set_to)
    assert "**10.0 times** dpspark's median error in educ" in told
    assert "40, 25 and 4 in educ" in told
    assert (
        "still private here by the slack of that formula, has 20 in educ" in told
    )  # three columns, of five that are kept
