"""Guesses of the data, and what a plan says about bounds, the papers and the ledger."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import dpspark
from dpspark.bundle.staging import publish, stage, staging_path
from dpspark.errors import ConfError
from dpspark.mechanisms.gram.johnson_lindenstrauss import theorem_bound as projection_bound
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.mechanisms.gram.simulated import draw_noise
from dpspark.mechanisms.gram.wishart import theorem_bound as wishart_bound
from dpspark.planning import plan
from dpspark.planning.accuracy import spectral_of
from dpspark.planning.budget_left import BudgetLeft
from dpspark.planning.fits import least_rows
from dpspark.planning.guess import find_guess
from dpspark.spec.choose import choose_gram
from dpspark.spec.spec import load_spec
from tests.conftest import release_of

GUESS = {
    "rows": 50_000,
    "means": {"age": 45, "educ": 9, "income": 40_000},
    "sds": {"age": 15, "educ": 3, "income": 30_000},
    "correlations": {"age,income": 0.3, "educ,income": 0.4, "income,sex[M]": 0.2},
    "shares": {"sex": {"F": 0.6}},
}


def sample(rows: int, seed: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age, educ = rng.uniform(18, 99, rows), rng.uniform(1, 16, rows)
    return {
        "age": age,
        "educ": educ,
        "income": 500 * age + 3000 * educ + rng.uniform(0, 5e4, rows),
        "sex": rng.choice(["F", "M"], rows),
    }


@pytest.mark.parametrize("rows", [None, 40_000])
def test_only_assumed_rows_are_called_so(conf: dict[str, Any], rows: int | None) -> None:
    """Kills: a plan for the rows that were asked for which says that nobody named any."""
    found = find_guess(load_spec(conf), rows=rows)
    assert found.rows == (rows or 1_000_000)
    assert ("a million" in found.source) is (rows is None)


def test_a_guess_has_the_moments_that_it_states(conf: dict[str, Any]) -> None:
    spec = load_spec(conf)
    found = find_guess(spec, GUESS)
    assert found.rows == 50_000
    for name in ("age", "educ", "income"):
        assert found.column(spec.domain, name) == pytest.approx((GUESS["means"][name], GUESS["sds"][name]))  # type: ignore[index]
    terms = spec.domain.terms[1:]
    std = np.sqrt(np.diag(found.covariance))
    correlation = found.covariance / np.outer(std, std)
    assert correlation[terms.index("age"), terms.index("income")] == pytest.approx(0.3)
    assert correlation[terms.index("age"), terms.index("educ")] == 0
    assert correlation[terms.index("sex[F]"), terms.index("sex[M]")] == pytest.approx(-1)
    assert found.mean[terms.index("sex[M]")] == pytest.approx(0.4)  # the rest of the shares
    assert find_guess(spec, GUESS, rows=77).matrix[0, 0] == 77


def test_without_a_guess_columns_are_spread_evenly(conf: dict[str, Any]) -> None:
    spec = load_spec(conf)
    found = find_guess(spec)
    assert found.assumed
    assert found.column(spec.domain, "age") == pytest.approx((58.5, 81 / np.sqrt(12)))
    assert "assumed" in plan(conf).summary()
    conf["release"]["expected_rows"] = 1234
    assert find_guess(load_spec(conf)).rows == 1234


@pytest.mark.parametrize(
    ("guess", "words"),
    [
        ({"mean": {}}, "mean"),
        ({"means": {"wealth": 1}}, "wealth"),
        ({"means": {"age": 17}}, "inside its bounds"),
        ({"sds": {"age": 60}}, "40.5 at most"),
        ({"sds": {"age": -1}}, "number > 0"),
        ({"correlations": {"age": 0.2}}, "two columns"),
        ({"correlations": {"age,wealth": 0.2}}, "two columns"),
        ({"correlations": {"sex[F],sex[M]": 0.2}}, "categories|Categories"),
        ({"correlations": {"age,educ": 1.2}}, "1"),
        ({"correlations": {"age,educ": 0.9, "educ,income": 0.9, "age,income": -0.9}}, "no data have"),
        ({"shares": {"sex": {"F": 0.7, "M": 0.7}}}, "1 at most"),
        ({"shares": {"sex": {"X": 0.7}}}, "expected F, M"),
        ({"weight": {"mean": 2}}, "a conf with a weight"),
        ("/not/there.yaml", "No such file"),
    ],
)
def test_impossible_guesses_are_refused(conf: dict[str, Any], guess: Any, words: str) -> None:
    with pytest.raises(ConfError, match=words):
        find_guess(load_spec(conf), guess)


@pytest.mark.parametrize("tighter", [False, True])
def test_a_release_is_a_guess_whatever_its_bounds(conf: dict[str, Any], tmp_path: Path, tighter: bool) -> None:
    """Standard errors planned from a release are those that it states itself, if nothing else changes."""
    made = release_of(conf, sample(40_000))
    digest = stage(tmp_path / "out", "entry", made.tables, {k: v for k, v in made.manifest.items() if k != "files"})
    publish(staging_path(tmp_path / "out", "entry", digest), tmp_path / "out" / "done", digest)
    formula = "income ~ age + educ + sex"
    stated = made.regress(formula)
    if tighter:
        conf["columns"]["income"] = {"lower": 0, "upper": 150_000}
    found = plan(conf, formula, tmp_path / "out" / "done").fits[0].prediction
    assert found.coefficients == pytest.approx(list(stated.params.values()), rel=1e-6, abs=1e-6)
    errors = list(stated.std_errors.values())
    assert found.sampling == pytest.approx(
        np.sqrt(np.array(errors) ** 2 - np.array(list(stated.privacy_std_errors.values())) ** 2), rel=0.01
    )
    if not tighter:
        assert found.std_errors == pytest.approx(errors, rel=0.01)
    else:
        assert (found.privacy < list(stated.privacy_std_errors.values())).all()
    with pytest.raises(ConfError, match="no 'wealth'"):
        plan({**conf, "columns": {"wealth": {"lower": 0, "upper": 1}}}, (), tmp_path / "out" / "done")


def test_tighter_bounds_save_what_the_plan_says(conf: dict[str, Any]) -> None:
    """0 to 2,000,000 where 0 to 200,000 will do: a tenth of the width, a hundredth of the noise of a square."""
    wide = copy.deepcopy(conf)
    wide["columns"]["income"]["upper"] = 2_000_000
    guess = {**GUESS, "sds": {**GUESS["sds"], "income": 40_000}}  # type: ignore[dict-item]
    found = plan(wide, "income ~ age", guess)
    first = found.bounds[0]
    assert (first.column, first.new_lower, first.new_upper) == ("income", 0, 200_000)
    assert first.entry_cut == pytest.approx(100)
    assert "from 2,000,000 to 200,000 cuts its noise 100×" in str(first)
    narrow = plan(conf, "income ~ age", guess)
    worst = int(np.argmax(found.fits[0].prediction.privacy / found.fits[0].prediction.std_errors))
    cut = found.fits[0].prediction.privacy[worst] / narrow.fits[0].prediction.privacy[worst]
    assert dict(first.fit_cuts)["income ~ age"] == pytest.approx(cut)
    assert not any(found.helps for found in narrow.bounds)
    assert not any(found.helps for found in plan(conf).bounds)


def test_rows_for_significance_are_where_it_begins(conf: dict[str, Any]) -> None:
    weak = {**GUESS, "correlations": {"age,income": 0.03, "educ,income": -0.04, "income,sex[M]": 0.02}}
    for name in ("gaussian", "johnson_lindenstrauss"):
        made = {**copy.deepcopy(conf), "mechanism": {"name": name}}
        fit = plan(made, "income ~ age + educ + sex", weak).fits[0]
        for i in range(1, 4):
            there = plan(made, "income ~ age + educ + sex", weak, rows=round(fit.rows_needed[i])).fits[0].prediction
            assert abs(there.coefficients[i] / there.std_errors[i]) == pytest.approx(1.96, rel=0.05)
    nothing = plan(conf, "income ~ age", {**GUESS, "correlations": {}}).fits[0]
    assert np.isnan(nothing.rows_needed[1])
    assert least_rows(lambda n: n >= 1000) == pytest.approx(1000, rel=0.011)
    assert np.isnan(least_rows(lambda _: False))


def test_what_the_noise_drowns_is_not_identified(conf: dict[str, Any]) -> None:
    fit = plan(conf, "income ~ age + educ", GUESS, rows=300).fits[0]
    assert fit.prediction.status == "NOT_IDENTIFIED"
    assert fit.prediction.chance < 0.1
    enough = plan(conf, "income ~ age + educ", GUESS, rows=round(1.2 * fit.rows_identified)).fits[0].prediction
    assert enough.status == "OK"
    assert 0.3 < enough.chance < 1
    text = plan(conf, "income ~ age + educ", GUESS, rows=300).summary()
    assert "NOT IDENTIFIED" in text
    assert "rows on it would be" in text


def test_residual_sds_replace_what_correlations_say(conf: dict[str, Any]) -> None:
    fit = plan(conf, "income ~ age", {**GUESS, "residual_sds": {"income": 10_000}}).fits[0].prediction
    usual = plan(conf, "income ~ age", GUESS).fits[0].prediction
    assert fit.coefficients == pytest.approx(usual.coefficients)
    residual = 30_000 * np.sqrt(1 - 0.3**2)
    assert fit.sampling / usual.sampling == pytest.approx(10_000 / residual, rel=1e-3)


def test_spectral_bounds_hold() -> None:
    """Of 4000 draws (seed 1) 5% exceed the simulated bound, give or take 1.5%, and fewer the closed form."""
    for width in (3, 8):
        noise = AdditiveNoise(np.sqrt(2), 1.0)
        found = spectral_of(noise, np.zeros((width, width)), 0.05)
        drawn = np.abs(
            np.linalg.eigvalsh(draw_noise(noise, np.zeros((width, width)), True, np.random.default_rng(1), 4000))
        ).max(axis=1)
        assert found.simulated is not None
        assert found.closed_form is not None
        assert np.mean(drawn > found.simulated) == pytest.approx(0.05, abs=0.015)
        assert np.mean(drawn > found.closed_form) < 0.05
    assert spectral_of(noise, np.zeros((100, 100)), 0.05).simulated is None


def moments(rows: int) -> np.ndarray:
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (rows, 2))
    z = np.column_stack([np.ones(rows), x, 0.3 + x @ [0.2, -0.1] + rng.uniform(-0.3, 0.3, rows)])
    return z.T @ z


def test_theorem_4_2_holds_where_it_applies() -> None:
    """200 draws of the paper's own estimator, all within its bound at nu = 0.05 (a right bound fails 5% of the time)."""
    matrix, degrees, scale = moments(20_000), 100, 1.0
    c, bound = wishart_bound(matrix, degrees, scale, 0.05)
    assert c > 2
    noise = AdditiveNoise(np.sqrt(2 * degrees), np.sqrt(degrees), law="wishart", degrees=degrees)
    drawn = draw_noise(noise, matrix, True, np.random.default_rng(0), 200) + degrees * np.eye(4)
    usual = np.linalg.solve(matrix[:3, :3], matrix[:3, 3])
    away = [np.linalg.norm(np.linalg.solve(m[:3, :3], m[:3, 3]) - usual) for m in matrix + drawn]
    assert np.mean(np.array(away) > bound) <= 0.05
    assert wishart_bound(moments(300), degrees, scale, 0.05)[1] == np.inf


def test_theorem_3_2_is_in_the_right_units() -> None:
    """A residual norm, not its square: the bound falls with √rows of the projection, and does not grow with the data's rows."""
    small, large = (projection_bound(moments(n), 1e6, 50.0, 0.05) for n in (20_000, 80_000))
    assert large == pytest.approx(small, rel=0.05)
    assert projection_bound(moments(20_000), 4e6, 50.0, 0.05) == pytest.approx(small / 2)


@pytest.mark.parametrize(("name", "theorem"), [("wishart", "4.2"), ("johnson_lindenstrauss", "3.2")])
def test_papers_bounds_are_shown_where_they_apply(conf: dict[str, Any], name: str, theorem: str) -> None:
    made = {**conf, "mechanism": {"name": name}}
    (line,) = plan(made, "income ~ age", GUESS).papers
    assert f"Theorem {theorem}" in line
    assert plan(conf, "income ~ age", GUESS).papers == ()
    if name == "wishart":
        assert "does not apply" in plan(made, "income ~ age", GUESS, rows=100).papers[0]


def test_what_is_left_in_the_ledger(conf: dict[str, Any], tmp_path: Path) -> None:
    found = plan(conf).budget_left
    assert found.left == (100.0, 1e-3)
    assert "people has left epsilon 100 of 100" in str(found)
    assert (
        str(BudgetLeft("people", (3.0, 1e-6), (2.0, 0.0))) == "Ledger: people has left epsilon 2 of 3, at delta 1e-06"
    )
    for ledger, words in (
        ({"url": f"sqlite:///{tmp_path}/none.db", "dataset": "people"}, "not there"),
        ({"url": conf["ledger"]["url"], "dataset": "others"}, "nothing was granted on others"),
        ({"url": "nonsense", "dataset": "people"}, "cannot be read"),
        ({"dataset": "people"}, "none named"),
    ):
        found = plan({**conf, "ledger": ledger}).budget_left
        assert found.left is None
        assert words in str(found)
    assert not (tmp_path / "none.db").exists()
    assert plan({**conf, "ledger": {"dataset": "people"}}, url=conf["ledger"]["url"]).budget_left.left == (100.0, 1e-3)


ROW_NORMS = [{"mode": "cap", "radius": 1.0}, {"mode": "project", "radius": 1.0}]


def test_weights_row_norms_private_bounds_and_groups_have_plans(conf: dict[str, Any]) -> None:
    weighted = {**copy.deepcopy(conf), "weight": {"column": "w", "upper": 3}}
    assert plan(weighted, "income ~ age", GUESS).fits[0].prediction.status == "NO_INTERVAL"
    weighted["weight"]["squares_share"] = 0.2
    fit = plan(weighted, "income ~ age", {**GUESS, "weight": {"mean": 1, "sd": 0.5}}).fits[0].prediction
    usual = plan(conf, "income ~ age", GUESS).fits[0].prediction
    assert fit.sampling / usual.sampling == pytest.approx(np.sqrt(1.25), rel=0.01)  # E w² / (E w)²
    private = copy.deepcopy(conf)
    private["columns"]["income"] = {"bounds": "private", "search": [0, 10_000_000]}
    assert "planned as if found at: income" in plan(private, "income ~ age", GUESS).summary()
    grouped = {**copy.deepcopy(conf), "release": {**conf["release"], "group_by": ["s"], "groups": ["a", "b"]}}
    assert "in each of 2 groups" in plan(grouped, "income ~ age", GUESS).summary()
    for norm in ROW_NORMS:
        assert plan({**conf, "row_norm": norm}, "income ~ age", GUESS).fits[0].prediction.ok
    regression = {**conf["release"], "kind": "regression", "response": "income"}
    capped = {**conf, "release": regression, "row_norm": {"mode": "cap", "radius": 1.0, "include_response": True}}
    assert plan(capped, (), GUESS).fits[0].prediction.status == "OK"
    assert "biases" in plan({**capped, "row_norm": ROW_NORMS[0]}, (), GUESS).summary()
    with pytest.raises(ConfError, match="one regression"):
        plan({**conf, "release": regression}, "income ~ age", GUESS)


def test_every_plan_is_json_and_short(conf: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "guess.yaml"
    path.write_text(yaml.safe_dump(GUESS))
    found = dpspark.plan(conf, regress=["income ~ age + educ + sex", "educ ~ age"], guess=path)
    shown = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [fit["formula"] for fit in shown["regressions"]] == ["income ~ age + educ + sex[M]", "educ ~ age"]
    assert shown["guess"]["from"] == str(path)
    assert len(found.summary().splitlines()) <= 60
    assert choose_gram(load_spec(conf)).noise.off_diagonal_std == found.option("gaussian").off_diagonal_std  # type: ignore[union-attr]
