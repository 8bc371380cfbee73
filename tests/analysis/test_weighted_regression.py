"""Weighted regressions: degrees of freedom, residual variance and R² of effective rows, in every place that shows them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.analysis.least_squares import RegressionResult
from dpspark.analysis.ols import Moments, solve
from dpspark.core.formula import Formula
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.report.planned import error_panels
from tests.report.bundles import conf_with, people, published

SILENT = AdditiveNoise(1e-300, 1e-300)
FORMULA = Formula("y", ("x",), True)
SQUARES = {"column": "w", "upper": 5, "squares_share": 0.2}


def moments(z: np.ndarray, weights: np.ndarray | None) -> Moments:
    """Of rows (1, x, y) in [-1, 1]."""
    terms, middle, half = ("(intercept)", "x", "y"), np.zeros(3), np.array([0.0, 1.0, 1.0])
    w = np.ones(len(z)) if weights is None else weights
    squared = None if weights is None else (z * w[:, None] ** 2).T @ z
    return Moments(terms, (z * w[:, None]).T @ z, middle, half, SILENT, weights is not None, squared)


def rows(count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, count)
    return np.column_stack([np.ones(count), x, 0.3 * x + 0.2 * rng.uniform(-1, 1, count)])


def fit(found: Moments) -> RegressionResult:
    return RegressionResult(found, FORMULA, 0.95, lambda frame, term: frame[term], "a release")


@pytest.mark.parametrize("each", [0.01, 1.0, 250.0])
def test_equal_weights_change_nothing(each: float) -> None:
    """Fails on 0.2.0: adjusted R² took the sum of weights for the rows; the residual variance had no degrees of freedom."""
    z = rows(12)
    plain, weighted = fit(moments(z, None)).to_dict(), fit(moments(z, np.full(12, each))).to_dict()
    assert weighted["n"] == pytest.approx(12 * each)
    for key in ("n_effective", "sigma2", "df", "r_squared", "adj_r_squared"):
        assert weighted[key] == pytest.approx(plain[key]), key
    assert weighted["f"]["p_value"] == pytest.approx(plain["f"]["p_value"])
    for one, other in zip(weighted["terms"], plain["terms"], strict=True):
        for key in ("estimate", "std_error", "ci_low", "ci_high", "p_value"):
            assert one[key] == pytest.approx(other[key]), key


def test_the_residual_variance_is_unbiased_for_any_weights() -> None:
    """Fails on 0.2.0: Σ w e² over Σ w is too small by tr(H Σ w² x xᵀ)/Σ w. False alarms: none, expectations are exact."""
    rng = np.random.default_rng(3)
    x, w = rng.uniform(-1, 1, 15), rng.uniform(0.1, 4, 15)
    design = np.column_stack([np.ones(15), x])
    hat = np.eye(15) - design @ np.linalg.inv((design * w[:, None]).T @ design) @ (design * w[:, None]).T
    # E of a quadratic form in errors of variance 1: each error alone, added up.
    found = [solve(moments(np.column_stack([design, unit]), w), FORMULA).sigma2 for unit in np.eye(15)]
    assert np.trace(hat.T @ (w[:, None] * hat)) > 0
    assert sum(found) == pytest.approx(1.0)


def test_unequal_weights_have_fewer_effective_rows() -> None:
    z, w = rows(400), np.random.default_rng(2).uniform(0, 300, 400)
    found = fit(moments(z, w))
    assert found.effective_n == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert found.df == pytest.approx(found.effective_n - 2)
    assert 0 < found.rsquared_adj < found.rsquared < 1
    assert "effective degrees of freedom" in found.summary()
    assert f"Effective rows: about {found.effective_n:,.0f}" in found.summary()


def test_few_effective_rows_are_not_identified() -> None:
    """Fails on 0.2.0: one heavy row among light ones had one degree of freedom, and an interval."""
    w = np.full(30, 1e-4)
    w[0] = 5.0
    found = fit(moments(rows(30), w))
    assert found.status == "NOT_IDENTIFIED"
    assert "1 effective rows for 2 coefficients" in found.reason
    assert all(math.isnan(low) for low, _ in found.conf_int().values())


def test_what_a_release_prints(tmp_path: Path) -> None:
    """Fails on 0.2.0: `adjusted: -0.99` and the like, with R² of 0.4."""
    rel = dpspark.read_release(published(tmp_path, conf_with(weight=SQUARES)))
    found = rel.regress("income ~ age + educ + sex")
    content = json.loads(json.dumps(found.to_dict()))
    assert content["n_is"] == "sum of weights"
    assert content["n"] == pytest.approx(2.5 * 40_000, rel=0.02)
    assert content["n_effective"] == pytest.approx(0.75 * 40_000, rel=0.05)  # of weights spread evenly from 0
    assert 0 < content["r_squared"] - content["adj_r_squared"] < 0.001
    assert f"adjusted: {content['adj_r_squared']:.4f}" in found.summary()
    assert f"adjusted: {content['adj_r_squared']:.4f}" in found._repr_html_()


def test_without_squared_weights_nothing_is_said_that_needs_them(tmp_path: Path) -> None:
    rel = dpspark.read_release(published(tmp_path, conf_with(weight={"column": "w", "upper": 5})))
    for repair in ("none", "ridge"):
        found = rel.regress("income ~ age + educ", repair=repair)
        content = found.to_dict()
        assert [content[key] for key in ("df", "n_effective", "adj_r_squared", "f")] == [None] * 4
        assert content["assumptions"] == []
        assert "adjusted" not in found.summary()
        assert "nan" not in found.summary()


def test_squared_weights_that_noise_drowns_make_no_intervals(tmp_path: Path) -> None:
    """Fails on 0.2.0: standard errors from a matrix of noise, and `nan` in the table where a variance was negative."""
    conf = conf_with(weight={**SQUARES, "squares_share": 0.01})
    rel = dpspark.read_release(published(tmp_path, conf, people(9000)))
    found = rel.regress("income ~ age + educ")
    assert (found.status, found.has_intervals, found.to_dict()["intervals"]) == ("OK", False, "none: weighted")
    assert "the noise drowns the moments of their squared weights" in found.summary()
    assert "Privacy Error" in found.summary()
    assert "nan" not in found.summary()
    assert all(math.isnan(error) for error in found.std_errors.values())


def test_the_report_foretells_weighted_errors(tmp_path: Path) -> None:
    """Fails on 0.2.0: the curve of standard errors against the budget took the sum of weights for rows."""
    rel: Any = dpspark.read_release(published(tmp_path, conf_with(weight=SQUARES)))
    from dpspark.core.formula import parse_formula

    formula = parse_formula("income ~ age + educ", rel.terms, {})
    panel = error_panels(rel.content, [formula], [])["panels"][1]
    found = rel.regress("income ~ age + educ")
    for curve in panel["curves"]:
        sampling = math.sqrt(found.std_errors[curve["label"]] ** 2 - found.privacy_std_errors[curve["label"]] ** 2)
        assert curve["floor"] == pytest.approx(sampling, rel=0.02)


def test_a_stranger_cannot_break_the_reader_with_the_noise_of_squared_weights(tmp_path: Path) -> None:
    from dpspark.errors import OutputError

    place = published(tmp_path, conf_with(weight=SQUARES))
    manifest = json.loads((place / "manifest.json").read_text())
    for wrong in (None, "much", {"model": "additive"}, {**manifest["mechanism"]["noise"], "off_diagonal_std": "x"}):
        manifest["privacy"]["spending"][0]["noise"] = wrong
        (place / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(OutputError, match="damaged"):
            dpspark.read_release(place)


def test_sums_of_weights_are_not_called_rows(tmp_path: Path) -> None:
    """Fails on 0.2.0: the noise of a sum of weights was said to be in rows."""
    from dpspark.cli.conf_text import SourceWords, lines
    from dpspark.spec.choose import choose
    from dpspark.spec.spec import load_spec

    for weight, unit in ((SQUARES, "weights"), (None, "rows")):
        conf = conf_with() if weight is None else conf_with(weight=weight)
        spec = load_spec(conf)
        assert f"on it, in {unit}" in "\n".join(lines(spec, choose(spec), SourceWords("", "", True)))
        assert f"in {unit} of columns scaled" in str(dpspark.plan(spec))
        page = dpspark.read_release(published(tmp_path / unit, conf)).report(tmp_path / f"{unit}.html").read_text()
        assert f"(in {unit}, with every column scaled" in page
        assert f"standard deviation, in {unit}" in page
