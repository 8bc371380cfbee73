"""Colours on a real terminal, and nowhere else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminals import PROGRAM, ROOT, on_a_terminal

from dpspark.bundle.staging import publish, stage, staging_path
from tests.conftest import release_of
from tests.report.bundles import CONF, conf_with, people, published

BOLD, GREEN, RED, END = "\x1b[1m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


@pytest.fixture
def release(conf: dict[str, Any], tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    age, noise = rng.uniform(18, 99, 20_000), rng.uniform(1, 16, 20_000)
    values = {"age": age, "educ": noise, "income": 900 * age + rng.uniform(0, 3e4, 20_000)}
    made = release_of(conf, {**values, "sex": np.repeat("F", 20_000)})
    place = tmp_path / "out"
    digest = stage(place, "entry", made.tables, {k: v for k, v in made.manifest.items() if k != "files"})
    publish(staging_path(place, "entry", digest), place / "done", digest)
    return str(place / "done")


def shown(*arguments: str, **environment: str) -> str:
    found = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment}
    found.pop("NO_COLOR", None) if "NO_COLOR" not in environment else None
    return on_a_terminal([*PROGRAM, *arguments], found, columns=100)[1].replace("\r\n", "\n")


def test_a_table_has_colours(release: str) -> None:
    """Kills: none at all; stars of the legend; a colour that is not ended."""
    seen = shown("regress", release, "income ~ age")
    lines = seen.splitlines()
    assert lines[0] == f"{BOLD}income ~ age{END}"
    assert lines[3].startswith(f"{BOLD}  ")
    assert "Estimate" in lines[3]
    assert f"<2e-16  {GREEN}***{END} " in seen
    assert seen.count(GREEN) <= 2
    assert seen.count("\x1b[") == 2 * seen.count(END)


def test_what_is_wrong_is_red(release: str) -> None:
    """`sex[M]` has no rows: the noise drowns it."""
    assert f"\n{RED}NOT IDENTIFIED{END}: " in shown("regress", release, "income ~ age + sex")
    assert shown("regress", release, "income ~ agee").startswith(
        f"{RED}dpspark:{END} formula 'income ~ agee': no column"
    )
    assert f"\n{RED}Error:{END} No such command 'regres'." in shown("regres")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_no_colours_where_nobody_wants_them(release: str, environment: dict[str, str]) -> None:
    """Kills: NO_COLOR or a dumb terminal that is not heard."""
    assert "\x1b" not in shown("regress", release, "income ~ age", **environment)
    assert "\x1b" not in shown("regress", release, "income ~ agee", **environment)


def test_no_colours_in_a_pipe(release: str) -> None:
    """Kills: control characters in a file or a pipe; colours in JSON."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    for formula in ("income ~ age", "income ~ age + sex", "income ~ agee"):
        done = subprocess.run([*PROGRAM, "regress", release, formula], capture_output=True, env=environment)
        assert b"\x1b" not in done.stdout + done.stderr
    assert "\x1b" not in shown("regress", release, "income ~ age", "--json")


@pytest.mark.parametrize("command", [["describe"], ["regress", "income ~ ."], ["covariance"], ["pca"]])
def test_a_strangers_names_do_not_steer_the_terminal(command: list[str], tmp_path: Path) -> None:
    """Kills: an escape in the name of a column of a release, passed on to a terminal."""
    values = people(2000)
    values["a\x1b[2Jb"] = values["age"]
    columns = {"income": CONF["columns"]["income"], "a\x1b[2Jb": CONF["columns"]["age"]}
    release = published(tmp_path, conf_with(columns=columns, privacy={"epsilon": 40.0}), values)
    seen = shown(command[0], str(release), *command[1:])
    assert "\x1b[2J" not in seen
    assert r"a\x1b[2Jb" in seen
