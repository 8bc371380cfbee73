"""Tests of linear hypotheses, contrasts and tidy tables, against the formulas of least squares."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpspark.analysis.hypotheses import parse_hypotheses
from dpspark.errors import ConfError
from dpspark.published.reading import read_release
from tests.manifests import CONFS, bundle_of

TERMS = ("(intercept)", "age", "sex[M]")


@pytest.fixture(scope="module")
def fit(tmp_path_factory: pytest.TempPathFactory) -> Any:
    release = read_release(bundle_of(tmp_path_factory.mktemp("release"), CONFS["gaussian large epsilon"]))
    return release.regress("income ~ age + sex")


@pytest.mark.parametrize(
    ("text", "rows", "q"),
    [
        ("age = 0", [[0, 1, 0]], [0]),
        ("age", [[0, 1, 0]], [0]),
        ("age = 2*sex[M]", [[0, 1, -2]], [0]),
        ("age = 2*`sex[M]` - 3, (intercept) = 1e3", [[0, 1, -2], [1, 0, 0]], [-3, 1000]),
        ("-age/2 + 3*sex[M]*2 = 1 - intercept", [[1, -0.5, 6]], [1]),
    ],
)
def test_equations_are_read(text: str, rows: list[list[float]], q: list[float]) -> None:
    """Kills: a sign that is lost; a side that is not moved; a factor behind the name that is dropped."""
    restrictions, constants = parse_hypotheses(text, TERMS)
    assert (restrictions.tolist(), constants.tolist()) == (rows, q)


@pytest.mark.parametrize(
    ("text", "row", "q"),
    [
        ("I(age**2) = 0", [0, 0, 1, 0, 0], 0),
        ("2*I(age**2) + age = 1", [0, 1, 2, 0, 0], 1),
        ("sex[M]:age = 3*log(age)", [0, 0, 0, 1, -3], 0),
        ("`sex[M]:age` - age", [0, -1, 0, 1, 0], 0),
    ],
)
def test_products_and_functions_are_written_as_the_table_has_them(text: str, row: list[float], q: float) -> None:
    """Kills: a coefficient of the table that no test can name; `age` found inside `log(age)`."""
    terms = ("(intercept)", "age", "I(age**2)", "sex[M]:age", "log(age)")
    restrictions, constants = parse_hypotheses(text, terms)
    assert (restrictions.tolist(), constants.tolist()) == ([row], [q])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "age =",
        "age = 1 = 2",
        "agee = 0",
        "1 = 2",
        "age*sex[M] = 0",
        "1/age = 0",
        "age sex[M] = 0",
        "age = 0, 2*age = 1",
        "age = 1/0",
        "age +",
        "age; drop",
        "3 4*age",
    ],
)
def test_what_is_no_linear_equation_is_refused(text: str) -> None:
    with pytest.raises(ConfError, match="test "):
        parse_hypotheses(text, TERMS)


def test_a_test_is_the_one_of_least_squares(fit: Any) -> None:
    """Kills: a statistic that is not divided by its equations; another covariance than the coefficients' own."""
    joint, known = fit.test("age = 0, sex[M] = 0"), fit.f_test()
    assert [joint.statistic, joint.p_value] == pytest.approx([known.statistic, known.p_value])
    single = fit.test("age = 100")
    t = (fit.params["age"] - 100) / fit.std_errors["age"]
    assert [single.statistic, single.p_value] == pytest.approx([t**2, 2 * stats.t.sf(abs(t), fit.df)])


def test_a_contrast_has_the_covariance_in_it(fit: Any) -> None:
    found = fit.contrast({"age": 10, "sex[M]": -1}, level=0.9)
    row, covariance = np.array([0, 10.0, -1.0]), fit.vcov().to_numpy()
    error = math.sqrt(row @ covariance @ row)
    assert found.estimate == pytest.approx(10 * fit.params["age"] - fit.params["sex[M]"])
    assert found.std_error == pytest.approx(error)
    assert found.ci_high - found.estimate == pytest.approx(stats.t.ppf(0.95, fit.df) * error)


def test_tables_as_other_packages_have_them(fit: Any) -> None:
    assert list(fit.tidy().columns) == ["term", "estimate", "std_error", "statistic", "p_value", "ci_low", "ci_high"]
    assert list(fit.tidy().term) == list(fit.terms)
    assert fit.glance().loc[0, "r_squared"] == fit.rsquared
    rows = fit.augment({"age": [30.0, 50.0], "sex": ["F", "M"], "income": [1000.0, 2000.0]})
    assert (rows[".fitted"] + rows[".resid"]).tolist() == pytest.approx([1000.0, 2000.0])


def test_without_intervals_there_is_no_test(tmp_path: Path) -> None:
    """Kills: a p-value of predictions, whose bias is unknown."""
    release = read_release(bundle_of(tmp_path, CONFS["gaussian"]))
    drowned = release.regress("income ~ age + sex", repair="ridge")
    assert math.isnan(drowned.test("age = 0").p_value)
    assert math.isnan(drowned.contrast({"age": 1}).std_error)
