"""`python -m benchmarks` and `python -m experiments`: every option reaches what runs, or is refused with the reason.

The table has a row for each option; a new option without a row fails `test_every_option_has_a_row`.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import benchmarks.__main__
import experiments.__main__

ROOT = Path(__file__).parents[2]
# For each command what runs behind it, and for each of its options what to add.
BEHIND = {
    "experiments": ["experiments.command.evaluate"],
    "gram": ["benchmarks.gram.bench_gram"],
    "lines": ["benchmarks.lines.bench_lines", "benchmarks.lines.bench_table"],
    "paths": ["benchmarks.paths.bench_paths"],
    "peers": ["benchmarks.peers.run.bench_peers"],
    "scale": ["benchmarks.scale.run.bench_scale"],
}
ADD = {
    "experiments": {
        "--data": ["--data", "DIR"],
        "--quick": ["--quick"],
        "--out": ["--out", "x"],
        "--processes": ["--processes", "3"],
    },
    "gram": {
        "--rows": ["--rows", "1000"],
        "--columns": ["--columns", "3"],
        "--set": ["--set", "wide"],
        "--repeats": ["--repeats", "2"],
        "--json": ["--json"],
    },
    "lines": {
        "--tracts": ["--tracts", "3"],
        "--kernel": ["--kernel", "huber"],
        "--epsilon": ["--epsilon", "8"],
        "--rows": ["--rows", "1000"],
        "--json": ["--json"],
    },
    "paths": {
        "--rows": ["--rows", "10000"],
        "--repeats": ["--repeats", "2"],
        "--only": ["--only", "where"],
        "--compare": ["--no-compare"],
        "--json": ["--json"],
    },
    "peers": {
        "--rows": ["--rows", "1000"],
        "--epsilon": ["--epsilon", "2"],
        "--delta": ["--delta", "1e-6"],
        "--draws": ["--draws", "3"],
        "--only": ["--only", "opendp"],
        "--no-install": ["--no-install"],
        "--json": ["--json"],
    },
    "scale": {
        "--quick": ["--quick"],
        "--only": ["--only", "rows"],
        "--plot": ["--plot", "x"],
        "--json": ["--json"],
    },
}


def run(command: str, *arguments: str) -> int:
    """Run a command of the repository and give its exit code."""
    main = experiments.__main__.main if command == "experiments" else benchmarks.__main__.main
    named = [] if command == "experiments" else [command]
    with pytest.raises(SystemExit) as caught:
        main([*named, *arguments])
    return int(caught.value.code or 0)


def test_every_option_has_a_row() -> None:
    """Kills: an option that is added and tested nowhere."""
    commands = {**benchmarks.__main__.cli.commands, "experiments": experiments.__main__.cli}
    found = {
        name: {max(option.opts, key=len) for option in one.params if option.opts[0].startswith("-")}
        for name, one in commands.items()
    }
    assert found == {name: set(options) for name, options in ADD.items()}


@pytest.mark.parametrize(("command", "option"), [(name, option) for name in ADD for option in ADD[name]], ids=str)
def test_an_option_reaches_what_runs(command: str, option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: an option that is taken and ignored."""
    calls: list[str] = []
    for target in BEHIND[command]:
        module, _, name = target.rpartition(".")

        def note(*given: Any, name: str = name) -> str:
            calls.append(f"{name} {[argument for argument in given if not callable(argument)]}")
            return "done"

        monkeypatch.setattr(importlib.import_module(module), name, note)
    assert run(command) == run(command, *ADD[command][option]) == 0
    without, with_it = calls
    assert without != with_it


@pytest.mark.parametrize("more", [["--tracts", "3"], ["--kernel", "huber"]], ids=" ".join)
def test_tracts_do_not_go_with_rows(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Fails on 0.2.0: it ignored the tracts."""
    assert run("lines", "--rows", "1000", *more) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith("python -m benchmarks: --tracts and --kernel go without --rows")


@pytest.mark.parametrize("command", ["benchmarks", "experiments"])
def test_both_run_from_the_repository(command: str) -> None:
    done = subprocess.run([sys.executable, "-m", command, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Usage: python -m {command} ")
