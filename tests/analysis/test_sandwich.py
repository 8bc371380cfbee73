"""Sandwiches from noisy meats: unbiased, with the noise that they say, and intervals that cover."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpspark.analysis.ols import Moments, solve
from dpspark.analysis.options import Asked
from dpspark.analysis.sandwich import (
    LEAST_VARIANCE,
    MOST_NOISE,
    QUIET,
    NotRobust,
    ReleasedMeat,
    _floored,
    bread_of,
    quiet_clip,
    residual_coefficients,
    robust_solution,
    without_negative,
)
from dpspark.core.formula import Formula
from dpspark.mechanisms.errors.clip import widened
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from experiments.array_rows import release_arrays
from experiments.noise import ExperimentNoise

TERMS = ("(intercept)", "x", "z", "y")
FORMULA = Formula("y", ("x", "z"), True)
HALF = np.array([0.0, 2.0, 3.0, 5.0])
MIDDLE = np.array([1.0, 1.0, -1.0, 4.0])
CLIP = 0.95


def design(rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x, z = rng.uniform(-1, 1, (2, rows))
    z = 0.8 * x + 0.2 * z
    y = 0.3 * x - 0.2 * z + (0.45 + 0.1 * x**2) * rng.uniform(-1.7, 1.7, rows)
    return np.column_stack([np.ones(rows), x, z]), y


def released(e: np.ndarray, n: np.ndarray, tau: float, sigma: float) -> tuple[Moments, ReleasedMeat]:
    """The matrix and the meat of the design with noise E and N, which are of these sizes."""
    x, y = design()
    both = np.column_stack([x, y])
    beta = np.linalg.solve(x.T @ x, x.T @ y)
    r = np.clip(y - x @ beta, -CLIP, CLIP)
    meat = (x * (r**2 - CLIP**2 / 2)[:, None]).T @ x
    law = AdditiveNoise(tau, tau)
    moments = Moments(TERMS, both.T @ both + e, MIDDLE, HALF, law)
    return moments, ReleasedMeat("hc1", "y ~ x + z", FORMULA, TERMS[:3], meat + n, AdditiveNoise(sigma, sigma), CLIP)


def noise(rng: np.random.Generator, width: int, std: float) -> np.ndarray:
    drawn = np.triu(rng.normal(0, std, (width, width)))
    return drawn + np.triu(drawn, 1).T


def white(e: np.ndarray | None = None) -> np.ndarray:
    """HC1 in original units; of a matrix with noise, if it is given."""
    x, y = design()
    bread = np.linalg.inv(x.T @ x)
    r = y - x @ (bread @ (x.T @ y))
    bread = bread if e is None else np.linalg.inv(x.T @ x + e)
    covariance = bread @ ((x * (r**2)[:, None]).T @ x) @ bread * len(y) / (len(y) - 3)
    back = np.array([[5.0, -2.5, 5 / 3], [0, 2.5, 0], [0, 0, 5 / 3]])
    return back @ covariance @ back.T


def test_without_noise_it_is_that_of_white() -> None:
    moments, meat = released(np.zeros((4, 4)), np.zeros((3, 3)), 1e-9, 1e-9)
    found, df = robust_solution(moments, FORMULA, meat, solve(moments, FORMULA))
    assert found.sampling == pytest.approx(white(), rel=1e-9)
    assert df == pytest.approx(3997, rel=1e-6)


def test_the_noise_is_as_large_as_said_and_has_no_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: no second-order term, one of the wrong sign, a share of the noise that is 15% off.

    The sampling variance of estimates from a noisy matrix is H M H with that matrix's H, of which the mean is taken over the
    same draws. They come in pairs of both signs, so that means are known to 0.1%; the term is 4 to 5%.
    """
    monkeypatch.setattr("dpspark.analysis.sandwich.MOST_NOISE", 1.0)
    rng, tau, sigma = np.random.default_rng(8), 3.0, 0.5
    drawn, freedoms, true = [], [], []
    for _ in range(400):
        e, n = noise(rng, 4, tau), noise(rng, 3, sigma)
        for sign in (-1, 1):
            moments, meat = released(sign * e, sign * n, tau, sigma)
            found, df = robust_solution(moments, FORMULA, meat, solve(moments, FORMULA))
            drawn.append(np.diag(found.sampling))
            freedoms.append(df)
            true.append(np.diag(white(sign * e[:3, :3])))
    values, privacy = np.array(drawn), np.diag(solve(*_exact(tau)).privacy)
    share = values.std(axis=0) / (np.diag(white()) + privacy)
    said = np.sqrt(2 * (1 / np.median(freedoms, axis=0) - 1 / 3997))
    assert share == pytest.approx(said, rel=0.15)
    assert values.mean(axis=0) == pytest.approx(np.mean(true, axis=0), rel=0.015)


def _exact(tau: float) -> tuple[Moments, Formula]:
    return released(np.zeros((4, 4)), np.zeros((3, 3)), tau, 1.0)[0], FORMULA


def test_too_much_noise_is_told() -> None:
    moments, meat = released(np.zeros((4, 4)), np.zeros((3, 3)), 1.0, 1.0)
    loud = replace(meat, noise=AdditiveNoise(1e4, 1e4))
    with pytest.raises(
        NotRobust, match=rf"robust variance of .*, more than {MOST_NOISE:.0%}: equal variances are assumed"
    ):
        robust_solution(moments, FORMULA, loud, solve(moments, FORMULA))


def test_too_much_beyond_the_clip_is_told() -> None:
    moments, meat = released(np.zeros((4, 4)), np.zeros((3, 3)), 1.0, 1.0)
    squares = moments.scaled[:3, :3]
    tight = replace(meat, clip=0.05, matrix=-0.9 * 0.05**2 / 2 * squares)
    with pytest.raises(NotRobust, match="less than two thirds of their squares"):
        robust_solution(moments, FORMULA, tight, solve(moments, FORMULA))


def test_variances_have_a_floor() -> None:
    """Kills: a variance of next to nothing by a draw of the noise. Correlations stay as they are."""
    found = _floored(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([2.0, 16.0]))
    assert found == pytest.approx(np.array([[1.0, 1.0], [1.0, 16 * LEAST_VARIANCE]]))
    assert np.linalg.eigvalsh(without_negative(np.array([[1.0, 1.1], [1.1, 1.0]])))[0] == pytest.approx(0.0, abs=1e-12)


def test_a_clip_is_as_wide_as_the_noise_allows() -> None:
    """Kills: a clip whose noise is not what was aimed at."""
    moments, meat = released(np.zeros((4, 4)), np.zeros((3, 3)), 1e-6, 1.0)
    plain = solve(moments, FORMULA)
    unit = AdditiveNoise(40.0, 40.0)
    bread = bread_of(moments, FORMULA, plain)
    clip = quiet_clip(bread, bread.regressors[:3], unit, moments)
    noisy = replace(meat, noise=AdditiveNoise(40 * clip**2 / 2, 40 * clip**2 / 2))
    _, df = robust_solution(moments, FORMULA, noisy, plain)
    shares = np.sqrt(2 * (1 / df - 1 / 3997)) * np.diag(white()) / np.diag(plain.sampling)
    assert shares.max() == pytest.approx(QUIET, rel=0.02)
    assert widened(0.5, 0.1, 9) == 0.5
    assert widened(0.5, 1.013, 9) == 1.0
    assert widened(0.5, 77.0, 9) == 2.0
    assert widened(3.0, 77.0, 9) == 3.0
    assert 0.7 < widened(0.5, 77.0, 1) <= 0.75
    assert widened(0.5, 0.1, 1) == 0.5


def test_coefficients_come_out_of_any_matrix() -> None:
    moments, _ = released(np.zeros((4, 4)), np.zeros((3, 3)), 1.0, 1.0)
    x, y = design()
    assert residual_coefficients(moments, FORMULA, TERMS[:3]) == pytest.approx(np.linalg.lstsq(x, y, rcond=None)[0])
    negative = replace(moments, scaled=moments.scaled - 5000 * np.eye(4))
    assert np.isfinite(residual_coefficients(negative, FORMULA, TERMS[:3])).all()
    without = residual_coefficients(moments, Formula("y", ("x", "z"), False), TERMS[:3])
    raw = np.column_stack([1 + 2 * x[:, 1], -1 + 3 * x[:, 2]])
    slopes = np.linalg.lstsq(raw, 4 + 5 * y, rcond=None)[0]
    assert y - x @ without == pytest.approx((4 + 5 * y - raw @ slopes) / 5)


@pytest.mark.parametrize("kind", ["gram", "regression"])
def test_intervals_cover_where_variances_differ(kind: str) -> None:
    """300 samples, released by the product's own code. False alarms: below 1e-6 at a coverage of 95%.

    Kills: standard errors that ignore the meat, or use it wrongly: with equal variances 84% or so are covered.
    """
    release: dict[str, Any] = {"name": "a", "version": "1", "kind": kind, "errors": "hc1"}
    release |= {"regressions": ["y ~ x"]} if kind == "gram" else {"response": "y"}
    spec = load_spec(
        {
            "columns": {"x": {"lower": -1, "upper": 1}, "y": {"lower": -2, "upper": 2}},
            "source": {"dataframe": True},
            "privacy": {"epsilon": 20.0, "delta": 1e-6},
            "release": release,
            "ledger": {"dataset": "d"},
        }
    )
    rng, mechanism, formula = np.random.default_rng(6), choose(spec), "y ~ x" if kind == "gram" else None
    held = {"hc1": 0, "classical": 0}
    for _ in range(300):
        x = rng.uniform(-1, 1, 3000)
        y = 0.2 * x + 0.4 * x**2 * rng.normal(size=3000)
        content = release_arrays(spec, mechanism, {"x": x, "y": y}, ExperimentNoise(rng))
        for errors in held:
            fit = content.regress(Asked(formula, errors=errors))
            assert fit.errors == errors
            low, high = fit.conf_int()["x"]
            held[errors] += low <= 0.2 <= high
    assert 263 <= held["hc1"] <= 300
    assert held["classical"] < 263
