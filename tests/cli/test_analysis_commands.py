"""The analyst's and the planner's commands: what they print, and errors of one or two lines."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpspark.bundle.staging import publish, stage, staging_path
from tests.commands import run
from tests.conftest import release_of


def published(conf: dict[str, Any], place: Path, rows: int, mechanism: dict[str, Any] | None = None) -> str:
    """A release on disk, without Spark."""
    conf = {**copy.deepcopy(conf), "mechanism": mechanism or {}}
    rng = np.random.default_rng(0)
    age, educ = rng.uniform(18, 99, rows), rng.uniform(1, 16, rows)
    income = 900 * age + 4000 * educ + rng.uniform(0, 3e4, rows)
    made = release_of(conf, {"age": age, "educ": educ, "income": income, "sex": rng.choice(["F", "M"], rows)})
    digest = stage(place, "entry", made.tables, {k: v for k, v in made.manifest.items() if k != "files"})
    publish(staging_path(place, "entry", digest), place / "done", digest)
    return str(place / "done")


@pytest.fixture
def release(conf: dict[str, Any], tmp_path: Path) -> str:
    return published(conf, tmp_path / "out", 20_000)


def test_repair(conf: dict[str, Any], release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "regress", release, "income ~ age", "--repair", "ridge")
    assert (code, err) == (0, "")
    assert "Repaired by ridge" in out
    fit = json.loads(run(capsys, "regress", release, "income ~ age", "--repair", "ridge", "--json")[1])
    assert (fit["repair"], fit["estimates_are"]) == ("ridge", "predictions")
    plain = json.loads(run(capsys, "regress", release, "income ~ age", "--json")[1])
    assert (plain["repair"], plain["interval"], plain["interval_of"]) == ("none", "delta", "estimates")
    by_wishart = published(conf, tmp_path / "wishart", 200, {"name": "wishart", "repair": "safe"})
    assert json.loads(run(capsys, "regress", by_wishart, "income ~ age", "--json")[1])["repair"] == "safe"


def test_bootstrap(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("regress", release, "income ~ age + sex", "--interval", "bootstrap", "--json")
    first, again = run(capsys, *arguments), run(capsys, *arguments)
    assert first == again
    fit = json.loads(first[1])
    delta = json.loads(run(capsys, "regress", release, "income ~ age + sex", "--json")[1])
    for boot, usual in zip(fit["terms"], delta["terms"], strict=True):
        assert boot["estimate"] == usual["estimate"]
        assert boot["ci_low"] != usual["ci_low"]


def test_all_subsets(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "regress", release, "--all-subsets", "income", "--top", "3")
    assert code == 0
    assert "8 subsets" in out
    shown = json.loads(run(capsys, "regress", release, "--all-subsets", "income", "--max-terms", "1", "--json")[1])
    assert shown["tried"] == 4
    assert shown["subsets"][0]["columns"] == ["age"]


def test_pca_and_covariance(release: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "pca", release, "-k", "2")
    assert code == 0
    assert "PC2" in out
    assert "PC3" not in out
    shown = json.loads(run(capsys, "pca", release, "--scale", "--json")[1])
    assert shown["of"] == "correlation"
    assert len(shown["components"]) == 4
    code, out, _ = run(capsys, "covariance", release)
    assert code == 0
    assert "±" in out
    shown = json.loads(run(capsys, "covariance", release, "--correlation", "--json")[1])
    entry = next(e for e in shown["entries"] if (e["row"], e["col"]) == ("age", "income"))
    assert 0.5 < entry["value"] < 1
    assert 0 < entry["noise_std"] < 0.1


def test_a_drowned_correlation_says_so(
    conf: dict[str, Any], release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: nan ±nan without a word."""
    conf["privacy"]["epsilon"] = 0.01
    drowned = run(capsys, "covariance", published(conf, tmp_path / "few", 20), "--correlation")[1]
    assert "nan" in drowned
    assert drowned.endswith("the column is drowned by the noise.\n")
    assert "drowned" not in run(capsys, "covariance", release, "--correlation")[1]


def test_plan(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "plan", conf_file)
    assert (code, err) == (0, "")
    for words in ("gaussian (this conf)", "laplace", "Bain et al., corrected", "times less noise", "age × income"):
        assert words in out
    shown = json.loads(run(capsys, "plan", conf_file, "--json", "--set", "privacy.epsilon=0.01")[1])
    assert shown["times_less_noise_than_the_paper"] > 5
    assert len(shown["mechanisms"][0]["entries"]) == 21
    found = json.loads(run(capsys, "plan", conf_file, "--target", "50", "--json")[1])
    assert found["delta"] == 1e-9
    code, out, _ = run(capsys, "plan", conf_file, "--target", "entry:age,income=1e10", "--beta", "0.1")
    assert code == 0
    assert "within 1e+10 with probability 0.9" in out


def test_check_says_that_the_ridge_may_be_lowered(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--set", "mechanism={name: inverse_wishart, adaptive: 0.1}")
    code, out, _ = run(capsys, "check", conf_file, *options)
    assert code == 0
    assert "may be lowered" in out
    assert "may be lowered" not in run(capsys, "check", conf_file, "--set", "mechanism={name: inverse_wishart}")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ["regress", "RELEASE"],
        ["regress", "RELEASE", "income ~ age", "--all-subsets", "income"],
        ["regress", "RELEASE", "income ~ age", "--top", "3"],
        ["regress", "RELEASE", "--all-subsets", "wealth"],
        ["regress", "RELEASE", "--all-subsets", "income", "--top", "0"],
        ["regress", "RELEASE", "income ~ age", "--repair", "glue"],
        ["regress", "RELEASE", "income ~ age", "--repair", "safe"],
        ["regress", "RELEASE", "income ~ age", "--interval", "exact"],
        ["pca", "RELEASE", "-k", "9"],
        ["pca", "RELEASE", "--level", "2"],
        ["pca", "/not/there"],
        ["covariance", "/not/there"],
        ["plan", "/not/there.yaml"],
        ["plan", "CONF", "--target", "entry:age=5"],
        ["plan", "CONF", "--target", "entry:age,wealth=5"],
        ["plan", "CONF", "--target", "se:age=5"],
        ["plan", "CONF", "--target", "rank=0.1"],
        ["plan", "CONF", "--target", "-5"],
        ["plan", "CONF", "--target", "5", "--beta", "7"],
        ["plan", "CONF", "--set", "mechanism={name: gaussian, adaptive: 0.1}"],
        ["plan", "CONF", "--set", "mechanism={name: gaussian, repair: safe}"],
    ],
    ids=" ".join,
)
def test_bad_usage(release: str, conf_file: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    places = {"RELEASE": release, "CONF": conf_file}
    code, out, err = run(capsys, *[places.get(a, a) for a in arguments])
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err
