"""`dpspark plan` from the command line."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import run as run_command

DOCS = Path(__file__).parents[2] / "docs"
GUESS = {"rows": 30_000, "sds": {"income": 40_000}, "correlations": {"educ,income": 0.4}}
FORMULA = "income ~ age + educ"


@pytest.fixture
def files(conf: dict[str, Any], tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "conf.yaml").write_text(yaml.safe_dump(conf))
    (tmp_path / "guess.yaml").write_text(yaml.safe_dump(GUESS))
    return str(tmp_path / "conf.yaml"), str(tmp_path / "guess.yaml")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return run_command(capsys, "plan", *arguments)


def test_regressions_targets_and_json(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    conf, guess = files
    given = (conf, "--regress", FORMULA, "--guess", guess)
    code, out, err = run(capsys, *given)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 60
    for words in (FORMULA, "Std. Error", "privacy", "people has left epsilon 100", "Fewer columns", "this conf"):
        assert words in out
    shown = json.loads(run(capsys, *given, "--json")[1])
    educ = shown["regressions"][0]["terms"][2]
    found = json.loads(run(capsys, *given, "--target", f"se:educ={educ['std_error'] * 1.0001}", "--json")[1])
    assert found["epsilon"] == pytest.approx(1.0, rel=0.02)
    there = json.loads(run(capsys, *given, "--set", f"privacy.epsilon={found['epsilon']}", "--json")[1])
    assert there["regressions"][0]["terms"][2]["std_error"] == pytest.approx(found["reached"])
    assert "epsilon=" in run(capsys, conf, "--target", "spectral=500")[1]


def test_a_picture(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf, guess = files
    given = (conf, "--regress", FORMULA, "--guess", guess)
    picture = tmp_path / "plan.png"
    assert run(capsys, *given, "--plot", str(picture))[0] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, _, err = run(capsys, *given, "--plot", str(tmp_path / "none" / "plan.png"))
    assert (code, len(err.splitlines())) == (4, 1)
    assert run(capsys, *given, "--plot", str(tmp_path / "plan.nonsense"))[0] == 4
    assert run(capsys, *given, "--plot", str(picture), "--target", "5")[0] == 2
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = run(capsys, *given, "--plot", str(picture))
    assert code == 2
    assert "pip install 'dpspark[plot]'" in err


def test_the_document_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/planning.md reads no release and draws no noise, so that all of it repeats."""
    monkeypatch.delenv("DPSPARK_LEDGER", raising=False)
    docs = runpy.run_path(str(DOCS / "generate.py"))
    text = (DOCS / "planning.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for match in docs["CONF"].finditer(text):
        (tmp_path / match[1]).write_text(match[0].partition("\n")[2].removesuffix("```"), encoding="utf-8")
    assert docs["fill"](text, str(tmp_path)) == text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "se:educ=0.001", "--regress", FORMULA], "without any noise"),
        (["--target", "se:wealth=5", "--regress", FORMULA], "one of (intercept), age, educ"),
        (["--target", "se:educ=5"], "add --regress"),
        (["--target", "se:educ=5", "--regress", FORMULA, "--regress", "income ~ educ"], "Give one --regress"),
        (["--target", "size=5"], "se:educ=50"),
        (["--target", "entry=many"], "a number > 0"),
        (["--target", "entry=1=2"], "--target"),
        (["--regress", "income ~ wealth"], "no column 'wealth'"),
        (["--guess", "nowhere.yaml"], "No such file"),
        (["--rows", "0"], "--rows"),
        (["--level", "2"], "level"),
    ],
)
def test_refused(files: tuple[str, str], arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, files[0], *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) <= 4  # click's own have three
