"""Kalaja's experiments: the printed constants and mappings, public bounds as in a release, and each from cell to page."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpspark.analysis.fit import RegressionFit
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.mechanisms.regression.base import NoisyRegression, StatisticsMechanism
from dpspark.privacy.budget import gaussian_delta
from dpspark.spec.spec import load_spec
from experiments import kalaja_clipping, kalaja_intercept, kalaja_mapping, kalaja_noise, kalaja_order, kalaja_ssp
from experiments.experiment import Setting
from experiments.kalaja import (
    DEFAULT,
    DELTA,
    FOUR,
    Printed,
    Problem,
    Public,
    Table,
    load_table,
    unit_mechanism,
)
from experiments.kalaja_clipping import Around
from experiments.kalaja_runs import (
    EPSILONS,
    NOT_PRIVATE,
    about_data,
    cells_of,
    least_squares,
    measure_methods,
    ratios,
    relative,
    sets_of,
    verdict,
)


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
    assert isinstance(mechanism, StatisticsMechanism)
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


MODULES = (kalaja_ssp, kalaja_noise, kalaja_mapping, kalaja_order, kalaja_intercept, kalaja_clipping)


def defaults_of(module: Any) -> dict[str, Any]:
    found = {name: method for name, method in module.METHODS.items() if name.startswith(DEFAULT)}
    assert found, module.__name__
    return found


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_default_is_the_products_and_has_the_named_budget(module: Any, epsilon: float, line: Table) -> None:
    """Kills: dpspark at another epsilon or delta, for other neighbours; a row norm or a mechanism that a conf must ask for.

    By hand: five unit coordinates (intercept and four regressors) move the upper triangle of Σxxᵀ by √15, Σxy by √5, Σy² by 1;
    together they are one Gaussian of (epsilon, delta), Balle & Wang (2018), Theorem 8.
    """

    def reached(mu: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))

    mu = brentq(lambda mu: reached(mu) - 1e-6, 1e-4, 10, xtol=1e-14)
    for method in defaults_of(module).values():
        mechanism = method(line, TRAIN, TEST).mechanism(epsilon)
        assert isinstance(mechanism, StatisticsMechanism)
        noise = mechanism.statistics.noise
        moved = (math.sqrt(15) / noise.diagonal_std, math.sqrt(5) / noise.cross_std, 1 / noise.response_std)
        assert math.hypot(*moved) == pytest.approx(mu, rel=1e-4)
        assert noise.off_diagonal_std == noise.diagonal_std
        conf = method.conf({f"x{i}": (0.0, 1.0) for i in range(4)} | {"y": (0.0, 1.0)})(epsilon)
        spec = load_spec(conf)
        assert not {"mechanism", "row_norm"} & set(conf)
        assert (spec.privacy.epsilon, spec.privacy.delta) == (epsilon, 1e-6)
        assert (spec.privacy.neighbours, spec.mechanism_name, spec.domain.row_norm) == (
            "add_remove",
            "gram_ridge",
            None,
        )


@pytest.mark.parametrize("module", MODULES)
def test_what_is_capped_with_y_says_so(module: Any) -> None:
    """Kills: a row norm under the name of the default; a name that does not fit its conf."""
    for name, method in module.METHODS.items():
        if isinstance(method, Public):
            assert (method.mode == "cap" and method.include_response) == ("cap with y" in name), name
            assert (method.mode == "project") == ((module is kalaja_noise and name != DEFAULT) or "project" in name), (
                name
            )


@dataclass
class Asked:
    """A method that predicts the epsilon it was asked for."""

    domain: Any = None
    epsilon: float = 0.0

    def __call__(self, table: Table, train: np.ndarray, test: np.ndarray) -> Problem:
        return Problem(lambda epsilon: Asked(None, epsilon), lambda domain: None, np.ones((len(test), 1)))  # type: ignore

    def release(self, rows: Any, noise: Any, report: Any) -> NoisyRegression:
        return NoisyRegression(np.array([self.epsilon]), None)


def test_methods_are_measured_at_the_epsilon_of_their_row() -> None:
    """Kills: a mechanism for another epsilon than its row says."""
    cell = {**cells_of(Setting(), ["stock"])[0], "folds": 10, "draws": 1}
    rows = pd.DataFrame(measure_methods(cell, {"asked": Asked()}, np.random.default_rng(1)))
    asked = rows[rows.method == "asked"].set_index("epsilon")
    assert tuple(asked.index) == EPSILONS
    table, folds = load_table("stock", None), np.random.default_rng(1).permutation(536)
    for epsilon in EPSILONS:
        errors = [relative(table, np.full(len(folds[i::10]), epsilon), folds[i::10]) for i in range(10)]
        assert asked["median"][epsilon] == pytest.approx(np.median(errors))
    assert rows[rows.method == NOT_PRIVATE]["median"].nunique() == 1


def test_least_squares_has_an_intercept_and_no_ridge(line: Table) -> None:
    """Kills: a line without noise that a private method can be better than, for want of an intercept or by a ridge."""
    shifted = Table(line.x, line.y + 40, line.bounds)
    assert relative(shifted, least_squares(shifted, TRAIN, TEST), TEST) < 1e-20
    narrow = Table(line.x, line.y, np.vstack([[[3.0, 3.1]], line.bounds[1:]]))
    assert relative(narrow, least_squares(narrow, TRAIN, TEST), TEST) > 0.01  # within the public bounds, as the others


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
    assert isinstance(mechanism, StatisticsMechanism)
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
    left = relative(table, least_squares(table, np.arange(1400), np.arange(1400, 1599)), np.arange(1400, 1599))
    assert 0.2 < left < 0.8


@pytest.mark.parametrize("name", FOUR)
def test_generated_y_has_no_mean_unless_one_is_asked_for(name: str) -> None:
    """Kills: a mean of y that counts against the printed methods, which have no intercept, where it is not the subject."""
    table, shifted = load_table(name, None), load_table(name, None, 0.5)
    assert abs(table.y.mean()) < 0.02 * table.y.std()
    assert shifted.y.mean() == pytest.approx(0.5 * table.y.std(), rel=0.06)
    assert shifted.y - shifted.y.mean() == pytest.approx(table.y - table.y.mean())
    assert all(
        "offset" not in cell for module in MODULES if module is not kalaja_intercept for cell in module.cells(Setting())
    )
    assert {cell["offset"] for cell in kalaja_intercept.cells(Setting())} == {0.0, 0.5}


def test_findings_name_the_sets_that_are_files(tmp_path: Path) -> None:
    """Kills: "UCI sets" for one file among generated ones."""
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "wine.parquet").touch()
    told = about_data(pd.DataFrame(sets_of(Setting(data=tmp_path), FOUR)))
    assert "UCI files: wine. Generated, in the sizes of the UCI sets: airfoil, elevators, pol." in told
    assert "UCI files" not in about_data(pd.DataFrame(sets_of(Setting(), FOUR)))


def test_a_verdict_says_where_a_method_loses() -> None:
    """Kills: a range of ratios that hides a loss."""
    rows = [
        {"set": name, "epsilon": epsilon, "method": method, "median": value}
        for name, epsilon, method, value in (
            ("a", 1.0, "m", 1.0),
            ("a", 1.0, "k", 2.0),
            ("b", 1.0, "m", 1.0),
            ("b", 1.0, "k", 0.9),
            ("a", 3.0, "m", 1.0),
            ("a", 3.0, "k", 0.5),
            ("b", 3.0, "m", 1.0),
            ("b", 3.0, "k", 0.5),
        )
    ]
    told = verdict(pd.DataFrame(rows), "k", "m")
    assert told == "0.50 to 1.34 times (smaller in 3 of 4 settings; worse on average at epsilon = 1)"


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


BASES = {
    "ssp": kalaja_ssp.JOINT,
    "noise": kalaja_noise.WANG,
    "mapping": kalaja_mapping.ROW,
    "order": kalaja_order.AFTER,
    "intercept": kalaja_intercept.WITHOUT,
    "clipping": kalaja_clipping.NONE,
}


@pytest.mark.parametrize("name", list(BASES))
def test_each_from_cell_to_page(name: str) -> None:
    """Kills: a plot or a sentence that does not come from the table: the default is made to win, and to lose."""
    module = import_module(f"experiments.kalaja_{name}")
    rows = []
    for cell in module.cells(Setting(quick=True)):
        if cell["set"] in ("airfoil", "wine"):
            small = {**cell, "folds": 1, "draws": 2}
            rows += [{**small, **row} for row in module.measure(small, np.random.default_rng(8))]
    table = pd.DataFrame(rows)
    assert np.isfinite(table[["low", "median", "high"]].to_numpy()).all()
    for figure in module.plots(table).values():
        look_at(figure)
    lines = module.plots(table)[""].axes[-1].get_lines()
    last = table[(table.set == "wine") & (table.method == lines[2].get_label())]
    last = last[last.offset == 0.5] if "offset" in last else last
    assert lines[2].get_ydata().tolist() == last.sort_values("epsilon")["median"].tolist()
    assert lines[2].get_label().startswith(DEFAULT)
    for times, told in ((0.5, "0.50 times (smaller in 4 of 4 settings)"), (3.0, "3.00 times (smaller in 0 of 4")):
        text = " ".join(module.findings(set_to(table, BASES[name], times)).split())
        assert any(
            f"default{by} {told}" in text for by in ("", " has", ", a ridge known in advance on the box, has", ",")
        ), text
        assert ("worse on average at epsilon = 0.1, 1" in text) or times < 1


def set_to(table: pd.DataFrame, base: str, times: float) -> pd.DataFrame:
    """The default has so many times the error of `base` in every setting, and all other methods a tenth of it."""
    keys = [key for key in ("set", "epsilon", "offset") if key in table.columns]
    of_base = table[table.method == base].set_index(keys)["median"]
    same = table.set_index(keys).index.map(of_base).to_numpy()
    ours = table.method.str.startswith(DEFAULT).to_numpy()
    others = np.where((table.method == base).to_numpy(), same, 0.1 * same)
    return table.assign(median=np.where(ours, times * same, others))


def look_at(figure: Any) -> None:
    """Every panel has labels and finite data in it, and the figure a legend."""
    assert figure.legends
    for axes in figure.axes:
        assert axes.get_title()
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        lines = [line for line in axes.get_lines() if line.get_marker() != "None"]
        assert len(lines) >= 4
        assert all(np.isfinite(line.get_ydata()).all() for line in lines)
        assert len(axes.collections) == len(lines)  # each with its band
