"""Kalaja's experiments: the printed constants and mappings, public bounds as in a release, and each from cell to page."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpspark.evaluation import kalaja_intercept, kalaja_noise, kalaja_ssp
from dpspark.evaluation.experiment import Setting
from dpspark.evaluation.kalaja import DELTA, Printed, Public, Table, load_table, unit_mechanism
from dpspark.evaluation.kalaja_clipping import Around
from dpspark.evaluation.kalaja_runs import cells_of, not_private, ratios, relative
from dpspark.mechanisms.regression import StatisticsRegression
from dpspark.mechanisms.sampling import scaled_matrix
from dpspark.privacy.budget import gaussian_delta
from dpspark.regression.fit import RegressionFit
from dpspark.spec import load_spec


@pytest.fixture(scope="module")
def line() -> Table:
    """y is a linear function of x, without any error; its mean is 0."""
    random = np.random.default_rng(1)
    x = random.normal(3.0, 2.0, (400, 4)) * [1, 5, 0.1, 2]
    y = (x - x.mean(axis=0)) @ [1.0, -0.2, 3.0, 0.5]
    return Table(x, y, np.array([*zip(x.min(axis=0), x.max(axis=0), strict=True), (y.min(), y.max())]))


TRAIN, TEST = np.arange(300), np.arange(300, 400)


def noise_of(name: str, squared: float = 1.0, epsilon: float = 1.0) -> Any:
    mechanism = unit_mechanism(name, 4, squared, epsilon)
    assert isinstance(mechanism, StatisticsRegression)
    return mechanism.statistics.noise


def test_noise_of_wang_and_of_the_thesis_by_hand() -> None:
    """Kills: a share of epsilon that is not a third; delta/3 forgotten; one's constants for the other's."""
    wang, kalaja = noise_of("wang"), noise_of("kalaja")
    assert (wang.diagonal_std, wang.cross_std) == pytest.approx((11.852, 11.852), rel=1e-3)  # 3·√ln(6e6)
    assert (kalaja.diagonal_std, kalaja.cross_std) == pytest.approx((16.507, 16.507), rel=1e-3)  # 3·√(2 ln 3.75e6)
    assert kalaja.off_diagonal_std == pytest.approx(kalaja.diagonal_std)
    assert noise_of("gram_ridge").diagonal_std < wang.diagonal_std / 1.6


def test_an_intercept_beside_the_ball_doubles_the_noise() -> None:
    """Kills: B² = 1 for rows with B² = 2."""
    assert noise_of("kalaja", 2.0).diagonal_std == pytest.approx(2 * noise_of("kalaja").diagonal_std)
    assert noise_of("kalaja", 2.0).cross_std == pytest.approx(math.sqrt(2) * noise_of("kalaja").cross_std)
    assert kalaja_intercept.reached_delta(1.0) > gaussian_delta(math.sqrt(3) / 16.507, 1.0)


def test_ssp_of_wangs_code_is_not_private() -> None:
    """Kills: another constant for his code (√ln(4/delta)/epsilon), or for the thesis's (√(2 ln(2.5/delta))/(epsilon/2))."""
    domain = unit_mechanism("ssp", 4, 1.0, 1.0).domain
    code, thesis = (kalaja_ssp.PlainSSP(domain, 1.0, symmetric) for symmetric in (False, True))
    assert (code.std, thesis.std) == pytest.approx((3.899, 10.856), rel=1e-3)
    assert gaussian_delta(math.sqrt(2) / code.std, 1.0) > 100 * DELTA
    assert gaussian_delta(math.sqrt(2) / thesis.std, 1.0) < DELTA


@pytest.mark.parametrize(
    ("method", "norm"),
    [
        (Printed("row"), 1.0),
        (Printed("max"), 1.0),
        (Printed("max", intercept="ball"), 1.0),
        (Printed("max", intercept="after"), 2.0),
    ],
)
def test_printed_rows_are_in_the_ball_that_their_noise_is_for(line: Table, method: Printed, norm: float) -> None:
    """Kills: a mapping that leaves rows longer than the noise allows, or noise for shorter ones; a response above 1."""
    problem = method(line, TRAIN, TRAIN)  # the train rows as test rows, to look at them
    lengths = (problem.test**2).sum(axis=1)
    assert lengths.max() == pytest.approx(norm)
    assert lengths.min() == pytest.approx(norm) if method.mapping == "row" else lengths.min() < 0.5 * norm + 0.5
    mechanism = problem.mechanism(1.0)
    assert isinstance(mechanism, StatisticsRegression)
    assert mechanism.statistics.noise.diagonal_std == pytest.approx(norm * noise_of("kalaja").diagonal_std)
    products = scaled_matrix(problem.gram(mechanism.domain))
    assert products[:-1, :-1] == pytest.approx(problem.test.T @ problem.test, abs=1e-6)
    assert products[-1, -1] <= len(TRAIN)


def test_dividing_y_too_keeps_a_line_a_line(line: Table) -> None:
    """Kills: predictions that are not scaled back by each test row's norm. (Row norms alone bend the line.)"""

    def left(method: Printed) -> float:
        problem = method(line, TRAIN, TEST)
        products = scaled_matrix(problem.gram(problem.mechanism(1.0).domain))
        return relative(line, problem.predict(np.linalg.solve(products[:-1, :-1], products[:-1, -1])), TEST)

    assert left(Printed("row", with_y=True)) < 0.01  # not 0: the train rows' means are not those of all
    assert left(Printed("max", intercept="ball")) < 1e-8
    assert left(Printed("row")) > 0.05


def test_clipping_cuts_above_alone_and_test_rows_if_asked(line: Table) -> None:
    """Kills: cutting below too; cutting the test rows unasked."""
    plain, cut, both = (
        Printed("max", clip=c, clip_test=t)(line, TRAIN, TEST) for c, t in ((9.0, False), (1.0, False), (1.0, True))
    )
    longest = [np.abs(problem.test).max() for problem in (plain, cut, both)]
    assert longest[2] < longest[1]
    low, high = both.test.min(axis=0), both.test.max(axis=0)
    assert (np.abs(low) > 1.5 * high).all()


@pytest.mark.parametrize("mode", [None, "cap", "project"])
def test_public_bounds_predict_as_a_release_does(line: Table, mode: str | None) -> None:
    """Kills: test rows mapped in another way than the product maps them."""
    method = Public("gram_ridge", None, mode, mode == "cap")
    problem = method(line, TRAIN, TEST)
    names = [*(f"x{i}" for i in range(4)), "y"]
    domain = load_spec(method.conf(dict(zip(names, line.bounds.tolist(), strict=True)))(1.0)).domain
    theta = np.array([0.1, 0.2, -0.3, 0.4, 0.5])
    fit = RegressionFit(domain, {"name": "gradient_descent"}, theta, None, 0)
    frame = {name: line.x[TEST, i] for i, name in enumerate(names[:-1])}
    assert problem.predict(theta) == pytest.approx(fit.predict(frame), abs=1e-5)


def test_bounds_around_the_mean_have_two_sides(line: Table) -> None:
    bounds = Around(1.0)(line)
    assert bounds.mean(axis=1)[:-1] == pytest.approx(line.x.mean(axis=0))
    assert (bounds[:-1, 1] - bounds[:-1, 0]) / 2 == pytest.approx(line.x.std(axis=0))
    assert bounds[-1].tolist() == line.bounds[-1].tolist()


def test_generated_sets_have_the_size_of_the_real_ones() -> None:
    """Kills: sets that differ from run to run, or that a line does not explain."""
    table = load_table("wine", None)
    assert table.x.shape == (1599, 11)
    assert load_table.__wrapped__("wine", None).x.tolist() == table.x.tolist()
    problem = kalaja_noise.METHODS[kalaja_noise.WANG](table, np.arange(1400), np.arange(1400, 1599))
    left = relative(table, problem.predict(not_private(problem, problem.mechanism(1.0).domain)), np.arange(1400, 1599))
    assert 0.2 < left < 0.8


def test_ratios_are_geometric_means_over_sets() -> None:
    """Kills: a median or a plain mean over the sets; ratios to the wrong method."""
    rows = [
        {"set": name, "epsilon": 1.0, "method": method, "median": value}
        for name, method, value in (
            ("a", "m", 1.0),
            ("a", "k", 8.0),
            ("b", "m", 2.0),
            ("b", "k", 2.0),
            ("c", "m", 3.0),
            ("c", "k", 3.0),
        )
    ]
    assert ratios(pd.DataFrame(rows), "m")["k"].tolist() == pytest.approx([2.0])


@pytest.mark.parametrize("name", ["ssp", "noise", "mapping", "order", "intercept", "clipping"])
def test_each_from_cell_to_page(name: str) -> None:
    """Kills: a plot or a sentence that does not come from the table."""
    experiment = import_module(f"dpspark.evaluation.kalaja_{name}").EXPERIMENT
    rows = []
    for cell in cells_of(Setting(quick=True), ("energy", "housing")):
        small = {**cell, "folds": 1, "draws": 2}
        rows += [{**small, **row} for row in experiment.measure(small, np.random.default_rng(8))]
    table = pd.DataFrame(rows)
    assert np.isfinite(table[["low", "median", "high"]].to_numpy()).all()
    assert all(figure.axes for figure in experiment.plots(table).values())
    ours = table.method.str.startswith("dpspark")
    other = table.assign(median=table["median"].where(~ours, 50 * table["median"]))
    assert experiment.findings(other) != experiment.findings(table)
