"""With next to no noise, every number of a regression is that of statsmodels on the clipped data, to the stated digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpspark.analysis.options import Asked
from dpspark.errors import ConfError
from dpspark.spec.choose import choose
from dpspark.spec.spec import load_spec
from experiments.array_rows import release_arrays
from experiments.noise import ExperimentNoise

sm = pytest.importorskip("statsmodels.api")
FORMULA = "y ~ a + a2 + lc + b + ab + sex"
COLUMNS: dict[str, Any] = {
    "a": {"lower": 0.5, "upper": 4},
    "a2": {"expr": "a * a", "lower": 0, "upper": 16},
    "lc": {"expr": "log(c)", "lower": -1, "upper": 2},
    "b": {"lower": -2, "upper": 3},
    "ab": {"expr": "a * b", "lower": -8, "upper": 12},
    "sex": {"categories": ["F", "M", "X"]},
    "y": {"lower": -10, "upper": 30},
}


def frame_of(seed: int, rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = np.clip(rng.gamma(3, 0.7, rows), 0.5, 4)
    b = np.clip(rng.normal(0.3, 1, rows) + 0.2 * a, -2, 3)
    c = np.clip(rng.gamma(2, 1, rows), 0.5, 7)
    sex = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    error = (0.5 + 0.5 * np.abs(b)) * rng.standard_t(6, rows)
    y = np.clip(3 + a - 0.4 * a**2 + 0.7 * b + 0.3 * a * b + np.log(c) + (sex == 1) + error, -10, 30)
    return pd.DataFrame({"a": a, "a2": a * a, "lc": np.log(c), "b": b, "ab": a * b, "sex": sex, "y": y})


def released(data: pd.DataFrame, epsilon: float, rng: np.random.Generator, **release: Any) -> Any:
    conf = {
        "columns": COLUMNS,
        "source": {"dataframe": True},
        "privacy": {"epsilon": epsilon, "delta": 1e-6},
        "release": {"name": "a", "version": "1", **release},
        "ledger": {"dataset": "d"},
    }
    spec = load_spec(conf)
    columns = {name: data[name].to_numpy() for name in COLUMNS}
    return release_arrays(spec, choose(spec), columns, ExperimentNoise(rng))


def design(data: pd.DataFrame) -> Any:
    dummies = {"sex[M]": (data["sex"] == 1).astype(float), "sex[X]": (data["sex"] == 2).astype(float)}
    return sm.add_constant(data[["a", "a2", "lc", "b", "ab"]].assign(**dummies), has_constant="add")


@pytest.mark.parametrize(("seed", "rows", "errors"), [(1, 3000, "classical"), (2, 700, "classical"), (3, 4000, "hc1")])
def test_every_number_is_that_of_statsmodels(seed: int, rows: int, errors: str) -> None:
    """Kills: a wrong covariance, degrees of freedom, or variance of a residual in any of these."""
    data = frame_of(seed, rows)
    more = {"regressions": [FORMULA], "errors": "hc1"} if errors == "hc1" else {}
    fit = released(data, 1e15, np.random.default_rng(0), **more).regress(Asked(FORMULA))
    x = design(data)
    model = sm.OLS(data["y"], x)
    theirs = model.fit(cov_type="HC1", use_t=True) if errors == "hc1" else model.fit()
    assert fit.errors == errors
    near = 1e-5
    mine = fit.tidy()
    assert mine["estimate"].to_numpy() == pytest.approx(theirs.params.to_numpy(), rel=1e-5)
    assert mine["std_error"].to_numpy() == pytest.approx(theirs.bse.to_numpy(), rel=near)
    hypothesis = fit.test("a = 3*b, sex[M] = 0")
    restrictions = np.zeros((2, 8))
    restrictions[0, [1, 4]], restrictions[1, 6] = [1, -3], 1
    expected = theirs.f_test((restrictions, np.zeros(2)))
    assert hypothesis.statistic == pytest.approx(float(expected.fvalue), rel=near)
    assert hypothesis.p_value == pytest.approx(float(expected.pvalue), rel=20 * near)
    _check_predictions(fit, theirs, near)
    _check_effects(fit, theirs, near)
    if errors == "classical":
        _check_shares(fit, theirs, data, x)


def _check_predictions(fit: Any, theirs: Any, near: float) -> None:
    new = pd.DataFrame({"a": [1.0, 2.5], "b": [0.5, -1.0], "c": [2.0, 5.0], "sex": ["F", "X"]})
    codes = new.assign(a2=new.a**2, lc=np.log(new.c), ab=new.a * new.b, sex=[0, 2])
    expected = theirs.get_prediction(design(codes)).summary_frame(alpha=0.1)
    confidence, prediction = (fit.predict(new, interval, 0.9) for interval in ("confidence", "prediction"))
    assert confidence["estimate"].to_numpy() == pytest.approx(expected["mean"].to_numpy(), rel=1e-5)
    assert confidence["std_error"].to_numpy() == pytest.approx(expected["mean_se"].to_numpy(), rel=near)
    assert confidence["ci_low"].to_numpy() == pytest.approx(expected["mean_ci_lower"].to_numpy(), rel=near)
    assert prediction["ci_low"].to_numpy() == pytest.approx(expected["obs_ci_lower"].to_numpy(), rel=near)
    assert prediction["ci_high"].to_numpy() == pytest.approx(expected["obs_ci_upper"].to_numpy(), rel=near)
    assert fit.predict(new) == pytest.approx(expected["mean"].to_numpy(), rel=1e-5)


def _check_effects(fit: Any, theirs: Any, near: float) -> None:
    found = fit.margins({"a": [0.5, 2.0], "b": 1.0, "c": 4.0}).to_frame().set_index(["column", "change"])
    a = [np.array([0, 1, 2 * at, 0, 0, 1.0, 0, 0]) for at in (0.5, 2.0)]
    b = [np.array([0, 0, 0, 0, 1, at, 0, 0]) for at in (0.5, 2.0)]
    c, x = [0.25 * np.eye(8)[3]] * 2, [np.eye(8)[7]] * 2
    for key, rows in {("a", "slope"): a, ("b", "slope"): b, ("c", "slope"): c, ("sex", "X - F"): x}.items():
        for mine, row in zip(found.loc[[key]].to_dict("records"), rows, strict=True):
            expected = theirs.t_test(row)
            assert mine["estimate"] == pytest.approx(float(expected.effect[0]), rel=1e-5)
            assert mine["std_error"] == pytest.approx(float(np.ravel(expected.sd)[0]), rel=near)
            assert [mine["ci_low"], mine["ci_high"]] == pytest.approx(list(expected.conf_int()[0]), rel=10 * near)


def _check_shares(fit: Any, theirs: Any, data: pd.DataFrame, x: Any) -> None:
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    glance, test = fit.glance().iloc[0], fit.f_test()
    assert [glance["r_squared"], glance["adj_r_squared"]] == pytest.approx(
        [theirs.rsquared, theirs.rsquared_adj], rel=1e-5
    )
    assert [test.statistic, glance["sigma"] ** 2] == pytest.approx([theirs.fvalue, theirs.mse_resid], rel=1e-5)
    vif = [variance_inflation_factor(x.to_numpy(), place) for place in range(1, 8)]
    assert fit.vif()["vif"].to_numpy() == pytest.approx(vif, rel=1e-5)
    scaled = (x.iloc[:, 1:] - x.iloc[:, 1:].mean()) / x.iloc[:, 1:].std()
    y = (data["y"] - data["y"].mean()) / data["y"].std()
    expected, mine = sm.OLS(y, sm.add_constant(scaled)).fit(), fit.standardized()
    assert mine["estimate"].to_numpy() == pytest.approx(expected.params.to_numpy()[1:], rel=1e-5)
    assert mine["std_error"].to_numpy() == pytest.approx(expected.bse.to_numpy()[1:], rel=1e-5)
    assert mine["ci_low"].to_numpy() == pytest.approx(expected.conf_int().to_numpy()[1:, 0], rel=1e-4)


def test_what_an_effect_depends_on_must_be_stated() -> None:
    fit = released(frame_of(1, 500), 1e15, np.random.default_rng(0)).regress(Asked(FORMULA))
    for at, words in [
        ({}, "depends on a"),
        ({"a": 1.0}, "depends on b"),
        ({"a": 9.0, "b": 1.0}, "from 0.5 to 4"),
        ({"d": 1.0}, "no column 'd'"),
        ({"a": 1.0, "b": 0.0}, "depends on c"),
        ({"a": 1.0, "b": 0.0, "c": 2.0, "sex": "Q"}, "none of its categories"),
    ]:
        with pytest.raises(ConfError, match=words):
            fit.margins(at)
    with pytest.raises(ConfError, match="no column 'b'"):
        fit.predict({"a": [1.0], "c": [1.0], "sex": ["F"]})
    with pytest.raises(ConfError, match="expected one of confidence"):
        fit.predict({"a": [1.0], "b": [1.0], "c": [1.0], "sex": ["F"]}, "both")


@pytest.mark.parametrize("at", [{"u": 0, "x": 3.0}, {"u": 1, "x": 0.0}, {"u": 0.5, "x": 5.0}])
def test_effects_at_a_bound_are_those_of_the_formula(at: dict[str, float]) -> None:
    """Kills: slopes of values that stay at their bounds, which are half as steep there: those of a dummy everywhere."""
    rng = np.random.default_rng(4)
    x, u = rng.uniform(0, 5, 2000), rng.integers(0, 2, 2000)
    sex = rng.choice(2, 2000)
    y = 1 + x - 0.3 * x**2 + u + 0.5 * u * x + 0.4 * (sex == 1) * x + rng.normal(size=2000)
    conf = {
        "columns": {"x": {"lower": 0, "upper": 5}, "u": {"lower": 0, "upper": 1}, "y": {"lower": -20, "upper": 20},
                    "sex": {"categories": ["F", "M"]}},
        "source": {"dataframe": True}, "privacy": {"epsilon": 1e15, "delta": 1e-6},
        "release": {"name": "a", "version": "1", "regressions": ["y ~ x*u + I(x**2) + sex:x"]}, "ledger": {"dataset": "d"},
    }  # fmt: skip
    spec = load_spec(conf)
    columns = {
        "x": x,
        "u": u,
        "y": y,
        "sex": sex,
        "x:u": x * u,
        "u:x": x * u,
        "I(x**2)": x**2,
        "sex[M]:x": x * (sex == 1),
    }
    content = release_arrays(spec, choose(spec), columns, ExperimentNoise(rng))
    fit = content.regress(Asked("y ~ x*u + I(x**2) + sex:x"))
    b = fit.params
    found = fit.margins({**at, "sex": "M"}).to_frame().set_index("column")["estimate"]
    assert found["u"] == pytest.approx(b["u"] + at["x"] * b["x:u"], rel=1e-6)
    slope = b["x"] + at["u"] * b["x:u"] + 2 * at["x"] * b["I(x**2)"] + b["sex[M]:x"]
    assert found["x"] == pytest.approx(slope, rel=1e-6)


def test_intervals_cover_with_noise() -> None:
    """400 releases with noise larger than the sampling error. Kills: noise left out of any of the intervals.

    False alarms: of 95% intervals fewer than 355 or more than 398 hold in less than 1e-6 of runs, each.
    """
    rng = np.random.default_rng(8)
    held = dict.fromkeys(["mean", "response", "slope", "r2", "vif"], 0)
    spec = load_spec(
        {
            "columns": {"x": {"lower": -1, "upper": 1}, "x2": {"expr": "x*x", "lower": 0, "upper": 1},
                        "z": {"lower": -2, "upper": 2}, "y": {"lower": -4, "upper": 4}},
            "source": {"dataframe": True}, "privacy": {"epsilon": 1.0, "delta": 1e-6},
            "release": {"name": "a", "version": "1"}, "ledger": {"dataset": "d"},
        }
    )  # fmt: skip
    mechanism = choose(spec)
    for _ in range(400):
        x = rng.uniform(-1, 1, 3000)
        z = np.clip(x + 0.7 * rng.normal(size=3000), -2, 2)
        y = np.clip(0.5 + 0.4 * x - 0.5 * x**2 + 0.6 * z + 0.6 * rng.normal(size=3000), -4, 4)
        content = release_arrays(spec, mechanism, {"x": x, "x2": x**2, "z": z, "y": y}, ExperimentNoise(rng))
        fit = content.regress(Asked("y ~ x + x2 + z"))
        row, truth = {"x": [0.7], "z": [0.2]}, 0.5 + 0.28 - 0.245 + 0.12
        for name, value, found in [
            ("mean", truth, fit.predict(row, "confidence")),
            ("response", truth + 0.6 * rng.normal(), fit.predict(row, "prediction")),
            ("slope", 0.4 - 0.7, fit.margins({"x": 0.7}).to_frame().query("column == 'x'")),
        ]:
            held[name] += bool(found["ci_low"].iloc[0] <= value <= found["ci_high"].iloc[0])
        exact = sm.OLS(y, sm.add_constant(np.column_stack([x, x**2, z]))).fit()
        low, high = fit.rsquared_interval()
        held["r2"] += low <= exact.rsquared <= high
        inflated = fit.vif().iloc[2]
        true = 1 / (1 - sm.OLS(z, sm.add_constant(np.column_stack([x, x**2]))).fit().rsquared)
        held["vif"] += abs(inflated["vif"] - true) <= 1.96 * inflated["std_error"]
    assert all(355 <= count <= 398 for count in held.values()), held


def test_maketables_can_read_a_fit() -> None:
    """By the names that maketables 0.2 asks for: its PluginExtractor."""
    fit = released(frame_of(1, 500), 1e15, np.random.default_rng(0)).regress(Asked("y ~ a + b"))
    table: Any = getattr(fit, "__maketables_coef_table__")  # noqa: B009 - a class would change such a name
    assert list(table.columns) == ["b", "se", "t", "p"]
    assert table.loc["a", "b"] == fit.params["a"]
    stat: Any = getattr(fit, "__maketables_stat__")  # noqa: B009
    assert (stat("N"), stat("r2"), stat("nothing")) == (500, fit.rsquared, None)
