"""docs/analyse.md from its first command to its last, where there is no pyspark, no OpenDP and no Java."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.bundles import conf_with, published

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MISSING = ("pyspark", "py4j", "opendp", "matplotlib", "docx", "openpyxl", "deltalake", "pyiceberg", "cryptography")
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({MISSING}));"
COMMAND = f"{WITHOUT} from dpspark.cli.main import main; main()"
COLUMNS = {
    "age": {"lower": 18, "upper": 99},
    "educ": {"lower": 1, "upper": 16},
    "income": {"lower": 0, "upper": 200000},
    "sex": {"categories": ["F", "M"]},
}


def steps() -> list[tuple[str, str]]:
    """Every command and every snippet, in the page's order; releases are made by others."""
    found = []
    for kind, body in BLOCK.findall((ROOT / "docs/analyse.md").read_text(encoding="utf-8")):
        found += [(kind, line) for line in body.splitlines()] if kind == "sh" else [(kind, body)]
    return [(kind, text) for kind, text in found if not text.startswith("dpspark release ")]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the releases that the page names, and nothing else."""
    home = tmp_path_factory.mktemp("analyst")
    for version in ("1", "2"):
        conf = conf_with(columns=COLUMNS, release={"name": "gaussian", "version": version})
        published(home / "releases", conf, seed=int(version))
    groups = {"name": "by-sex", "group_by": ["sex"], "groups": ["F", "M"]}
    numbers = {name: COLUMNS[name] for name in ("age", "income")}
    published(home / "releases", conf_with(columns=numbers, release=groups))
    return home


def test_a_walk_through_the_page(place: Path) -> None:
    """Kills: a command of the page that needs what analysts do not have, or that is no longer there."""
    settings = {"PYTHONPATH": str(ROOT), "PATH": "/nonexistent"}
    done = 0
    for kind, text in steps():
        arguments = shlex.split(text)[1:] if kind == "sh" else []
        program = COMMAND if kind == "sh" else f"{WITHOUT}\n{text}"
        command = [sys.executable, "-c", program, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=place, env=settings)
        assert ran.returncode == 0, (text, ran.stderr)
        assert ran.stdout, text
        done += 1
    assert done >= 10
    latex = (place / "table.tex").read_text(encoding="utf-8")
    assert r"\begin{tabular}{lrrr}" in latex
    assert latex.count("income") == 3


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["table", "releases/gaussian/1", "income ~ age", "--to", "docx", "-o", "x.docx"], "dpspark[office]"),
        (["table", "releases/gaussian/1", "income ~ age", "--to", "xlsx", "-o", "x.xlsx"], "dpspark[office]"),
        (["series", "releases/gaussian", "income ~ age", "-o", "x.svg"], "dpspark[plot]"),
        (["load", "releases/gaussian/1", "--tables", "delta:lake"], "dpspark[lake]"),
        (["load", "releases/gaussian/1", "--tables", "results"], "dpspark[spark]"),
        (["warm"], "dpspark[spark]"),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else given,
)
def test_the_line_that_installs_what_is_missing(place: Path, arguments: list[str], line: str) -> None:
    """Kills: a traceback, or a message without the line to run."""
    ran = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        capture_output=True,
        text=True,
        cwd=place,
        env={"PYTHONPATH": str(ROOT), "PATH": "/nonexistent"},
    )
    assert ran.returncode != 0
    assert f"pip install '{line}'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not list(place.glob("x.*"))
