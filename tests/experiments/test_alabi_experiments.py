"""Alabi et al.: their error metrics, what was printed and what is right, and a tiny run of each experiment."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpspark.core.records import Records
from dpspark.mechanisms.lines.plane import Plane
from dpspark.mechanisms.lines.smooth_sensitivity import SmoothTheilSen
from dpspark.privacy.budget import Budget
from dpspark.privacy.keyed import KeyedRandom
from experiments import alabi_crossover, alabi_curves, alabi_tracts
from experiments.alabi import (
    ADDED,
    METHODS,
    NARROW,
    REPLACED,
    kernel_of,
    least_squares,
    lines_of,
    quantile,
    shown,
    within,
)
from experiments.alabi_printed import short_maximum
from experiments.alabi_tracts_page import INFUSED, INFUSED_HALF, share_below
from experiments.experiment import Cell, Experiment, Setting
from experiments.page import draw_plots, section
from experiments.runner import run_experiment
from tests.lines import calibrate

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


@pytest.mark.parametrize(
    ("method", "change", "exponents", "scale"),
    [(REPLACED, "replaced", (0.25, 0.5), 16 / 3), (ADDED, "added", (0.5, 1.0), 6.0)],
)
def test_dpspark_has_the_stated_epsilon(method: str, change: str, exponents: tuple[float, float], scale: float) -> None:
    """By hand. Scores spread by 4 where a row is replaced and by 2 where it is added, depths by 2 and 1: exp(−epsilon/spread).
    Six moments of [-1, 1]² move by 6 with a row added, and by 16/3 with (1, 1) replaced by (−1/3, −1/3) and n public.

    Kills: another epsilon or a delta for dpspark, one relation for both rows, the printed epsilon for each value."""
    for epsilon in (0.5, 1.0, 2.0):
        for rows, variance, name, exponent in ((300, 0.05, "huber", exponents[0]), (2, 0.01, "depth", exponents[1])):
            lines = lines_of(method, epsilon, expected_rows=rows, x_variance=variance)
            assert (lines.kernel_name, lines.records.change) == (name, change)
            assert (lines.budget.epsilon, lines.budget.delta, lines.budget.rho) == (epsilon, 0.0, None)
            assert lines.kernel.exponent == pytest.approx(exponent * epsilon)  # type: ignore[attr-defined]
    strong = lines_of(method, 8.0, expected_rows=10_000, x_variance=1 / 12)
    assert strong.kernel_name == "laplace"
    assert strong.kernel.diagonal == pytest.approx(scale / 8)  # type: ignore[attr-defined]
    assert strong.kernel.off_diagonal == pytest.approx(scale / 8)  # type: ignore[attr-defined]
    assert strong.kernel.public_rows == (change == "replaced")  # type: ignore[attr-defined]


def test_relations_and_budgets_of_all() -> None:
    """Kills: a mechanism of the paper under add/remove, a corrected one with more than epsilon, a delta that nobody said."""
    for method in METHODS:
        lines = lines_of(method, 0.7, expected_rows=100)
        assert lines.records.change == ("added" if method == ADDED else "replaced"), method
        assert not lines.records.moves
        spent = lines.budget
        if method == "DPGradDescent, as printed":
            assert (spent.epsilon, spent.rho) == (None, pytest.approx(0.245))
            continue
        each = ("DPExpTheilSen, as printed", "DPWideTheilSen, as printed", "DPSSTheilSen, as printed")
        assert spent.epsilon == pytest.approx(1.4 if method in each else 0.7), method
        assert spent.delta == (1e-6 if method in ("DPGradDescent, corrected", "Gaussian matrix") else 0.0), method


def test_where_lines_are_looked_for() -> None:
    """Kills: a range for dpspark, or for the narrow one, that is not the bounds of y; another one than in the code."""
    for method, wanted in (
        ("DPExpTheilSen, corrected", (-0.5, 1.5)),
        (NARROW, (0, 1)),
        (REPLACED, (0, 1)),
        (ADDED, (0, 1)),
    ):
        assert lines_of(method, 1.0).plane.candidate_range == wanted


HAND_MADE: list[tuple[str, Records, str, int]] = [
    (REPLACED, Records("replaced"), "huber", 300),
    (ADDED, Records("added"), "huber", 100),
]


@pytest.mark.parametrize(("method", "records", "name", "told"), HAND_MADE)
def test_an_error_of_the_crossover_by_hand(method: str, records: Records, name: str, told: int) -> None:
    """|p25 − least squares'| over the standard error of p25, by numpy, with a kernel made for epsilon = 1.

    Kills: a measurement with another epsilon, p25 over the standard error of the slope, the exact n where it is private."""
    cell: Cell = {"x": "0.1", "epsilon": 1.0, "n": 300, "method": method, "draws": 1}
    (row,) = alabi_crossover.measure(cell, np.random.default_rng(7))
    random = np.random.default_rng(7)
    secret = KeyedRandom(random.bytes(32))
    x, y = alabi_crossover.simulated("0.1", 300, random)
    line = calibrate(name, Plane((0.0, 1.0), (0.0, 1.0)), Budget(1.0), records, expected_rows=told, x_variance=0.01)
    (slope, intercept), covariance = np.polyfit(x, y, 1, cov=True)
    std_error = math.sqrt(np.array([0.25, 1]) @ covariance @ [0.25, 1])
    error = abs(line.kernel.fit(x, y, secret, 0, 0).estimate[0] - (intercept + 0.25 * slope))
    assert row["median"] == pytest.approx(error / std_error, rel=1e-6)


@pytest.mark.parametrize(("method", "records", "name", "told"), HAND_MADE)
def test_an_error_of_the_curves_by_hand(method: str, records: Records, name: str, told: int) -> None:
    """C(0.68) of five draws is the fourth, C(0.95) the fifth. Kills: as above, for each target's own standard error."""
    cell: Cell = {"epsilon": 0.25, "n": 300, "variance": 0.05, "slope": 0.5, "method": method, "sets": 1, "draws": 5}
    rows = {row["target"]: row for row in alabi_curves.measure(cell, np.random.default_rng(8))}
    secret = KeyedRandom(np.random.default_rng(8).bytes(32))
    x, y = alabi_curves.simulated(cell, 0)
    line = calibrate(name, Plane((0.0, 1.0), (0.0, 1.0)), Budget(0.25), records, expected_rows=told, x_variance=0.05)
    fits, truth = [line.kernel.fit(x, y, secret, 0, draw) for draw in range(5)], least_squares(x, y)
    for target, values in (("p25", [fit.estimate[0] for fit in fits]), ("slope", [fit.slope for fit in fits])):
        wanted = sorted(abs(value - truth.values[target]) / truth.std_errors[target] for value in values)
        assert (rows[target]["c68"], rows[target]["c95"]) == pytest.approx((wanted[3], wanted[4]), rel=1e-6)


@pytest.mark.parametrize(("method", "records", "name"), [hand[:3] for hand in HAND_MADE])
def test_an_error_of_a_tract_by_hand(method: str, records: Records, name: str) -> None:
    """Kills: another epsilon, and a number of people that is found in the tracts: told is 100, whatever they are."""
    cell: Cell = {"data": "generated", "tracts": 2, "draws": 1, "epsilon": 1.0, "method": method}
    rows = alabi_tracts.measure(cell, np.random.default_rng(9))
    secret = KeyedRandom(np.random.default_rng(9).bytes(32))
    line = calibrate(name, Plane((0.0, 1.0), (0.0, 1.0)), Budget(1.0), records, expected_rows=100)
    for at, (x, y) in enumerate(alabi_tracts.tracts_of(cell)):
        truth = least_squares(x, y)
        error = abs(line.kernel.fit(x, y, secret, at, 0).estimate[0] - truth.values["p25"]) / truth.std_errors["p25"]
        (found,) = [row["c68"] for row in rows if row["tract"] == at and row["target"] == "p25"]
        assert found == pytest.approx(error, rel=1e-6)


def test_the_share_below_one_standard_error() -> None:
    """Kills: another limit, and tracts without a line that count."""
    assert share_below(pd.Series([0.2, 0.99, 1.0, 1.7, math.inf])) == pytest.approx(0.4)


def test_the_rule_needs_two_epsilons() -> None:
    """Kills: a steadier sign where both are the same numbers but for a factor; and where they hardly differ."""
    assert "two epsilons would be needed" in alabi_crossover.rule([(8.0, 142.0), (8.0, 202.0)])
    assert "two epsilons would be needed" in alabi_crossover.rule([])
    assert "epsilon·nvar is the steadier sign" in alabi_crossover.rule([(1.0, 100.0), (8.0, 110.0)])
    assert "epsilon²·nvar is the steadier sign" in alabi_crossover.rule([(1.0, 800.0), (8.0, 100.0)])
    assert "neither is clearly" in alabi_crossover.rule([(1.0, 300.0), (8.0, 106.0)])


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


def tiny(experiment: Experiment, keep: Any, out: Path, data: Path | None = None) -> tuple[str, pd.DataFrame]:
    """Its page, of few draws of the cells to keep, and its table."""

    def cells(setting: Setting) -> list[Cell]:
        few = {"draws": 2, "sets": 1, "tracts": 3}
        chosen = [cell for cell in experiment.cells(setting) if keep(cell)]
        return [{**cell, **{key: value for key, value in few.items() if key in cell}} for cell in chosen]

    small = replace(experiment, cells=cells)
    table = run_experiment(small, Setting(True, data), out, 1, lambda step: None)
    plots = draw_plots(small, table, out)
    assert all((out / name).stat().st_size > 10_000 for name in plots)
    text = " ".join(section(small, table, plots, "").split())
    assert not re.search(r"\bnan\b", text)
    assert "up to 2·epsilon for one that is replaced" in text
    assert "[-0.5, 1.5]" in text
    return text, table


def drawn(figure: Any, panel: int = 0) -> dict[str, np.ndarray]:
    """The heights of a panel's lines, by their name in the legend."""
    return {str(line.get_label()): line.get_ydata() for line in figure.axes[panel].lines}


def test_curves_end_to_end(tmp_path: Path) -> None:
    """Kills: a table row, a curve or a comparison of other numbers than the method's, a line that is not drawn."""
    text, table = tiny(alabi_curves.EXPERIMENT, lambda cell: True, tmp_path)
    assert "the formula: 1.41" in text
    usual = table[(table.target == "p25") & (table.varied == "epsilon")].set_index(["method", "epsilon"])
    for method, relation in ((REPLACED, "replace-one"), (ADDED, "add/remove"), (NARROW, "replace-one")):
        assert f"| {method} | {relation} | {shown(usual.c68[method, 1.0])} | {shown(usual.c95[method, 1.0])} |" in text
    theirs = [method for method in table.method.unique() if method.endswith("corrected")]
    wide = table[table.target == "p25"].pivot(
        index=["varied", "epsilon", "n", "variance", "slope"], columns="method", values="c68"
    )
    ratios = wide[theirs].min(axis=1) / wide[REPLACED]
    assert f"{REPLACED} has the smaller one in {(ratios > 1).sum()}, and that best one {ratios.min():.1f} to" in text
    lines = drawn(alabi_curves.plots(table)["robust"])
    assert set(alabi_curves.ROBUST) < set(lines)
    assert lines[REPLACED] == pytest.approx(usual.c68[REPLACED].sort_index().to_numpy())


def test_crossover_end_to_end(tmp_path: Path) -> None:
    """Kills: another method's number in the table, a median without a line that is drawn as nothing at all."""
    text, table = tiny(alabi_crossover.EXPERIMENT, lambda cell: cell["n"] <= 1000, tmp_path)
    one = table[(table.epsilon == 8) & (table.x == "0.05") & (table.n == 1000)].set_index("method")["median"]
    assert f"| 8 | 0.05 | 1,000 | {' | '.join(shown(one[method]) for method in alabi_crossover.METHODS)} |" in text
    missing = table.assign(median=table["median"].where(table.method != alabi_crossover.SUFF, math.inf))
    figure = alabi_crossover.plots(missing)[""]
    marks = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [len(line.get_xdata()) for line in marks] == [2]
    assert all(0.02 < height < 200 for height in marks[0].get_ydata())


def test_tracts_end_to_end_with_a_file(tmp_path: Path) -> None:
    """Kills: a file that is not read, or read as one tract; add/remove's shares where replace-one's are told."""
    x, y = some_rows(90)
    columns = {"cell": np.arange(90) % 3, "parent_rank": x, "kid_rank": y}
    pq.write_table(pa.table(columns), tmp_path / "oi_cells.parquet")
    text, table = tiny(alabi_tracts.EXPERIMENT, lambda cell: True, tmp_path, tmp_path)
    assert "*Invented tracts* (3 of" in text
    assert "simulated cells* (3 of 30 to 30 people)" in text
    assert "| noise infusion, halved | not private |" in text
    p25 = table[(table.data == "oi_cells") & (table.target == "p25")]
    shares = (p25.c68 < 1).groupby([p25.method, p25.epsilon]).mean()
    for method, told in (
        (REPLACED, "One record replaced: with dpspark"),
        (ADDED, "One record added or removed: with dpspark"),
    ):
        assert (
            f"{told} {', '.join(f'{share:.0%}' for share in shares[method].sort_index())}"
            in text.split("simulated cells*")[1]
        )
