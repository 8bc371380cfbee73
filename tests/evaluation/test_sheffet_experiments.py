"""Sheffet's experiments: the printed constants, the exact ones, the data's law, and each experiment from cell to page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.evaluation import sheffet, sheffet_figure1, sheffet_spark
from dpspark.evaluation.noise import ExperimentNoise
from dpspark.evaluation.releases import Releases


class Silent(ExperimentNoise):
    """Draws of zero."""

    def discrete_gaussian(self, sigma: float, count: int) -> list[int]:
        return [0] * count


@pytest.fixture
def betas() -> np.ndarray:
    return sheffet.draw_betas(np.random.default_rng(1))


def test_the_papers_constants_by_hand() -> None:
    """Kills: a lost epsilon² (2B⁴ ln(2/delta)/epsilon²), another theorem, exact constants for the printed ones."""
    assert sheffet.gauss_stds("paper") == pytest.approx((37707.6, 37707.6), rel=1e-5)
    assert sheffet.ridge_of("paper", 80) == pytest.approx(28000 * (49.3185 + 15.2018), rel=1e-4)
    assert sheffet.degrees_of("paper") == 40 + 42566  # 28·ln(4e6)/0.01 = 42565.04, up


def test_exact_constants_are_known_ones() -> None:
    """Kills: another sensitivity, noise of one size on and off the diagonal, a ridge or degrees that are not smaller."""
    diagonal, off = sheffet.gauss_stds("exact")
    assert diagonal == pytest.approx(700 * 36.31, rel=1e-3)
    assert off == pytest.approx(diagonal / np.sqrt(2))
    assert sheffet.ridge_of("exact", 80) < sheffet.ridge_of("paper", 80) / 5
    assert sheffet.degrees_of("exact") < sheffet.degrees_of("paper") / 5


def test_the_law_is_that_of_the_rows(betas: np.ndarray) -> None:
    """Kills: a wrong covariance of [X; y], another residual variance, a law of another mean."""
    random = np.random.default_rng(2)
    x = random.normal(size=(200_000, sheffet.P))
    rows = np.hstack([x, x @ betas + sheffet.RESIDUAL * random.normal(size=x.shape)])
    assert np.linalg.norm(betas, axis=0) == pytest.approx(np.full(sheffet.P, 3.2))
    assert rows.T @ rows / len(rows) == pytest.approx(sheffet.covariance(betas), abs=0.2)
    assert sheffet.draw_gram(betas, 10**9, random) / 1e9 == pytest.approx(sheffet.covariance(betas), abs=0.01)


@pytest.mark.parametrize("extra", sheffet.EXTRA)
def test_without_noise_beta_is_found(betas: np.ndarray, extra: int) -> None:
    """Kills: a response among its own regressors, a truth that is not 0 on the redundant ones, coefficients out of order."""
    assert sheffet.error(sheffet.solve(sheffet.covariance(betas), extra), betas, extra) < 1e-9


def test_dpspark_without_noise_finds_beta_in_original_units(betas: np.ndarray) -> None:
    """Kills: bounds taken twice or not at all on the way to scaled coordinates and back."""
    releases = Releases(sheffet.to_scaled(1e9 * sheffet.covariance(betas), 10**9), sheffet.CONF)
    found = sheffet.dpspark_errors(releases, betas, Silent(np.random.default_rng(3)))
    assert list(found) == list(sheffet.EXTRA)
    assert max(found.values()) < 1e-6


def test_dpsparks_noise_is_for_the_row_norm_and_the_intercept() -> None:
    """Kills: bounds for the Gram that forget the column of ones."""
    releases = Releases(np.zeros((41, 41)), sheffet.CONF)
    assert releases.mechanism.facts()["sensitivity"]["value"] == pytest.approx(1 + sheffet.ROW_NORM**2)


def test_scaled_matrices_are_positive(betas: np.ndarray) -> None:
    """Kills: a scaled Analyze Gauss without its c·I, a Wishart whose mean is taken off whatever comes of it."""
    random = np.random.default_rng(4)
    gram = sheffet.draw_gram(betas, 2**14, random)
    found = sheffet.paper_matrices(gram, 2**14, "paper", ExperimentNoise(random))
    least = {name: np.linalg.eigvalsh(matrix)[0] for name, matrix in found.items()}
    assert tuple(found) == sheffet.SIX
    assert least["Analyze Gauss"] < 0
    assert least["Wishart, scaled"] > 0
    shift = found["Analyze Gauss, scaled"] - found["Analyze Gauss"]
    assert shift[0, 0] == pytest.approx(2 * 37707.6 * np.sqrt(40), rel=0.1)  # E‖N‖ of iid noise


def test_figure_1_from_cell_to_page() -> None:
    """Kills: a plot or a sentence that does not come from the table."""
    cells = [{"log2_rows": size, "trials": 2} for size in (14, 18, 25)]
    rows = [
        {**cell, **row}
        for cell in cells
        for row in sheffet_figure1.measure(cell, np.random.default_rng(cell["log2_rows"]))
    ]
    table = pd.DataFrame(rows)
    assert set(sheffet_figure1.plots(table)) == {"paper", "exact"}
    ours = table[(table.estimator == "dpspark") & (table.extra == 0) & (table.log2_rows == 25)]["median"].iloc[0]
    assert f"| {ours:.2g} |" in sheffet_figure1.findings(table)
    assert ours < 0.002
    doubled = table.assign(median=table["median"].where(table.estimator != "dpspark", 7 * table["median"]))
    assert sheffet_figure1.findings(doubled) != sheffet_figure1.findings(table)


def test_rows_depend_on_seed_and_part_alone(tmp_path: Path, betas: np.ndarray) -> None:
    """Kills: a task that is tried again and writes other rows; parts that are all the same."""
    root = np.linalg.cholesky(sheffet.covariance(betas))
    parts = [pa.record_batch([pa.array([part])], names=["id"]) for part in (0, 1)]
    for folder, order in (("a", parts), ("b", parts[::-1])):
        (tmp_path / folder).mkdir()
        list(sheffet_spark.write_rows(str(tmp_path / folder), root, 500, 9)(iter(order)))
    for name in ("part-00000.parquet", "part-00001.parquet"):
        assert pq.read_table(tmp_path / "a" / name).equals(pq.read_table(tmp_path / "b" / name))
    first, second = (pq.read_table(tmp_path / "a" / f"part-0000{part}.parquet")["x0"].to_numpy() for part in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3


def test_on_spark_from_rows_to_page(spark: Any) -> None:
    """Kills: rows that Spark does not write or read, bounds that clip what they must not, a column out of place."""
    cell = {"log2_rows": 18, "draws": 2}
    table = pd.DataFrame([{**cell, **row} for row in sheffet_spark.measure(cell, np.random.default_rng(6))])
    wide = table.pivot(index=["constants", "estimator", "extra"], columns="source", values="median")
    assert wide.loc["", "dpspark", 0][sheffet_spark.SPARK] < 0.15
    assert wide.loc["exact", "Wishart", 0][sheffet_spark.SPARK] == pytest.approx(
        wide.loc["exact", "Wishart", 0][sheffet_spark.LAW], rel=0.1
    )
    assert list(sheffet_spark.plots(table)) == [""]
    assert "n = 2^18" in sheffet_spark.findings(table)
