"""Alabi et al.: their error metrics, what was printed and what is right, and a tiny run of each experiment."""

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

from dpspark.evaluation import alabi_crossover, alabi_curves, alabi_tracts
from dpspark.evaluation.alabi import DEFAULT, PUBLIC, kernel_of, least_squares, quantile, within
from dpspark.evaluation.alabi_printed import short_maximum
from dpspark.evaluation.alabi_tracts_page import INFUSED, INFUSED_HALF
from dpspark.evaluation.experiment import Cell, Experiment, Setting
from dpspark.evaluation.page import draw_plots, section
from dpspark.evaluation.runner import run_experiment
from dpspark.robust.keyed import KeyedRandom
from dpspark.robust.plane import Plane
from dpspark.robust.smooth import SmoothTheilSen

SECRET = KeyedRandom(bytes(32))


def some_rows(count: int = 60, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.random(count)
    return x, np.clip(0.3 + 0.4 * x + random.normal(0, 0.15, count), 0, 1)


def test_the_error_that_a_share_of_trials_keeps() -> None:
    """Kills: an interpolated quantile, an index off by one, a missing line that counts as no error."""
    errors = [5, 1, 2, 3, 4, 10, 9, 8, 7, 6]
    assert within(errors, 0.68) == 7
    assert within(errors, 0.7) == 7
    assert within(errors, 0.95) == 10
    assert within([1, math.inf, 2, math.inf], 0.68) == math.inf


def test_quantiles_of_cells_without_a_line() -> None:
    """Kills: a NaN where a cell is infinite."""
    assert quantile([1, 2, math.inf, math.inf], 0.5) == math.inf
    assert quantile([1, 2, 4, math.inf, math.inf], 0.5) == 4
    assert quantile([1, 3], 0.5) == 2


def test_least_squares_and_its_standard_errors() -> None:
    """Kills: n or n − 1 for n − 2, a standard error at the mean of x."""
    x, y = some_rows()
    truth = least_squares(x, y)
    design = np.column_stack([np.ones(60), x])
    beta, rss, *_ = np.linalg.lstsq(design, y, rcond=None)
    covariance = np.linalg.inv(design.T @ design) * rss[0] / 58
    for name, at in (("p25", [1, 0.25]), ("p75", [1, 0.75]), ("slope", [0, 1])):
        assert truth.values[name] == pytest.approx(np.dot(at, beta))
        assert truth.std_errors[name] == pytest.approx(math.sqrt(np.array(at) @ covariance @ at))


def test_as_printed_each_value_has_the_whole_epsilon() -> None:
    """exp(−epsilon'·|b − a|/4k): 1/2/40 by hand. Kills: half of epsilon as printed, the whole of it corrected."""
    for name in ("DPExpTheilSen", "DPWideTheilSen"):
        assert kernel_of(f"{name}, corrected", 1.0).exponent == pytest.approx(0.0125)  # type: ignore[attr-defined]
        assert kernel_of(f"{name}, as printed", 1.0).exponent == pytest.approx(0.025)  # type: ignore[attr-defined]
    # For both: epsilon' = 3·noise/(2√2) + 2·decay, half of it each.
    assert kernel_of("DPSSTheilSen, corrected", 1.0).decay == pytest.approx(0.125)  # type: ignore[attr-defined]
    assert kernel_of("DPSSTheilSen, as printed", 1.0).decay == pytest.approx(0.25)  # type: ignore[attr-defined]


def test_the_printed_zcdp_of_gradient_descent() -> None:
    """σ = 2·0.3·√(20/2ρ), ρ = 1/2, by hand: 2.683. Kills: rho = epsilon², a sensitivity of one added record."""
    assert kernel_of("DPGradDescent, as printed", 1.0).scale == pytest.approx(2.683, abs=0.001)  # type: ignore[attr-defined]
    assert kernel_of("DPGradDescent, corrected", 1.0).scale > 8  # type: ignore[attr-defined]


def test_the_default_hides_the_number_of_rows() -> None:
    """Scores weigh twice as much where records are only added or removed. Kills: both under one relation."""
    ours, public = (kernel_of(name, 1.0, expected_rows=300, x_variance=0.05) for name in (DEFAULT, PUBLIC))
    assert ours.exponent == pytest.approx(2 * public.exponent)  # type: ignore[attr-defined]


def test_the_printed_maximum_leaves_terms_out() -> None:
    """By hand, k = 1, decay 1: two after the median there is a step of 500, which one other record and t = q = 2 reach; without
    that term it takes two others. Kills: a printed maximum that is complete, and one that misses more."""
    right = SmoothTheilSen(Plane((0.0, 1.0), (0.0, 1.0)), 1.0, 1.0, matchings=1, cells=1000)
    printed = short_maximum(right)
    assert isinstance(printed, SmoothTheilSen)
    values = np.array([400] * 12 + [900] * 9)
    assert float(right.sensitivity(values)) == pytest.approx(500 * math.exp(-1))
    assert float(printed.sensitivity(values)) == pytest.approx(500 * math.exp(-2))
    random = np.random.default_rng(2)
    for _ in range(100):
        values = np.sort(random.integers(0, 1001, random.integers(1, 12)))
        full, theirs = float(right.sensitivity(values)), float(printed.sensitivity(values))
        assert full * math.exp(-1) * (1 - 1e-12) <= theirs <= full * (1 + 1e-12)


def test_as_printed_the_means_are_exact() -> None:
    """With x̄ = 0.25 the value there is ȳ, whatever the slope. Kills: noise in the level, which the slides do not have."""
    x = np.tile([0.0, 0.5], 200)
    y = 0.3 + 0.4 * x
    printed, corrected = (kernel_of(f"DPSuffStats, {how}", 1.0) for how in ("as printed", "corrected"))
    assert [printed.fit(x, y, SECRET, i).estimate[0] for i in range(5)] == pytest.approx([0.4] * 5, abs=1e-6)
    assert abs(corrected.fit(x, y, SECRET, 0).estimate[0] - 0.4) > 1e-5


def test_noise_infusion() -> None:
    """√2·χ/(epsilon·n), χ over all tracts. Kills: χ of each tract by itself, noise that ignores n, corners left out."""
    tracts = [some_rows(20, 1), some_rows(80, 2)]
    changes = []
    for x, y in tracts:
        before = np.polyval(np.polyfit(x, y, 1), 0.25)
        after = [
            np.polyval(np.polyfit(np.append(x, a), np.append(y, b), 1), 0.25)
            for a, b in ((0, 0), (0, 1), (1, 0), (1, 1))
        ]
        changes.append(len(x) * max(abs(value - before) for value in after))
    drawn = alabi_tracts.infused(tracts, 2.0, 20_000, np.random.default_rng(0))
    for (x, _), (errors, _) in zip(tracts, drawn, strict=True):
        spread = math.sqrt(float(np.mean(errors["p25"] ** 2)))
        assert spread == pytest.approx(math.sqrt(2) * max(changes) / (2.0 * len(x)), rel=0.03)


def test_halved_infusion_is_twice_the_noise() -> None:
    cell = {"data": "generated", "tracts": 3, "draws": 4000, "epsilon": 2.0}
    printed, halved = (
        np.array([row["c68"] for row in alabi_tracts.measure({**cell, "method": method}, np.random.default_rng(1))])
        for method in (INFUSED, INFUSED_HALF)
    )
    assert halved / printed == pytest.approx(np.full(6, 2.0), rel=0.15)


def test_the_crossover_is_found_between_two_sizes() -> None:
    """Medians 4, 2, 1, 0.5 against a flat 1.4: they meet halfway, in logarithms, between 100 and 1,000. Kills: a place that is
    not between them, a crossover where there is none."""
    sizes = [10, 100, 1000, 10_000]
    falling = {10: 4.0, 100: 2.0, 1000: 1.0, 10_000: 0.5}

    def table(flat: float) -> pd.DataFrame:
        rows = [{"method": alabi_crossover.SUFF, "n": n, "strength": n, "median": falling[n]} for n in sizes]
        return pd.DataFrame([*rows, *({**row, "method": alabi_crossover.EXP, "median": flat} for row in rows)])

    assert alabi_crossover.crossing(table(math.sqrt(2))) == pytest.approx(math.sqrt(100 * 1000))
    assert alabi_crossover.crossing(table(0.3)) is None
    assert alabi_crossover.crossing(table(9.0)) is None


def tiny(experiment: Experiment, keep: Any, out: Path, data: Path | None = None) -> str:
    """Its page, of few draws of the cells to keep."""

    def cells(setting: Setting) -> list[Cell]:
        few = {"draws": 3, "sets": 1, "tracts": 3}
        chosen = [cell for cell in experiment.cells(setting) if keep(cell)]
        return [{**cell, **{key: value for key, value in few.items() if key in cell}} for cell in chosen]

    small = replace(experiment, cells=cells)
    table = run_experiment(small, Setting(True, data), out, 1, lambda step: None)
    plots = draw_plots(small, table, out)
    assert all((out / name).stat().st_size > 10_000 for name in plots)
    text = section(small, table, plots, "")
    assert "nan" not in text.replace("nance", "")
    return text


def test_curves_end_to_end(tmp_path: Path) -> None:
    text = tiny(alabi_curves.EXPERIMENT, lambda cell: True, tmp_path)
    assert "the formula: 1.41" in text
    assert "| dpspark, n public |" in text


def test_crossover_end_to_end(tmp_path: Path) -> None:
    assert "| 8 | 0.05 | 1,000 |" in tiny(alabi_crossover.EXPERIMENT, lambda cell: cell["n"] <= 1000, tmp_path)


def test_tracts_end_to_end_with_a_file(tmp_path: Path) -> None:
    """Kills: a file that is not read, or read as one tract."""
    x, y = some_rows(90)
    columns = {"cell": np.arange(90) % 3, "parent_rank": x, "kid_rank": y}
    pq.write_table(pa.table(columns), tmp_path / "oi_cells.parquet")
    text = tiny(alabi_tracts.EXPERIMENT, lambda cell: True, tmp_path, tmp_path)
    assert "*Invented tracts* (3 of" in text
    assert "simulated cells* (3 of 30 to 30 people)" in text
    assert "| noise infusion, halved |" in text
