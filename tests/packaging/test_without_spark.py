"""An analyst's install: no pyspark, no OpenDP, no Java. Releases are read, analysed, reported, verified and put together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RELEASES = ROOT / "tests/golden/v020/releases"
WITHOUT = "import sys; sys.modules.update(pyspark=None, opendp=None); from dpspark.cli.main import main; main()"
GRAM, FORMULA = RELEASES / "gaussian" / "1", "income ~ age + sex"


def dpspark(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={"PYTHONPATH": str(ROOT)})


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", GRAM],
        ["regress", GRAM, FORMULA],
        ["table", GRAM, "income ~ age", "income ~ sex", FORMULA, "--to", "tex", "-o", "table.tex"],
        ["report", GRAM, "-o", "report.html"],
        ["verify", GRAM],
        ["covariance", GRAM],
        ["pca", GRAM],
        ["convert", GRAM, "--to", "csv", "-o", "csv"],
        ["compare", GRAM, RELEASES / "laplace" / "1", FORMULA],
        ["init", "--help"],
        ["plan", "--help"],
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_analysts_need_no_spark(arguments: list[object], tmp_path: Path) -> None:
    """Kills: an analyst's command that imports pyspark or OpenDP."""
    done = dpspark(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout or list(tmp_path.iterdir())


def test_the_estimators_say_what_they_need(tmp_path: Path) -> None:
    """Kills: "No module named 'pyspark'" without the line that installs it."""
    program = "import sys; sys.modules.update(pyspark=None); import dpspark.ml"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 1
    assert done.stderr.endswith(
        "ImportError: dpspark.ml needs pyspark, and this Python has none. Run: pip install 'dpspark[spark]'\n"
    )


@pytest.mark.parametrize("command", [["audit", "laplace", "--trials", "200"], ["demo", "--rows", "1000"]])
def test_what_is_missing_is_said(command: list[str], tmp_path: Path) -> None:
    """Kills: "unexpected ModuleNotFoundError" where a line would install what is missing."""
    done = dpspark(*command, cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'dpspark[spark]'" in done.stderr
    assert "unexpected" not in done.stderr
