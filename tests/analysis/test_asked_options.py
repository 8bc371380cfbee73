"""From Python too: what does not apply is refused, and what stands for something is known by its name."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.errors import BeyondBounds, ConfError, DpsparkError
from tests.conftest import release_of
from tests.kinds_of_release import CONFS, LINE, ONE, QUANTILES, TWO, published_kinds
from tests.report.bundles import conf_with


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {kind: dpspark.read_release(path) for kind, path in published_kinds(tmp_path_factory.mktemp("k")).items()}


@pytest.mark.parametrize("kind", ["line", "lines by group", "quantiles", "quantiles by group", "gram by group"])
def test_no_keyword_is_swallowed(kind: str, kinds: dict[str, Any]) -> None:
    """Fails on 0.2.0: any keyword passed."""
    with pytest.raises(TypeError, match="levle"):
        kinds[kind].regress(levle=0.9)


@pytest.mark.parametrize("kind", [kind for kind in CONFS if "by group" not in kind])
def test_a_level_applies_or_is_refused(kind: str, kinds: dict[str, Any]) -> None:
    """Fails on 0.2.0: lines and quantiles took any level, and what has no intervals took one too."""
    formula = ["income ~ age"] if kind.startswith("gram") and not kind.startswith("gram_ridge") else []
    for bad in (7, 0, 1.0, float("nan"), True, "0.9"):
        with pytest.raises(ConfError, match="level="):
            kinds[kind].regress(*formula, level=bad)
    usual = kinds[kind].regress(*formula)
    if not hasattr(usual, "conf_int") or np.isnan(list(usual.conf_int().values())).all():
        with pytest.raises(ConfError, match="interval"):
            kinds[kind].regress(*formula, level=0.5)
    else:
        found = kinds[kind].regress(*formula, level=0.5)
        assert found.conf_int() == usual.conf_int(0.5)
        assert "50% interval" in found.summary()


def test_stored_intervals_say_their_level(kinds: dict[str, Any]) -> None:
    """Fails on 0.2.0: no level in what lines give to machines."""
    assert kinds["line with interval"].level == kinds["line with interval"].to_dict()["level"] == 0.9
    assert kinds["line"].to_dict()["level"] is None
    assert kinds["gram_ridge"].fit().to_dict()["level"] == 0.95
    low, high = kinds["gram_ridge"].coefficients(0.5).loc["age", ["ci_low", "ci_high"]]
    assert (low, high) == kinds["gram_ridge"].fit().conf_int(0.5)["age"]


def test_an_outcome_without_an_interval_says_which(conf: dict[str, Any]) -> None:
    """A level that was asked for is named also where the noise left no interval. Fails on 0.2.0."""
    conf["privacy"]["epsilon"] = 0.01
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(18, 99, 50), "educ": rng.uniform(1, 16, 50), "income": rng.uniform(0, 2e5, 50)}
    drowned = release_of(conf, {**rows, "sex": rng.choice(["F", "M"], 50)})
    assert drowned.regress("income ~ age", 0.5).status == "NOT_IDENTIFIED"
    assert "no 50% interval is given" in drowned.regress("income ~ age", 0.5).summary()
    assert "there was nothing to repair" in _sound(conf).regress("income ~ age", repair="eigen").summary()


def _sound(conf: dict[str, Any]) -> Any:
    conf["privacy"]["epsilon"] = 50.0
    rng = np.random.default_rng(0)
    rows = {"age": rng.uniform(18, 99, 9000), "educ": rng.uniform(1, 16, 9000), "income": rng.uniform(0, 2e5, 9000)}
    return release_of({**conf, "columns": {k: conf["columns"][k] for k in rows}}, rows)


def test_a_group_of_quantiles(kinds: dict[str, Any]) -> None:
    """Fails on 0.2.0: it had no groups to choose from."""
    whole, one = kinds["quantiles by group"], kinds["quantiles by group"].group(tract="b")
    table = whole.quantiles()
    assert one.to_dict("list") == table[table["tract"] == "b"].to_dict("list")
    with pytest.raises(ConfError, match="not a release by group"):
        kinds["quantiles"].group(tract="b")
    with pytest.raises(AttributeError, match="choose a group first"):
        kinds["gram by group"].covariance()


@pytest.mark.parametrize("what", ["covariance", "correlation", "pca", "second_moment", "noise_std", "all_subsets"])
@pytest.mark.parametrize(
    ("kind", "has"), [("quantiles", "quantiles()"), ("line", "predictions()"), ("gram_ridge", "coefficients()")]
)
def test_a_kind_says_what_it_has(kinds: dict[str, Any], kind: str, has: str, what: str) -> None:
    """Fails on 0.2.0: an AttributeError for most, and of no kind a word of what it has. Kills: a name that `hasattr` finds
    or fails at."""
    release = kinds[kind]
    with pytest.raises(DpsparkError, match=re.escape(f"Release kind gram for that.\nThis one has {has}")):
        getattr(release, what)(*(["income"] if what == "all_subsets" else []))
    assert hasattr(release, has.removesuffix("()"))
    assert hasattr(release, what) == (what in ("pca", "all_subsets"))


@pytest.mark.parametrize(
    ("release", "options", "applies"),
    [
        ({}, {"level": 0.5}, False),
        ({}, {"level": 0.5, "regress": "income ~ age"}, True),
        ({}, {"beta": 0.2}, True),
        (ONE, {"level": 0.5}, True),
        (ONE, {"beta": 0.2}, False),
        (LINE, {"level": 0.5}, False),
        (LINE, {"beta": 0.2}, False),
        (QUANTILES, {"level": 0.5}, False),
        (QUANTILES, {"beta": 0.2}, True),
    ],
    ids=str,
)
def test_plan(release: dict[str, Any], options: dict[str, Any], applies: bool) -> None:
    """Fails on 0.2.0: none was refused."""
    only_two = {"columns": TWO} if release in (LINE, QUANTILES) else {}
    line = {"mechanism": {"name": "sufficient_statistics"}} if release is LINE else {}
    conf = conf_with(release=release, **only_two, **line)
    if applies:
        assert dpspark.plan(conf, **options) is not None
    else:
        with pytest.raises(ConfError, match=next(iter(options))):
            dpspark.plan(conf, **options)


def test_what_a_release_that_is_read_does_not_need(kinds: dict[str, Any]) -> None:
    """Fails on 0.2.0: `compute_vcv` of a release took a source, and any keyword."""
    path = Path(str(kinds["gram"].path))
    assert dpspark.compute_vcv(path).shape == (8, 8)
    for options in ({"source": object()}, {"spark": object()}, {"out": "elsewhere"}):
        with pytest.raises(ConfError, match=f"{next(iter(options))} is for a conf"):
            dpspark.compute_vcv(path, **options)


def test_a_server_beside_a_frame() -> None:
    """Fails on 0.2.0: a second session was started for a DataFrame that has one."""
    frame = type("Frame", (), {"mapInArrow": None})()
    with pytest.raises(ConfError, match="has its own session"):
        dpspark.release(conf_with(source=None), frame, "sc://localhost:1")


@pytest.mark.parametrize(
    "again", [{"categories": {"a": ["x"]}}, {"conf": {"columns": {"a": {"lower": 0, "upper": 9}}}}, {"more": (0, 5)}]
)
def test_slots_of_a_vector_are_said_once(again: dict[str, Any]) -> None:
    """Fails on 0.2.0: what was said of a slot beside its vector was ignored."""
    from dpspark.ml import DPCovariance

    bounds: dict[str, Any] = {"features": {"a": (0, 1), "b": (0, 1)}}
    if "more" in again:
        bounds["a"] = again["more"]
    stage = DPCovariance(
        featuresCol="features", epsilon=1.0, delta=1e-9, releaseName="r", releaseVersion="1", ledgerDataset="d"
    ).setBounds(bounds)
    for name in ("categories", "conf"):
        if name in again:
            stage.set(stage.getParam(name), again[name])
    with pytest.raises(ConfError, match="'a' is a slot of the vector"):
        stage.toConf()


def test_f_test_knows_a_categorical(kinds: dict[str, Any]) -> None:
    """Fails on 0.2.0: no coefficient 'region'."""
    fit = kinds["gram"].regress("income ~ age + sex + region")
    assert fit.f_test(["region"]) == fit.f_test("region") == fit.f_test(["region[south]", "region[west]"])
    assert fit.f_test(["region", "region[west]", "age"]).df_num == 3
    assert fit.f_test(["sex"]) == fit.f_test(["sex[M]"])
    with pytest.raises(ConfError, match=r"no coefficient 'regoin'.*Did you mean 'region'"):
        fit.f_test(["regoin"])
    with pytest.raises(ConfError, match="no coefficient 'region'"):  # it is not in this one
        kinds["gram"].regress("income ~ age").f_test(["region"])
    part = kinds["gram"].regress("income ~ age + `region[west]`")
    assert part.f_test(["region"]) == part.f_test(["region[west]"])


@pytest.mark.parametrize("kind", ["gram", "gram_ridge"])
def test_predict_says_what_it_moves(kind: str, kinds: dict[str, Any]) -> None:
    """Fails on 0.2.0: values were clipped without a word. Kills: a warning of rows that are within; one of nulls."""
    formula = ["income ~ age + educ + sex + region"] if kind == "gram" else []
    fit = kinds[kind].regress(*formula)
    rows = {"age": [30.0, 500.0, float("inf")], "educ": [0, 9, 17], "sex": ["F"] * 3, "region": ["west"] * 3}
    with pytest.warns(BeyondBounds) as told:
        moved = fit.predict(rows)
    (one,) = told
    assert "age (2 of 3 beyond 18 to 99), educ (2 of 3 beyond 1 to 16)" in str(one.message)
    assert "sex" not in str(one.message)
    assert one.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        within = fit.predict({**rows, "age": [30.0, 99.0, 99.0], "educ": [1, 9, 16]})
        fit.predict({**rows, "age": [30.0, None, 18.0], "educ": [1, 9, 16]})
    assert moved == pytest.approx(within)


def test_predict_looks_at_its_own_columns_alone(kinds: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kinds["gram"].regress("income ~ age").predict({"age": [30], "educ": [99]})


def test_a_grant_is_in_one_currency(tmp_path: Path) -> None:
    """Fails on 0.2.0: a grant in rho took an epsilon beside it, and forgot it."""
    ledger = dpspark.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    with pytest.raises(ConfError, match="or rho alone"):
        ledger.grant("d", epsilon=1.0, rho=0.1)
    assert ledger.balances() == []


def test_pictures_of_lines_say_their_level(kinds: dict[str, Any]) -> None:
    """Fails on 0.2.0: error bars of an unknown level."""
    assert "90% intervals" in kinds["line with interval"].plot().get_title()
    assert "interval" not in kinds["line"].plot().get_title()
