"""`dpspark demo`, and the README's examples on what it leaves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.commands import exit_code

README = (Path(__file__).parents[2] / "README.md").read_text()
ROWS = 30_000


@pytest.fixture(scope="module")
def demo_home(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        assert exit_code("demo", "--rows", str(ROWS)) == 0
    return home


def blocks(language: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", README, re.S)
    return [block.replace("1000000", str(ROWS)) for block in found]


def test_demo_again_costs_nothing(
    demo_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(demo_home)
    assert exit_code("demo", "--rows", str(ROWS)) == 0
    out = capsys.readouterr().out
    assert f"Released: demo/releases/income/{ROWS}-rows" in out
    assert "educ" in out
    next_commands = [line.strip() for line in out.split("Next, try:")[1].splitlines() if line.strip()]
    assert len(next_commands) == 3
    assert exit_code("ledger", "show", "--url", "sqlite:///demo/ledger.db", "--json") == 0
    assert '"one_by_one": {"epsilon": 1.0' in capsys.readouterr().out


def test_next_commands_work(
    demo_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shlex

    monkeypatch.chdir(demo_home)
    assert exit_code("demo", "--rows", str(ROWS)) == 0
    for line in capsys.readouterr().out.split("Next, try:")[1].strip().splitlines():
        assert exit_code(*shlex.split(line)[1:]) == 0, line


def test_conf_and_commands_in_the_readme(
    demo_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The conf and every `dpspark` line, in their order, on the demo's data."""
    import shlex

    monkeypatch.chdir(demo_home)
    (conf,) = blocks("yaml")
    assert yaml.safe_load(conf)["source"]["parquet"] == "data/people"
    (demo_home / "data").mkdir()
    (demo_home / "data" / "people").symlink_to(demo_home / "demo" / f"microdata-{ROWS}")
    (demo_home / "conf.yaml").write_text(conf)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("dpspark ")]
    assert len(lines) == 6
    for line in lines:
        assert exit_code(*shlex.split(line, comments=True)[1:]) == 0, line
    assert "sex[M]" in capsys.readouterr().out
