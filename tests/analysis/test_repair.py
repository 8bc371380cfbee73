"""Repairs of a noisy matrix: what they do, what they say, and that nothing changes without one."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import numpy as np
import pytest

from dpspark.analysis.ols import Moments
from dpspark.analysis.repair import Repair, solve_repaired
from dpspark.core.formula import Formula
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.noisy import AdditiveNoise, SamplingNoise
from dpspark.mechanisms.gram.simulated import draw_noise, expected_norm
from dpspark.mechanisms.gram.wishart import safe_ridge
from dpspark.published.gram import GramRelease
from dpspark.spec.spec import load_spec
from tests.conftest import release_of


def people(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(11)
    age, educ = rng.integers(18, 99, n), rng.integers(1, 17, n)
    return {"age": age, "educ": educ, "income": 700 * age + 3000 * educ + rng.normal(0, 2e4, n)}


def small(conf: dict[str, Any], n: int = 60, mechanism: dict[str, Any] | None = None, **privacy: Any) -> GramRelease:
    """So few rows that the noise makes the matrix indefinite."""
    conf = copy.deepcopy(conf)
    del conf["columns"]["sex"]
    conf["privacy"] = {"epsilon": 1.0, "delta": 1e-9, **privacy}
    conf["mechanism"] = mechanism or {}
    return release_of(conf, people(n), seed=4)


def test_expected_norm_is_that_of_the_noise() -> None:
    """Against the closed form for a 1 × 1 matrix and an independent simulation. Kills: a quantile, another dimension."""
    assert expected_norm(AdditiveNoise(3.0, 2.0), 1, False) == pytest.approx(3 * math.sqrt(2 / math.pi), rel=0.03)
    assert expected_norm(AdditiveNoise(3.0, 2.0, True), 1, True) == 0.0
    rng = np.random.default_rng(8)
    e = np.triu(rng.normal(0, 2.0, (3000, 5, 5)), 1)
    e = e + np.swapaxes(e, 1, 2) + 3.0 * np.eye(5) * rng.normal(size=(3000, 1, 5))
    found = np.abs(np.linalg.eigvalsh(e)).max(axis=1).mean()
    assert expected_norm(AdditiveNoise(3.0, 2.0), 5, False) == pytest.approx(found, rel=0.02)
    few, many = (expected_norm(SamplingNoise(r, 50.0), 4, False) for r in (100, 10_000))
    assert few / many == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(
    "noise",
    [
        AdditiveNoise(3.0, 2.0),
        AdditiveNoise(2.0, 2.0, law="laplace"),
        AdditiveNoise(2.0 * math.sqrt(2), 2.0, law="wishart", degrees=40),
        SamplingNoise(300, 7.0),
    ],
)
def test_draws_are_like_the_model(noise: AdditiveNoise | SamplingNoise) -> None:
    """Cov(E w) over 40,000 draws against `along`: 4%."""
    scaled = np.diag([40.0, 13.0, 14.0]) + 1.0
    w = np.array([1.0, -0.4, 0.3])
    drawn = draw_noise(noise, scaled, True, np.random.default_rng(0), 40_000)
    assert np.abs(drawn.mean(axis=0)).max() < 0.15
    found, stated = np.cov((drawn @ w).T), noise.along(w, scaled)
    assert np.diag(found) == pytest.approx(np.diag(stated), rel=0.04)
    assert found == pytest.approx(stated, abs=0.04 * stated.max())


@pytest.mark.parametrize("how", ["ridge", "eigen", "nearest_psd"])
def test_repaired_matrices_are_positive(conf: dict[str, Any], how: str) -> None:
    rel = small(conf)
    stored = rel.second_moment().to_numpy()
    scaled = rel.content.moments.scaled
    assert np.linalg.eigvalsh(scaled)[0] < 0
    repaired = Repair(how).matrix(rel.content.moments)
    values = np.linalg.eigvalsh(repaired)
    if how == "eigen":
        positive = np.linalg.eigvalsh(scaled)
        assert values[0] == pytest.approx(positive[positive > 0][0])
    elif how == "nearest_psd":
        assert values[0] == pytest.approx(0, abs=1e-9 * values[-1])
    else:
        added = repaired - scaled
        assert added == pytest.approx(expected_norm(rel.noise, 4, True) * np.eye(4), rel=1e-9, abs=1e-9)
    assert rel.repaired(how).to_numpy() == pytest.approx(rel.second_moment(repair=how).to_numpy())
    assert not np.allclose(rel.repaired(how).to_numpy(), stored)
    assert rel.second_moment("none").to_numpy() == pytest.approx(stored)


def test_the_release_s_own_default(conf: dict[str, Any]) -> None:
    """What is stored stays unrepaired; on reading, the conf's choice is the default."""
    plain, repaired = small(conf), small(conf, mechanism={"name": "gaussian", "repair": "ridge"})
    assert plain.manifest["mechanism"]["repair"] == "none"
    assert repaired.manifest["mechanism"]["repair"] == "ridge"
    assert plain.tables["second_moment"] == repaired.tables["second_moment"]
    assert repaired.second_moment().equals(plain.repaired("ridge"))
    assert repaired.covariance().equals(plain.covariance("ridge"))
    assert repaired.second_moment("none").equals(plain.second_moment())
    assert repaired.regress("income ~ age").repair == "ridge"
    assert plain.regress("income ~ age").repair == "none"


def test_a_ridge_fit_says_that_it_predicts(conf: dict[str, Any]) -> None:
    """Drowned by noise: predictions without any interval, and everyone is told so."""
    rel = small(conf, 100)
    assert rel.regress("income ~ age + educ").status == "NOT_IDENTIFIED"
    fit = rel.regress("income ~ age + educ", repair="ridge")
    shown = json.loads(json.dumps(fit.to_dict(), allow_nan=False))
    assert (shown["status"], shown["repair"], shown["estimates_are"]) == ("OK", "ridge", "predictions")
    assert shown["interval_of"] == "none"
    for term in shown["terms"]:
        assert term["estimate"] is not None
        assert {term[key] for key in ("std_error", "ci_low", "ci_high", "t", "p_value")} == {None}
    assert "to predict with" in fit.summary()
    assert "No 95% interval is given" in fit.summary()
    assert fit.f_test() is None
    assert np.isfinite(fit.predict({"age": [30], "educ": [9]})).all()


def test_a_ridge_fit_shows_least_squares_intervals_where_they_hold(conf: dict[str, Any]) -> None:
    rel = small(conf, 20_000)
    plain, fit = rel.regress("income ~ age + educ"), rel.regress("income ~ age + educ", repair="ridge")
    assert fit.interval_of == "unrepaired least squares"
    assert fit.conf_int() == plain.conf_int()
    assert fit.params["educ"] < plain.params["educ"]  # shrunk
    assert "not of the predictions" in fit.summary()
    assert fit.to_dict()["terms"][1]["std_error"] is None
    # Nothing negative: these repairs change nothing, and least squares stays what it is.
    for how in ("eigen", "nearest_psd"):
        same = rel.regress("income ~ age + educ", repair=how)
        assert same.to_dict() == {**plain.to_dict(), "repair": how}
        assert "nothing to repair" in same.summary()


def test_ridge_of_a_regression_is_that_of_its_own_block() -> None:
    """By hand, in scaled coordinates. Kills: the whole matrix's ridge; one on the response too."""
    scaled = np.array([[100.0, 5, 9], [5, 30, 12], [9, 12, 33]])
    noise = AdditiveNoise(14.0, 10.0)
    moments = Moments(("(intercept)", "a", "y"), scaled, np.array([1.0, 0, 0]), np.array([0.0, 1, 1]), noise)
    ridge = expected_norm(noise, 2, True)
    found = solve_repaired(moments, Formula("y", ("a",), True), Repair("ridge")).estimates
    assert found == pytest.approx(np.linalg.solve(scaled[:2, :2] + ridge * np.eye(2), scaled[:2, 2]))


def test_ridge_predicts_better_than_least_squares_when_noise_is_large() -> None:
    """The reason for it: mean squared error of the slopes at kappa about 1, over 400 draws of noise."""
    rng = np.random.default_rng(2)
    exact = np.array([[300.0, 0, 0, 30], [0, 100, 0, 50], [0, 0, 100, 20], [30, 50, 20, 80]])
    noise, formula = AdditiveNoise(30.0 * math.sqrt(2), 30.0), Formula("y", ("a", "b"), True)
    truth = np.linalg.solve(exact[:3, :3], exact[:3, 3])
    errors = []
    for _ in range(400):
        e = draw_noise(noise, exact, True, rng, 1)[0]
        moments = Moments(
            ("(intercept)", "a", "b", "y"), exact + e, np.array([1.0, 0, 0, 0]), np.array([0.0, 1, 1, 1]), noise
        )
        ridge = solve_repaired(moments, formula, Repair("ridge")).estimates
        plain = np.linalg.solve(moments.scaled[:3, :3], moments.scaled[:3, 3])
        errors.append([np.sum((ridge - truth) ** 2), np.sum((plain - truth) ** 2)])
    assert np.mean(errors, axis=0)[0] < 0.3 * np.mean(errors, axis=0)[1]


def test_safe_wishart_output_stays_positive(conf: dict[str, Any]) -> None:
    """S = 0, the worst case: never below zero in 2000 draws at delta = 1e-3, where the de-biased matrix always is.

    Kills: taking off more than σ²(√k − √d − t)².
    """
    noise = AdditiveNoise(math.sqrt(2 * 200) * 1.5, math.sqrt(200) * 1.5, law="wishart", degrees=200)
    drawn = draw_noise(noise, np.zeros((4, 4)), True, np.random.default_rng(1), 2000)
    least = np.linalg.eigvalsh(drawn)[:, 0]
    added = safe_ridge(200, 1.5, 4, 1e-3)
    assert np.mean(least < 0) > 0.99
    assert (least + added > 0).all()
    assert added < 200 * 1.5  # it does take something off
    rel = small(conf, mechanism={"name": "wishart", "repair": "safe"})
    assert rel.manifest["mechanism"]["repair"] == "safe"
    assert np.linalg.eigvalsh(rel.repaired().to_numpy())[0] > 0
    assert np.linalg.eigvalsh(rel.second_moment("none").to_numpy())[0] < 0
    fit = rel.regress("income ~ age")
    assert (fit.repair, fit.status, fit.interval_of) == ("safe", "OK", "none")


def test_what_cannot_be_is_refused(conf: dict[str, Any]) -> None:
    rel = small(conf)
    with pytest.raises(ConfError, match="expected one of none, ridge"):
        rel.repaired("glue")
    with pytest.raises(ConfError, match="for mechanism wishart"):
        rel.regress("income ~ age", repair="safe")
    with pytest.raises(ConfError, match="is for wishart"):
        load_spec({**conf, "mechanism": {"name": "gaussian", "repair": "safe"}})
    with pytest.raises(ConfError, match="expected one of delta, bootstrap"):
        rel.regress("income ~ age", interval="jackknife")
    regression = {**conf, "release": {**conf["release"], "kind": "regression", "response": "income"}}
    with pytest.raises(ConfError, match="repair is not an option"):
        load_spec({**regression, "mechanism": {"name": "adassp", "repair": "ridge"}})


def test_bootstrap_intervals_repeat_and_say_so(conf: dict[str, Any]) -> None:
    rel = small(conf, 20_000)
    fit, again = (rel.regress("income ~ age + educ", interval="bootstrap") for _ in range(2))
    assert fit.conf_int() == again.conf_int()
    assert fit.to_dict()["interval"] == "bootstrap"
    assert "bootstrap" in fit.summary()
    plain = rel.regress("income ~ age + educ")
    assert "bootstrap" not in plain.summary()
    for term in fit.terms:
        assert fit.std_errors[term] == plain.std_errors[term]
        (low, high), (a, b) = fit.conf_int()[term], plain.conf_int()[term]
        assert high - low == pytest.approx(b - a, rel=0.15)
        narrow = fit.conf_int(0.5)[term]
        assert low < narrow[0] < narrow[1] < high
