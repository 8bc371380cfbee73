"""From a Parquet file to a release, by what the commands themselves say to do next; and completion in a real shell."""

from __future__ import annotations

import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from object_store import Bucket
from terminals import ROOT

from dpspark.spec.draft import TODO
from tests.commands import run


@pytest.fixture
def here(people: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(people.parent)
    return people.parent


def test_a_newcomers_way(spark: Any, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a command that is suggested and does not run; a conf that passes unfilled; a dry run unlike the release."""
    code, out, err = run(capsys, "init", "--parquet", "people.parquet")
    assert (code, err) == (0, "")
    assert out.startswith("conf.yaml: 4 columns, by their names and types; no data was read.\n")
    commands = [shlex.split(line)[1:] for line in out.splitlines() if line.startswith("  dpspark ")]
    assert [command[0] for command in commands] == ["check", "ledger", "release", "release"]
    code, _, err = run(capsys, *commands[0])
    assert (code, "columns.age.lower is still TODO, and 6 more" in err) == (2, True)
    text = Path("conf.yaml").read_text()
    bounds = {"age": (18, 99), "educ": (1, 16), "income": (0, 200000)}
    for name, (lower, upper) in bounds.items():
        text = text.replace(f"  {name}: {{lower: TODO, upper: TODO}}", f"  {name}: {{lower: {lower}, upper: {upper}}}")
    Path("conf.yaml").write_text(text.replace("sex: {categories: TODO}", "sex: {categories: [F, M]}"))
    for command in commands[:3]:
        assert run(capsys, *command)[0] == 0, command
    assert not Path("releases").exists()
    code, out, _ = run(capsys, *commands[3])
    assert (code, out) == (0, f"{here / 'releases' / 'people' / '1'}\n")
    assert run(capsys, "regress", out.strip(), "income ~ age + sex")[0] == 0
    code, _, err = run(capsys, "init", "--parquet", "people.parquet")
    assert (code, "is there already" in err) == (4, True)


def test_init_from_a_store(bucket: Bucket, people: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: an address that init takes and a conf does not; another schema than on a disk."""
    bucket.put("data/people/a.parquet", people)
    address = bucket.address("data/people")
    assert run(capsys, "init", "--parquet", address, "--out", "store.yaml", "--name", "people")[0] == 0
    assert run(capsys, "init", "--parquet", "people.parquet", "--out", "disk.yaml")[0] == 0
    store, disk = Path("store.yaml").read_text(), Path("disk.yaml").read_text()
    assert re.sub(r"parquet: .*", "", store) == re.sub(r"parquet: .*", "", disk)
    Path("store.yaml").write_text(
        store.replace(f"lower: {TODO}, upper: {TODO}", "lower: 0, upper: 9").replace(TODO, "[F, M]")
    )
    code, out, _ = run(capsys, "check", "store.yaml")
    assert (code, "1 file, every column fits" in out) == (0, True)


@pytest.fixture
def on_path(tmp_path: Path) -> dict[str, str]:
    """An environment in which `dpspark` is a command."""
    program = tmp_path / "bin" / "dpspark"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from dpspark.cli.main import main; main()" "$@"\n'
    )
    program.chmod(0o755)
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "TERM": "dumb",
        "HOME": str(tmp_path),
        "PS1": "$ ",
    }


def typed(shell: list[str], keys: str, environment: dict[str, str], where: Path) -> str:
    """What a shell on a terminal shows of what is typed into it."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        shell, stdin=follower, stdout=follower, stderr=follower, env=environment, cwd=where, start_new_session=True
    )
    os.close(follower)
    os.write(leader, keys.encode())
    seen = b""
    try:
        while True:
            try:
                seen += os.read(leader, 4096)
            except OSError:
                break
        process.wait(60)
    finally:
        process.kill()
        os.close(leader)
    return seen.decode(errors="replace")


def test_bash_completes(on_path: dict[str, str], here: Path) -> None:
    """Kills: a script that bash does not take; commands, options, choices or files that are not completed.

    What is typed is completed by Tab and then run, so that only a right completion gives a right result.
    """
    keys = 'eval "$(dpspark completion bash)"\n'
    keys += "dpspark ini\t--par\tpeo\t--na\tx\n"  # init --parquet people.parquet --name x
    keys += "dpspark che\tcon\t\n"  # check conf.yaml
    keys += "dpspark completion zs\t> script\nexit\n"
    seen = typed(["bash", "--norc", "--noprofile", "-i"], keys, on_path, here)
    assert "conf.yaml: 4 columns" in seen, seen
    assert "columns.age.lower is still TODO" in seen, seen
    assert "#compdef dpspark" in (here / "script").read_text()


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_completes(on_path: dict[str, str], here: Path) -> None:
    program = "dpspark completion fish | source; complete -C 'dpspark re'; complete -C 'dpspark convert x --to '"
    done = subprocess.run(["fish", "-c", program], env=on_path, cwd=here, capture_output=True, text=True)
    names = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert names == ["regress", "release", "report", "csv", "json", "r"], done


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_completes(on_path: dict[str, str], here: Path) -> None:
    keys = 'autoload -Uz compinit; compinit -u; eval "$(dpspark completion zsh)"\n'
    keys += "dpspark ini\t--parquet people.parquet\ndpspark che\tconf.yaml\nexit\n"
    seen = typed(["zsh", "-f", "-i"], keys, on_path, here)
    assert "conf.yaml: 4 columns" in seen, seen
    assert "columns.age.lower is still TODO" in seen, seen
