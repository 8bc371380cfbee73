"""Regressions from a matrix: against numpy, and what is said when the noise wins."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpspark.analysis.least_squares import NOT_IDENTIFIED, RegressionResult
from dpspark.analysis.ols import Moments, NotIdentified, solve, sweep
from dpspark.core.formula import Formula
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.published.gram import GramRelease
from tests.conftest import release_of

TERMS = ("(intercept)", "a", "b", "y", "s[f]", "s[m]")
MIDDLE = np.array([1.0, 50.0, -3.0, 2.2e4, 0.0, 0.0])
HALF = np.array([0.0, 30.0, 2.0, 2.5e4, 1.0, 1.0])


def data(n: int = 4000, seed: int = 0, spread: float = 5000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(20, 80, n), rng.uniform(-5, -1, n)
    f = rng.integers(0, 2, n)
    y = 1000 + 300 * a - 2000 * b + 500 * f + rng.normal(0, spread, n)
    return np.column_stack([np.ones(n), a, b, y, f, 1 - f])


def moments(rows: np.ndarray, noise: float = 0.0, seed: int = 0) -> Moments:
    """Noise on the scaled matrix, symmetric shape."""
    exact = Moments.from_original(TERMS, rows.T @ rows, MIDDLE, HALF, AdditiveNoise(1e-9, 1e-9))
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.normal(0, noise, exact.scaled.shape), 1)
    scaled = exact.scaled + upper + upper.T + np.diag(rng.normal(0, noise * math.sqrt(2), len(TERMS)))
    return Moments(TERMS, scaled, MIDDLE, HALF, AdditiveNoise(noise * math.sqrt(2) or 1e-9, noise or 1e-9))


def result(m: Moments, formula: Formula, level: float = 0.95) -> RegressionResult:
    return RegressionResult(m, formula, level, lambda frame, term: np.asarray(frame[term], dtype=float), "test")


@pytest.mark.parametrize(
    ("response", "regressors", "intercept"),
    [
        *((response, (), True) for response in ("y", "s[f]")),
        *(
            (response, regressors, i)
            for response in ("y", "s[f]")
            for regressors in (("a",), ("a", "b"))
            for i in (True, False)
        ),
        *(("y", ("a", "b", "s[m]"), i) for i in (True, False)),
    ],
)
def test_without_noise_it_is_ordinary_least_squares(
    response: str, regressors: tuple[str, ...], intercept: bool
) -> None:
    rows = data()
    fit = result(moments(rows), Formula(response, regressors, intercept))
    x = rows[:, ([0] if intercept else []) + [TERMS.index(r) for r in regressors]]
    y = rows[:, TERMS.index(response)]
    beta, rss, *_ = np.linalg.lstsq(x, y, rcond=None)
    sigma2 = float(rss[0]) / (len(y) - x.shape[1])
    errors = np.sqrt(np.diag(sigma2 * np.linalg.inv(x.T @ x)))
    assert list(fit.params.values()) == pytest.approx(beta, rel=1e-7)
    assert list(fit.std_errors.values()) == pytest.approx(errors, rel=1e-6)
    assert fit.sigma2 == pytest.approx(sigma2, rel=1e-7)
    total = ((y - y.mean()) ** 2).sum() if intercept else (y**2).sum()
    assert fit.rsquared == pytest.approx(1 - float(rss[0]) / total, rel=1e-6)
    low, high = next(iter(fit.conf_int(0.9).values()))
    assert high - low == pytest.approx(2 * errors[0] * stats.t.isf(0.05, len(y) - x.shape[1]), rel=1e-6)
    test = fit.f_test()
    if intercept and regressors:
        r2, q = fit.rsquared, len(regressors)
        assert test is not None
        assert test.statistic == pytest.approx((r2 / q) / ((1 - r2) / fit.df), rel=1e-6)


def test_sweep_twice_is_the_identity() -> None:
    rng = np.random.default_rng(4)
    a = rng.normal(size=(6, 5))
    matrix = a.T @ a
    swept = sweep(matrix, 3)
    assert swept[:3, :3] == pytest.approx(-np.linalg.inv(matrix[:3, :3]))
    assert swept[3:, 3:] == pytest.approx(
        matrix[3:, 3:] - matrix[3:, :3] @ np.linalg.solve(matrix[:3, :3], matrix[:3, 3:])
    )


def test_privacy_covariance_is_that_of_repeated_noise() -> None:
    """Kills: naive standard errors; a wrong Omega. 3000 draws of noise on fixed rows: 6 standard errors are 8%."""
    rows = data()
    formula = Formula("y", ("a", "b", "s[m]"), True)
    for shape in ("symmetric", "spherical", "count exact"):
        rng = np.random.default_rng(9)
        exact = moments(rows)
        diagonal = 2.0 * math.sqrt(2) if shape == "symmetric" else 2.0
        estimates, stated = [], []
        for _ in range(3000):
            upper = np.triu(rng.normal(0, 2.0, exact.scaled.shape), 1)
            noise = upper + upper.T + np.diag(rng.normal(0, diagonal, len(TERMS)))
            noise[0, 0] *= shape != "count exact"
            drawn = Moments(
                TERMS, exact.scaled + noise, MIDDLE, HALF, AdditiveNoise(diagonal, 2.0, shape == "count exact")
            )
            solution = solve(drawn, formula)
            estimates.append(solution.estimates)
            stated.append(np.diag(solution.privacy))
        assert np.std(estimates, axis=0) == pytest.approx(np.sqrt(np.mean(stated, axis=0)), rel=0.08)


def test_residual_variance_is_not_biased_by_the_noise() -> None:
    """Kills: RSS without + tr(H·Omega). kappa is about 4, where that is 3% of sigma²: six standard errors of the mean."""
    rows = data(spread=11_000)
    formula = Formula("y", ("a", "b"), True)
    truth = solve(moments(rows), formula).sigma2
    fits = [solve(moments(rows, 100.0, seed), formula) for seed in range(2500)]
    found = [fit.sigma2 for fit in fits]
    error = np.std(found) / math.sqrt(len(found))
    assert abs(np.mean(found) - truth) < 4 * error
    bias = np.mean([np.trace(np.linalg.solve(fit.sampling / fit.sigma2, fit.privacy)) / fit.df for fit in fits])
    assert bias > 6 * error  # the correction is what makes the difference


@pytest.mark.parametrize(
    ("rows", "noise", "words"),
    [(data(4000), 900.0, "definite|kappa"), (data(3), 1e-6, "coefficients"), (data(400), 40.0, "definite|kappa")],
)
def test_not_identified(rows: np.ndarray, noise: float, words: str) -> None:
    fit = result(moments(rows, noise), Formula("y", ("a", "b", "s[m]"), True))
    assert fit.status == NOT_IDENTIFIED
    assert all(math.isnan(value) for value in fit.params.values())
    assert "NOT IDENTIFIED" in fit.summary()
    assert re.search(words, fit.summary())
    shown = json.loads(json.dumps(fit.to_dict(), allow_nan=False))
    assert shown["status"] == NOT_IDENTIFIED
    assert shown["terms"][0]["estimate"] is None


def test_collinear_regressors_are_not_identified() -> None:
    with pytest.raises(NotIdentified):
        solve(moments(data(), 1.0), Formula("y", ("s[f]", "s[m]"), True))


def test_negative_residuals_are_not_identified() -> None:
    m = moments(data())
    m.scaled[3, 3] -= 1e9
    with pytest.raises(NotIdentified, match="residual"):
        solve(m, Formula("y", ("a",), True))


def test_table_reads_like_r() -> None:
    text = result(moments(data()), Formula("y", ("a", "b"), True)).summary()
    for part in ("Estimate", "Std. Error", "t value", "Pr(>|t|)", "***", "95% interval", "Signif. codes", "<2e-16"):
        assert part in text
    assert "Residual standard error" in text
    assert "R-squared" in text
    assert max(len(line) for line in text.splitlines()) < 130


def test_predict_and_vcov() -> None:
    rows = data()
    fit = result(moments(rows), Formula("y", ("a", "b"), True))
    predicted = fit.predict({"a": [30.0, 40.0], "b": [-2.0, -4.0]})
    expected = [fit.params["(intercept)"] + fit.params["a"] * a + fit.params["b"] * b for a, b in ((30, -2), (40, -4))]
    assert predicted == pytest.approx(expected)
    vcov = fit.vcov()
    assert math.sqrt(vcov.loc["a", "a"]) == pytest.approx(fit.std_errors["a"])
    one = fit.f_test(["a"])
    assert one is not None
    assert one.statistic == pytest.approx(fit.tvalues["a"] ** 2)
    assert list(fit.to_frame().index) == ["(intercept)", "a", "b"]


def released(conf: dict[str, Any]) -> GramRelease:
    rng = np.random.default_rng(5)
    made = {**conf, "columns": {**conf["columns"], "hours worked": {"lower": 0, "upper": 80}}}
    columns = {
        "age": rng.uniform(18, 99, 20_000),
        "educ": rng.uniform(1, 16, 20_000),
        "income": rng.uniform(0, 9e4, 20_000),
        "sex": rng.choice(["F", "M"], 20_000),
        "hours worked": rng.uniform(0, 80, 20_000),
    }
    return release_of(made, columns)


@pytest.mark.parametrize("unknown", ["X", "f", None, 1])
def test_an_unknown_category_has_no_prediction(conf: dict[str, Any], unknown: Any) -> None:
    """Kills: the first category's prediction for a category that the release does not know; a message that quotes it."""
    fit = released(conf).regress("income ~ age + sex")
    assert len(fit.predict({"age": [30, None], "sex": ["F", "M"]})) == 2
    with pytest.raises(ConfError, match=r"column 'sex' has a null, or .* none of its categories: 'F', 'M'\.$"):
        fit.predict({"age": [30], "sex": [unknown]})


def test_a_printed_formula_can_be_used_again(conf: dict[str, Any]) -> None:
    """Kills: a repr or a summary that drops the backticks around a name with a space."""
    rel = released(conf)
    fit = rel.regress("income ~ `hours worked` + sex")
    assert repr(fit).startswith("RegressionResult(income ~ `hours worked` + sex[M], ")
    assert fit.summary().startswith("income ~ `hours worked` + sex[M]\n")
    assert rel.regress(fit.to_dict()["formula"]).params == fit.params


def test_one_group_of_a_release_without_groups(conf: dict[str, Any]) -> None:
    """Kills: an AttributeError in the place of a sentence."""
    with pytest.raises(ConfError, match="is not a release by group"):
        released(conf).group(sex="F")
