"""`dpspark describe` and `rel.describe()`: what a release holds, and what can be asked of it."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpspark
from dpspark.core.domain import domain_from_manifest
from dpspark.core.formula import parse_formula
from dpspark.published.gram import GramRelease
from tests.commands import run
from tests.conftest import release_of
from tests.kinds_of_release import CONFS, published_kinds
from tests.report.bundles import conf_with, people, published


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return published_kinds(tmp_path_factory.mktemp("kinds"))


def described(conf: dict[str, Any], tmp_path: Path, values: dict[str, Any]) -> dict[str, Any]:
    return dpspark.read_release(published(tmp_path, conf, values)).describe().to_dict()


COMPUTED = conf_with(
    columns={
        "age": {"lower": 18, "upper": 99},
        "age2": {"expr": "age *\n age", "lower": 324, "upper": 9801},
        "share": {"expr": "income / 100000", "lower": 0, "upper": 2},
        "sex": {"categories": ["F", "M"]},
        "income": {"lower": 0, "upper": 200000},
        "cents": {"expr": "income * 100", "lower": 0, "upper": 20000000},
    }
)
COMPUTED.update(where="age >= 18 and region <> 'west'", nulls="midpoint")


def computed_values() -> dict[str, Any]:
    found = people(8000)
    return {**found, "age2": found["age"] ** 2, "share": found["income"] / 1e5, "cents": found["income"] * 100}


@pytest.mark.parametrize("kind", CONFS)
def test_every_kind(kind: str, kinds: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Fails on 0.2.0: there was no such command. Columns, bounds, categories and kind, in text and for machines."""
    code, out, err = run(capsys, "describe", str(kinds[kind]))
    assert (code, err) == (0, "")
    shown = json.loads(run(capsys, "describe", str(kinds[kind]), "--json")[1])
    release = dpspark.read_release(kinds[kind])
    assert shown == json.loads(json.dumps(release.describe().to_dict()))
    assert str(release.describe()) + "\n" == out
    assert shown["kind"] == release.kind
    domain = domain_from_manifest(release.manifest)
    assert [column["name"] for column in shown["columns"]] == [column.name for column in domain.columns]
    for column, known in zip(shown["columns"], domain.columns, strict=True):
        assert [term["term"] for term in column["terms"]] == list(known.terms)
        assert column.get("lower") == getattr(known, "lower", None)
        assert column.get("categories") == (list(known.categories) if hasattr(known, "categories") else None)
        assert all(term in out for term in known.terms)
    assert (shown["groups"] is not None) == ("by group" in kind)
    assert ("mean" in shown["columns"][0]["terms"][0]) == isinstance(release, GramRelease)
    assert "<table>" in release.describe()._repr_html_()


@pytest.mark.parametrize("kind", CONFS)
def test_what_can_be_asked_can_be(
    kind: str, kinds: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    """Kills: an example that is refused, or whose answer is NOT IDENTIFIED; a command without the group that it needs."""
    monkeypatch.chdir(tmp_path)
    found = [dpspark.read_release(kinds[kind])]
    if "by group" in kind:
        chosen = found[0].group(tract="b") if hasattr(found[0], "groups") else found[0].only(tract="b")
        found.append(chosen)
    for release in found:
        asks = release.describe().to_dict()["ask"]
        assert len(asks) >= 3
        for ask in asks:
            program, *arguments = shlex.split(ask["command"])
            code, out, err = run(capsys, *arguments)
            assert (program, code) == ("dpspark", 0), err
            assert "NOT IDENTIFIED" not in out


def test_definitions_filter_and_nulls(tmp_path: Path) -> None:
    """Kills: a computed column that nobody defines; a filter that is not said."""
    release = dpspark.read_release(published(tmp_path, COMPUTED, computed_values()))
    found = release.describe()
    columns = {column["name"]: column for column in found.to_dict()["columns"]}
    assert columns["age2"]["definition"] == "age *\n age"
    assert columns["age"]["definition"] is None
    text = str(found)
    assert "age2 is computed: age * age\n" in text
    assert "Rows where age >= 18 and region <> 'west'" in text
    assert "a null counts as the middle" in text
    assert "sex is one of F, M; a formula compares with sex[F]" in text


def test_means_are_those_of_the_release(kinds: dict[str, Path]) -> None:
    """And their noise is what the noise does to them: |mean - truth| within 6 of it. False alarm: 2e-9 for each of 8."""
    release = dpspark.read_release(kinds["gram"])
    second = release.second_moment()
    values = people(8000)
    truth = {
        "age": values["age"],
        "educ": values["educ"],
        "income": np.clip(values["income"], 0, 200000),
        **{f"sex[{s}]": values["sex"] == s for s in "FM"},
        **{f"region[{r}]": values["region"] == r for r in ("north", "south", "west")},
    }
    for column in release.describe().to_dict()["columns"]:
        for term in column["terms"]:
            mean = second.loc["(intercept)", term["term"]] / second.loc["(intercept)", "(intercept)"]
            assert term["mean"] == pytest.approx(mean)
            assert term["std_dev"] == pytest.approx(math.sqrt(release.covariance().loc[term["term"], term["term"]]))
            assert abs(term["mean"] - truth[term["term"]].mean()) < 6 * term["mean_noise_std"]
            assert abs(term["std_dev"] - truth[term["term"]].std()) < 6 * term["std_dev_noise_std"]


@pytest.mark.parametrize(
    ("columns", "formula"),
    [
        (COMPUTED["columns"], "income ~ age + sex"),  # not of what is made of income, however wide its bounds
        ({"sex": {"categories": ["F", "M"]}, "age": {"lower": 18, "upper": 99}}, "age ~ sex"),
        ({"sex": {"categories": ["F", "M"]}, "region": {"categories": ["north", "south"]}}, "sex[M] ~ region"),
        ({"age": {"lower": 18, "upper": 99}}, "age ~ 1"),
        ({"sex": {"categories": ["F", "M"]}}, "sex[M] ~ 1"),
        ({"sex": {"categories": ["F"]}, "age": {"lower": 18, "upper": 99}}, "age ~ sex[F]"),
        (
            {"the age": {"lower": 18, "upper": 99}, "x": {"expr": "2 * `the age`", "lower": 0, "upper": 1}},
            "`the age` ~ 1",
        ),
        ({"age": {"expr": "a", "lower": 18, "upper": 99}, "b": {"expr": "c", "lower": 0, "upper": 1}}, "age ~ b"),
    ],
    ids=str,
)
def test_the_example_makes_sense(columns: dict[str, Any], formula: str, tmp_path: Path) -> None:
    """Fails on 0.2.0, where the notebook's and the message's example took the last column, whatever it was made of.

    Kills: a one-hot column explained by itself; a square as the response."""
    values = {**computed_values(), "the age": people(8000)["age"], "x": people(8000)["age"], "b": people(8000)["educ"]}
    release = dpspark.read_release(published(tmp_path, conf_with(columns=columns), values))
    assert release.describe().to_dict()["example"] == formula
    assert formula in release._repr_html_().replace("&#x27;", "'")
    blocks = {block.name: block.terms for block in release.content.domain.blocks}
    parse_formula(formula, release.terms, blocks)
    with pytest.raises(dpspark.DpsparkError) as caught:
        release.regress()
    assert formula in str(caught.value)


def test_the_example_is_identified(conf: dict[str, Any]) -> None:
    """As many regressors as the noise allows."""
    rng = np.random.default_rng(1)
    rows = {"age": rng.uniform(18, 99, 3000), "educ": rng.uniform(8, 8.2, 3000), "sex": rng.choice(["F", "M"], 3000)}
    rows["income"] = 1000 * rows["age"] + rng.normal(0, 1e4, 3000)
    made = release_of(conf, rows)
    assert made.regress("income ~ age + educ + sex").status == "NOT_IDENTIFIED"
    assert made.regress(made.describe().to_dict()["example"]).status == "OK"


def test_many_columns_have_few_enough_subsets(tmp_path: Path) -> None:
    """Kills: an example that asks for 2^30 regressions."""
    columns = {f"x{i}": {"lower": 0, "upper": 1} for i in range(30)}
    rng = np.random.default_rng(2)
    found = described(conf_with(columns=columns), tmp_path, {name: rng.uniform(0, 1, 1000) for name in columns})
    (asked,) = (ask["command"] for ask in found["ask"] if "--all-subsets" in ask["command"])
    assert asked.endswith("--max-terms 6")


def test_regressions_with_robust_errors_are_named(kinds: dict[str, Path]) -> None:
    """Kills: a paid meat of which nobody is told."""
    asks = [ask["command"] for ask in dpspark.read_release(kinds["gram with errors"]).describe().to_dict()["ask"]]
    assert f"dpspark regress {kinds['gram with errors']} 'income ~ age + educ'" in asks[1]
