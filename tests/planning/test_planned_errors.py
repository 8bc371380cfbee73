"""The planner's standard errors against those of simulated releases of the demo data: real bounding, mechanisms, analysis."""

from __future__ import annotations

import copy
import math
import re
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpspark.analysis.fit import RegressionFit
from dpspark.analysis.ols import Moments, solve
from dpspark.analysis.options import Asked
from dpspark.core.domain import Categorical, Domain, Numeric
from dpspark.core.formula import Formula
from dpspark.demo.microdata import calibrate, microdata_batch
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.mechanisms.gram.coordinates import centre_and_scale
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.mechanisms.regression.statistics import StatisticsNoise
from dpspark.planning import plan
from dpspark.planning.predict import Prediction
from dpspark.planning.setting import settle
from dpspark.planning.target import Target, reach
from dpspark.spec.choose import choose, choose_gram, choose_regression
from dpspark.spec.spec import load_spec
from experiments.array_rows import release_arrays
from experiments.rows import ArrayRows
from tests.manifests import conf_of as conf_with
from tests.noises import SeededNoise

ROWS, DRAWS, FEWER = 20_000, 1000, 150
FORMULA, PARSED = "income ~ age + educ + sex", Formula("income", ("age", "educ", "sex[M]"), True)
GRAM = {
    "gaussian": {"epsilon": 0.5, "delta": 1e-9},
    "laplace": {"epsilon": 0.5},
    "wishart": {"epsilon": 0.5, "delta": 1e-9},
    "johnson_lindenstrauss": {"epsilon": 0.5, "delta": 1e-9},
    "inverse_wishart": {"epsilon": 0.5, "delta": 1e-9},
}


@lru_cache(maxsize=1)
def people() -> dict[str, np.ndarray]:
    batch = microdata_batch(0, ROWS, 7, calibrate())
    return {name: batch.column(name).to_numpy(zero_copy_only=False) for name in ("age", "educ", "income", "sex")}


def demo(**changes: Any) -> dict[str, Any]:
    return {
        "columns": {
            "age": {"lower": 18, "upper": 95},
            "educ": {"lower": 1, "upper": 16},
            "income": {"lower": 0, "upper": 300000},
            "sex": {"categories": ["F", "M"]},
        },
        "privacy": {"epsilon": 0.5, "delta": 1e-9},
        "release": {"name": "demo", "version": "1", "expected_rows": ROWS},
        "ledger": {"dataset": "demo"},
        **copy.deepcopy(changes),
    }


def guess_of(domain: Domain) -> dict[str, Any]:
    """What a steward who knew the people would write down."""
    rows, guess = {}, {"rows": ROWS, "means": {}, "sds": {}, "shares": {}, "correlations": {}}
    for column in domain.columns:
        values = people()[column.name]
        if isinstance(column, Numeric):
            rows[column.name] = values.clip(column.lower, column.upper).astype(float)
            guess["means"][column.name] = float(rows[column.name].mean())  # type: ignore[index]
            guess["sds"][column.name] = float(rows[column.name].std())  # type: ignore[index]
        else:
            assert isinstance(column, Categorical)
            guess["shares"][column.name] = {c: float((values == c).mean()) for c in column.categories}  # type: ignore[index]
            rows |= {term: (values == term[-2]).astype(float) for term in column.terms}
    names, correlation = list(rows), np.corrcoef(list(rows.values()))
    for i, one in enumerate(names):
        for j, other in enumerate(names[:i]):
            if one[:3] != other[:3]:
                guess["correlations"][f"{other},{one}"] = float(correlation[i, j])  # type: ignore[index]
    return guess


def exact(domain: Domain) -> ExactGram:
    accumulator = GramAccumulator(domain)
    accumulator.add([pa.array(people()[column.name]) for column in domain.columns], ROWS)
    return ExactGram.from_partials(domain, [accumulator.finish()])


class Rows:
    """For a mechanism of kind regression."""

    def __init__(self, gram: ExactGram):
        self._gram = gram

    def gram(self, domain: Domain) -> ExactGram:
        return self._gram

    def gradient(self, *_: Any) -> Any:
        raise NotImplementedError


@lru_cache(maxsize=16)
def released(name: str, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and the standard errors that releases of these people state, a row each."""
    spec = load_spec(conf_of(name, kind))
    noise, found = SeededNoise(np.random.default_rng(5)), []
    if kind == "regression":
        one = choose_regression(spec)
        rows = Rows(exact(one.domain))
        for i in range(DRAWS if name in ("gram_ridge", "ssp") else FEWER):  # a bootstrap in each of the others
            made = one.release(rows, noise, lambda _: None)
            fit = RegressionFit(one.domain, {"name": name, **one.facts()}, made.theta, made.statistics, i)
            found.append((list(fit.params.values()), list(fit.std_errors.values())))
        return np.array([f[0] for f in found]), np.array([f[1] for f in found])
    gram = choose_gram(spec)
    domain, matrix, at = gram.domain, exact(gram.domain), np.triu_indices(gram.domain.width)
    for _ in range(FEWER if name == "inverse_wishart" else DRAWS):  # its sampler is slow
        noisy = gram.release(matrix, noise)
        scaled = np.zeros((domain.width, domain.width))
        scaled[at] = [value / domain.steps_per_row for value in noisy.upper]
        scaled = np.triu(scaled, 1) + scaled.T
        moments = Moments(domain.terms, scaled, *centre_and_scale(domain), noisy.noise)
        solution = solve(moments.given(domain.known), PARSED)
        found.append((solution.estimates, np.sqrt(np.diag(solution.sampling + solution.privacy))))
    return np.array([f[0] for f in found]), np.array([f[1] for f in found])


def conf_of(name: str, kind: str = "gram") -> dict[str, Any]:
    if kind == "gram":
        return demo(mechanism={"name": name}, privacy=GRAM[name])
    release = {"name": "demo", "version": "1", "kind": "regression", "response": "income", "expected_rows": ROWS}
    return demo(
        mechanism={"name": name, **({"radius": 2.0} if name == "objective" else {})},
        privacy={"epsilon": 1.0 if name == "objective" else 0.5, "delta": 1e-9},
        release=release,
    )


def predicted(name: str, kind: str = "gram") -> Prediction:
    conf = conf_of(name, kind)
    return plan(conf, FORMULA if kind == "gram" else (), guess_of(load_spec(conf).domain)).fits[0].prediction


def off(prediction: np.ndarray, truth: np.ndarray) -> float:
    return float(np.abs(prediction / truth - 1).max())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, "gram") for name in GRAM),
        *((name, "regression") for name in ("gram_ridge", "ssp", "adassp", "objective")),
    ],
)
def test_predicted_standard_errors_are_those_of_releases(name: str, kind: str) -> None:
    """Within 10% of what releases state (their median), and of how far their estimates really scatter. Seed 5.

    The scatter of 1000 (150) estimates is known to 2.2% (5.8%), so that a right prediction misses by 10% (20%) with probability
    below 1e-5 (1e-3) a coefficient. The privacy part is over 85% of these errors. Kills: Ω left out, or of another mechanism.
    """
    found = predicted(name, kind)
    estimates, stated = released(name, kind)
    assert found.status == "OK"
    assert off(found.std_errors, np.nanmedian(stated, axis=0)) < 0.1
    assert off(found.privacy, estimates.std(axis=0)) < (0.1 if len(estimates) == DRAWS else 0.2)
    assert (found.privacy > 0.85 * found.std_errors).all()


def test_mutants_are_more_than_ten_percent_off() -> None:
    """Kills: Ω left out of the variance; noise of columns in [0, 1]; half the rows; correlations that are not used."""
    _, stated = released("gaussian", "gram")
    usual = np.median(stated, axis=0)
    found = predicted("gaussian")
    assert off(found.sampling, usual) > 0.5  # no Ω
    guess = guess_of(load_spec(conf_of("gaussian")).domain)
    assert off(plan(conf_of("gaussian"), FORMULA, guess, rows=ROWS // 2).fits[0].prediction.std_errors, usual) > 0.5
    assert (
        off(plan(conf_of("gaussian"), FORMULA, {**guess, "correlations": {}}).fits[0].prediction.std_errors, usual)
        > 0.01
    )
    # The same noise on z in [0, 1]: its matrix is a congruence, and the same regression has far larger errors.
    wide = demo(columns={**demo()["columns"], "age": {"lower": -59, "upper": 95}, "educ": {"lower": -14, "upper": 16}})
    assert off(plan({**wide, "privacy": GRAM["gaussian"]}, FORMULA, guess).fits[0].prediction.std_errors, usual) > 0.5


def test_gradient_descent_has_a_simulated_size_and_no_promise() -> None:
    """Ten times the budget, far less noise. Kills: noise that is left out, or does not depend on the budget."""
    found = predicted("gradient_descent", "regression")
    assert (found.status, found.ok) == ("NO_INTERVAL", True)
    assert "bias" in found.reason
    conf = {**conf_of("gradient_descent", "regression"), "privacy": {"epsilon": 5.0, "delta": 1e-9}}
    more = plan(conf, (), guess_of(load_spec(conf).domain)).fits[0].prediction
    assert (found.privacy > 3 * more.privacy).all()
    assert (more.privacy > 0).all()


@pytest.mark.parametrize("name", GRAM)
@pytest.mark.parametrize("target", ["se:educ={:.10g}", "entry={:.10g}", "entry:age,income={:.10g}", "spectral={:.10g}"])
def test_the_inverse_comes_back(name: str, target: str) -> None:
    """Epsilon to error to epsilon, within 2%."""
    made = settle(load_spec(conf_of(name)), FORMULA, guess_of(load_spec(conf_of(name)).domain), None, 0.05, 0.95)
    now = plan(conf_of(name), FORMULA, guess_of(load_spec(conf_of(name)).domain))
    assert now.accuracy is not None
    assert now.spectral is not None
    error = {
        "se:": float(now.fits[0].prediction.std_errors[2]),
        "spe": now.spectral.best,
        "ent": now.accuracy.of(("age", "income") if "," in target else None, False),
    }[target[:3]]
    found = reach(made, Target.parse(target.format(error * 1.0001)))
    assert found.budget.epsilon == pytest.approx(0.5, rel=0.02)
    assert found.error <= error * 1.0001


@pytest.mark.parametrize("name", ["gram_ridge", "adassp", "ssp", "objective"])
def test_the_inverse_of_a_regression_comes_back(name: str) -> None:
    spec = load_spec(conf_of(name, "regression"))
    made = settle(spec, (), guess_of(spec.domain), None, 0.05, 0.95)
    error = predicted(name, "regression").std_errors[2]
    found = reach(made, Target("se", "educ", float(error) * 1.0001))
    assert found.budget.epsilon == pytest.approx(spec.privacy.epsilon, rel=0.02)


def test_the_formula_where_noise_is_as_large_as_the_residuals() -> None:
    """Var = σ²H + HΩH by hand. Kills: the bias of a release's residuals corrected where there is none."""
    conf = demo(columns={"x": {"lower": -1, "upper": 1}, "y": {"lower": -1, "upper": 1}}, privacy={"rho": 0.02})
    guess = {"rows": 2000, "means": {"x": 0.1, "y": 0.0}, "sds": {"x": 0.5, "y": 0.5}, "correlations": {"x,y": 0.999}}
    made = plan(conf, "y ~ x", guess)
    found, noise = made.fits[0].prediction, choose_gram(load_spec(conf)).noise
    n, mean, slope = 2000, 0.1, 0.999
    inverse = np.linalg.inv(n * np.array([[1, mean], [mean, 0.25 + mean**2]]))
    residual = n * 0.25 * (1 - 0.999**2)
    w = np.array([slope * mean, -slope, 1.0])  # minus the coefficients, and the response
    off_std, on_std = noise.off_diagonal_std, noise.diagonal_std  # type: ignore[union-attr]
    omega = off_std**2 * (w @ w * np.eye(2) + np.outer(w[:2], w[:2])) + (on_std**2 - 2 * off_std**2) * np.diag(
        w[:2] ** 2
    )
    assert np.trace(inverse @ omega) > 0.5 * residual
    expected = np.sqrt(np.diag(residual / (n - 2) * inverse + inverse @ omega @ inverse))
    assert found.std_errors == pytest.approx(expected, rel=1e-6)
    assert found.sampling == pytest.approx(np.sqrt(np.diag(residual / (n - 2) * inverse)), rel=1e-6)


def test_a_second_step_is_planned_for_normal_residuals() -> None:
    """Within 20% of the scatter of 100 releases, which is known to 3%: a right plan fails once in 1e9 runs. Seed 6.

    Kills: a plan without the second step, which has 3 times the noise; a clip at the bounds; head-room left out.
    """
    rng, n = np.random.default_rng(6), 60_000
    x = rng.normal(0, 0.35, (n, 6)).clip(-1, 1)
    y = 0.4 * x[:, 0] - 0.2 * x[:, 1] + rng.normal(0, 0.05, n)
    names = [f"x{i}" for i in range(6)]
    conf = demo(
        columns={name: {"lower": -1, "upper": 1} for name in (*names, "y")},
        privacy={"epsilon": 1.0, "delta": 1e-6},
        release={"name": "demo", "version": "1", "kind": "regression", "response": "y", "expected_rows": n},
        mechanism={"name": "refined"},
    )
    one, noise, found = choose_regression(load_spec(conf)), SeededNoise(6), []
    for _ in range(100):
        found.append(one.release(ArrayRows((*x.T, y), n), noise, lambda _: None).theta)
    columns = dict(zip((*names, "y"), (*x.T, y), strict=True))
    guess = {
        "rows": n,
        "means": {name: float(values.mean()) for name, values in columns.items()},
        "sds": {name: float(values.std()) for name, values in columns.items()},
        "correlations": {f"{name},y": float(np.corrcoef(columns[name], y)[0, 1]) for name in names},
    }
    made = plan(conf, (), guess)
    assert made.fits[0].prediction.status == "OK"
    scatter = np.sqrt(np.mean(np.var(found, axis=0)[1:]))
    assert np.sqrt(np.mean(made.fits[0].prediction.privacy[1:] ** 2)) == pytest.approx(scatter, rel=0.2)
    ridge = made.by_mechanism["gram_ridge"][0]
    assert (ridge.privacy > 2 * made.fits[0].prediction.privacy).all()
    # And the plan says so, the other way round where residuals fill the bounds.
    assert "gram_ridge is likely" not in made.summary()
    conf["mechanism"] = {"name": "gram_ridge"}
    assert re.search(r"refined is likely to have [2-9]\.\d times less privacy noise", plan(conf, (), guess).summary())
    wide = {**guess, "correlations": {}, "sds": dict.fromkeys(columns, 0.5)}
    assert "is likely to have" not in plan(conf, (), wide).summary()
    conf["mechanism"] = {"name": "refined"}
    assert "gram_ridge is likely to have no more noise than refined" in plan(conf, (), wide).summary()


@pytest.mark.parametrize(
    "release",
    [{"release/regressions": ["income ~ age + sex"]}, {"release/kind": "regression", "release/response": "income"}],
)
def test_a_plan_of_robust_errors_has_the_noise_that_is_left(release: dict[str, Any]) -> None:
    """Kills: a plan that stumbles over regressions of columns that it leaves out, or forgets what meats cost."""
    robust = load_spec(conf_with({**release, "release/errors": "hc1", "release/errors_share": 0.19}))
    stds = []
    for spec in (robust.without_errors, robust):
        of = choose_gram(spec).noise if spec.release.kind == "gram" else choose_regression(spec).statistics_noise
        assert isinstance(of, AdditiveNoise | StatisticsNoise)
        stds.append(of.off_diagonal_std)
    # 1/√0.81 by the share, and a little for the 2% of epsilon that finds the clip.
    assert 1 / 0.9 < stds[1] / stds[0] < 1.04 / 0.9
    assert "residual bounds" in plan(robust).summary()


@pytest.mark.parametrize("kind", ["gram", "regression"])
@pytest.mark.parametrize(("tail", "rows", "epsilon"), [("log-normal", 100_000, 1.0), ("normal", 20_000, 2.0)])
def test_robust_errors_are_planned_as_well_known_as_they_are(kind: str, tail: str, rows: int, epsilon: float) -> None:
    """Within 40% of what releases say of the noise in a robust standard error (median of 15). Seeds are fixed.

    Kills: a clip at the bounds, one that is not widened, the noise of the whole budget, other units of the clip.
    """
    rng = np.random.default_rng(12)
    x, d = rng.uniform(0, 10, rows), (rng.random(rows) < 0.1) * 1
    noise = rng.lognormal(0, 1, rows) - np.exp(0.5) if tail == "log-normal" else rng.normal(0, 1, rows)
    y = 5 + 0.1 * x + (0.5 + 0.1 * x) * noise
    conf = demo(
        columns={
            "x": {"lower": 0, "upper": 10},
            "d": {"categories": ["no", "yes"]},
            "y": {"lower": -1 if tail == "log-normal" else -5, "upper": 60 if tail == "log-normal" else 15},
        },
        privacy={"epsilon": epsilon, "delta": 1e-9},
        release={
            "name": "demo",
            "version": "1",
            "kind": kind,
            "errors": "hc1",
            **({"regressions": ["y ~ x + d"]} if kind == "gram" else {"response": "y"}),
        },
    )
    guess = {
        "rows": rows,
        "means": {"x": float(x.mean()), "y": float(y.mean())},
        "sds": {"x": float(x.std()), "y": float(y.std())},
        "correlations": {"x,y": float(np.corrcoef(x, y)[0, 1])},
        "shares": {"d": {"no": 0.9, "yes": 0.1}},
    }
    made = plan(conf, guess=guess)
    assert made.robust is not None
    (fit,) = made.robust.fits
    spec, seeded, parts = load_spec(conf), SeededNoise(np.random.default_rng(3)), []
    for _ in range(15):
        release = release_arrays(spec, choose(spec), {"x": x, "d": d, "y": y}, seeded)
        found = release.regress(Asked("y ~ x + d" if kind == "gram" else None))
        assert found.errors == "hc1"
        parts.append([math.sqrt(max(0.0, 2 / df - 2 / found.df)) / 2 for df in found._dfs])
    worst = float(np.median(np.max(parts, axis=1)))
    assert 0.6 < fit.error / worst < 1.4
    assert f"noise moves that of {fit.term}, the worst, by about {100 * fit.error:.2g}% of it" in made.summary()
    assert made.to_dict()["robust_errors"]["fits"][0]["error"] == fit.error
    if kind == "gram":  # those that the conf lists are planned without being asked for
        assert [one.prediction.formula for one in made.fits] == ["y ~ x + d[yes]"]


def test_a_plan_says_where_equal_variances_will_be_assumed_and_for_which_term() -> None:
    """Kills: a rare category that takes the robust errors of a whole regression, and nobody is told before."""
    columns = {"x": {"lower": 0, "upper": 1}, "d": {"categories": ["a", "b", "rare"]}, "y": {"lower": 0, "upper": 1}}
    release = {"name": "demo", "version": "1", "errors": "hc1", "regressions": ["y ~ x + d", "y ~ x"]}
    conf = demo(columns=columns, privacy={"epsilon": 1.0, "delta": 1e-9}, release=release)
    guess = {"rows": 100_000, "sds": {"y": 0.1}, "shares": {"d": {"a": 0.6, "b": 0.3993, "rare": 0.0007}}}
    made = plan(conf, guess=guess)
    assert made.robust is not None
    first, second = made.robust.fits
    assert "of the robust variance of d[rare]" in first.reason
    assert (second.reason, second.error < 0.1) == ("", True)
    by = plan({**conf, "release": {**release, "errors": {"cluster": "town"}}}, guess=guess)
    assert "clustered by town" in by.summary()
    assert by.robust is not None
    assert 1.02 < by.robust.times_noise < 1.2
