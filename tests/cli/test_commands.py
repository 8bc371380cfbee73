"""The command line as a user meets it: output, exit codes, errors of one or two lines."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.commands import run


@pytest.fixture
def released(spark: Any, conf_file: str, capsys: pytest.CaptureFixture[str]) -> str:
    code, out, _ = run(capsys, "release", conf_file)
    assert code == 0
    return out.strip()


def test_check(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "check", conf_file)
    assert code == 0
    assert "every column fits" in out
    assert "(1, 1e-09)-differentially private" in out
    assert run(capsys, "check", conf_file, "--set", "source.parquet=/not/there")[0] == 0
    assert run(capsys, "check", conf_file, "--set", "columns.wealth={lower: 0, upper: 1}")[0] == 4


def test_check_lists_functions_and_marks_those_that_compile(capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a mark on a function that only Spark evaluates."""
    code, out, _ = run(capsys, "check", "--functions")
    lines = {line.split()[0] for line in out.splitlines() if line.startswith("  ")}
    assert code == 0
    assert {"case*", "year*", "abs*", "exp", "lower", "try_cast"} <= lines
    assert "* compiled" in out.splitlines()[-1]
    listed = json.loads(run(capsys, "check", "--functions", "--json")[1])
    assert {f"{name}*" for name in listed["compiled"]} == {name for name in lines if name.endswith("*")}


def test_check_says_what_is_spent_on_what(conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    private, computed = "{bounds: private, search: [0, 1e6]}", "{expr: age * age, lower: 0, upper: 9801}"
    given = ["--set", f"columns.income={private}", "--set", "diagnostics={epsilon_share: 0.05}"]
    code, out, _ = run(capsys, "check", conf_file, *given, "--set", f"columns.age2={computed}")
    assert code == 0
    assert (
        "spends     epsilon=0.1, delta=1e-10 for the bounds of income: 2 sides by rank, each with epsilon=0.05" in out
    )
    assert "warning    private bounds by rank are for 10,000 rows or more, and best from 48,100 on" in out
    assert "spends     epsilon=0.05, delta=5e-11 to count clipped values: ±" in out
    assert "spends     epsilon=0.85, delta=8.5e-10 for the release itself" in out
    assert "spends" not in run(capsys, "check", conf_file)[1]
    code, out, _ = run(capsys, "check", conf_file, "--set", "weight={column: educ, upper: 16}")
    assert (code, "weight     educ, at most 16" in out) == (0, True)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ("columns.a={expr: wealth + 1, lower: 0, upper: 1}", 4, "columns.a.expr='wealth + 1': no column 'wealth'"),
        ("columns.a={expr: avg(age), lower: 0, upper: 1}", 2, "AVG is an aggregate"),
        ("where=wealth > 1", 4, "where='wealth > 1': no column 'wealth' in the source"),
        ("weight={column: wealth, upper: 3}", 4, "weight.column='wealth': no such column"),
        ("weight={column: sex, upper: 3}", 4, "weight.column='sex': its type is text"),
        ("columns.age={bounds: private}", 2, "needs search: [lowest, highest]"),
        ("diagnostics={epsilon_share: 0}", 2, "diagnostics.epsilon_share: got 0"),
        ("diagnostics={epsilon_share: 1.0e-300}", 2, "diagnostics"),
    ],
)
def test_check_refuses(
    conf_file: str, capsys: pytest.CaptureFixture[str], change: str, code: int, message: str
) -> None:
    found, _, err = run(capsys, "check", conf_file, "--set", change)
    assert (found, message in err) == (code, True), err
    assert len(err.splitlines()) <= 2


def test_release_regress_and_ledger(
    released: str, conf: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run(capsys, "regress", released, "income ~ age + educ")
    assert (code, err) == (0, "")
    assert "Pr(>|t|)" in out
    code, out, _ = run(capsys, "regress", released, "income ~ age + educ", "--json", "--level", "0.9")
    fit = json.loads(out)
    assert [term["term"] for term in fit["terms"]] == ["(intercept)", "age", "educ"]
    assert set(fit["terms"][0]) >= {"term", "estimate", "std_error", "ci_low", "ci_high", "t", "p_value"}
    assert set(fit) >= {"response", "n", "terms", "status", "sigma2", "df", "kappa"}
    assert (fit["status"], fit["response"], fit["level"]) == ("OK", "income", 0.9)
    monkeypatch.setenv("DPSPARK_LEDGER", conf["ledger"]["url"])
    code, out, _ = run(capsys, "ledger", "show", "people")
    assert code == 0
    assert "committed" in out
    entry = json.loads(run(capsys, "ledger", "show", "--json")[1])[0]["releases"][0]
    code, _, err = run(capsys, "ledger", "give-back", "people", entry["name"], entry["version"], "--reason", "regret")
    assert (code, "it was published, so its budget stays spent" in err) == (3, True)
    books = json.loads(run(capsys, "ledger", "show", "--json")[1])
    assert books[0]["one_by_one"] == {"epsilon": 1.0, "delta": 1e-9}
    assert books[0]["spent"]["epsilon"] < 0.7  # at the granted delta of 1e-3
    code, out, _ = run(capsys, "ledger", "grant", "people", "--epsilon", "2", "--delta", "1e-6")
    assert code == 0
    assert "In all: epsilon 102" in out


def test_release_json_and_out(spark: Any, conf_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "release", conf_file, "--out", str(tmp_path / "elsewhere"), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["path"] == str(tmp_path / "elsewhere" / "income" / "1")


def corrupt(tmp_path: Path) -> str:
    """A good footer and broken pages: found out only on an executor."""
    path = tmp_path / "corrupt.parquet"
    table = pa.table({"age": [20.0, 44.0] * 5000, "secret": ["Rumpelstiltskin"] * 10_000})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[40:200] = b"Rumpelstiltskin!" * 10
    path.write_bytes(content)
    return str(path)


BAD_INPUT: list[tuple[str, dict[str, Any], int, str]] = [
    ("missing column", {"columns": {"wealth": {"lower": 0, "upper": 1}}}, 4, "columns.wealth: no such column"),
    ("text with bounds", {"columns": {"sex": {"lower": 0, "upper": 1}}}, 4, "columns.sex has bounds but its type is"),
    ("lower above upper", {"columns": {"age": {"lower": 5, "upper": 1}}}, 2, "expected lower < upper"),
    ("NaN bound", {"columns": {"age": {"lower": float("nan"), "upper": 1}}}, 2, "expected a finite number"),
    ("unknown key", {"sources": {}}, 2, "sources: unknown key"),
    ("no epsilon", {"privacy": {"epsilon": 0, "delta": 1e-9}}, 2, "privacy.epsilon: got 0"),
    ("delta of one", {"privacy": {"epsilon": 1, "delta": 1}}, 2, "privacy.delta: got 1"),
    ("no such path", {"source": {"parquet": "/not/there"}}, 4, "no such file or directory"),
    ("no grant", {"ledger": {"dataset": "poor"}}, 3, "no budget was granted"),
    ("too much", {"privacy": {"epsilon": 1000, "delta": 1e-9}}, 3, "not enough budget left"),
    ("unwritable", {"output": {"path": "/proc/releases"}}, 4, "Choose another output.path"),
    ("random filter", {"where": "rand() < 0.5"}, 2, "RAND may change with every run"),
    ("dropped rows, public count", {"nulls": "drop_row", "privacy": {"neighbours": "replace_one"}}, 2, "private"),
]


@pytest.mark.parametrize(("what", "change", "expected", "words"), BAD_INPUT, ids=[bad[0] for bad in BAD_INPUT])
def test_bad_input(
    spark: Any,
    conf: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    what: str,
    change: dict[str, Any],
    expected: int,
    words: str,
) -> None:
    changed = copy.deepcopy(conf)
    for key, value in change.items():
        changed[key] = {**changed[key], **value} if key in ("privacy", "ledger") else value
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump(changed))
    code, out, err = run(capsys, "release", str(path))
    assert (code, out) == (expected, "")
    assert words in err
    assert len(err.strip().splitlines()) <= 2
    assert "Traceback" not in err


def test_bad_input_files(spark: Any, conf_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.parquet").write_text("Rumpelstiltskin")
    only_age = "columns={age: {lower: 0, upper: 99}}"
    for source, words in (
        (str(tmp_path / "empty"), "no Parquet files"),
        (str(tmp_path / "text.parquet"), "not readable as Parquet"),
        (corrupt(tmp_path), "could not be read to the end"),
    ):
        code, out, err = run(capsys, "release", conf_file, "--set", f"source.parquet={source}", "--set", only_age)
        assert (code, out) == (4, "")
        assert words in err
        assert len(err.strip().splitlines()) <= 2
        assert "Rumpelstiltskin" not in err
    assert "stays reserved" in err


def test_a_changed_spec_is_refused(released: str, conf_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "release", conf_file, "--set", "privacy.epsilon=0.5")
    assert code == 3
    assert "new release.version" in err
    code, out, err = run(capsys, "release", conf_file)
    assert (code, out) == (0, released + "\n")
    assert "already published" in err  # also where nobody looks: a scheduler's log


@pytest.mark.parametrize(
    "arguments",
    [
        ["regress", "/not/there", "a ~ b"],
        ["regress", "RELEASE", "income ~ wealth"],
        ["regress", "RELEASE", "income ~"],
        ["regress", "RELEASE", "income ~ age", "--level", "1.5"],
        ["release", "/not/there.yaml"],
        ["release"],
        ["ledger", "show"],
        ["ledger", "grant", "d", "--epsilon", "-1", "--delta", "0", "--url", "sqlite://"],
        ["ledger", "grant", "d", "--epsilon", "1", "--delta", "2", "--url", "sqlite://"],
        ["ledger", "grant", "a b/c", "--epsilon", "1", "--delta", "0", "--url", "sqlite://"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_bad_usage(released: str, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.delenv("DPSPARK_LEDGER", raising=False)
    code, out, err = run(capsys, *[released if a == "RELEASE" else a for a in arguments])
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err


def test_only_a_grant_makes_a_ledger(conf_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    absent = f"sqlite:///{tmp_path / 'typo.db'}"
    for arguments in (["ledger", "show", "--url", absent], ["release", conf_file, "--url", absent]):
        code, _, err = run(capsys, *arguments)
        assert code == 3
        assert f"--url {absent}" in err
    assert not (tmp_path / "typo.db").exists()


def test_demo_in_a_place_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(capsys, "demo", "--out", str(tmp_path / "file"))[0] == 4


def test_unforeseen_errors_are_not_quoted(conf_file: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("Rumpelstiltskin")

    monkeypatch.setattr("dpspark.cli.check.check_conf", fail)
    code, _, err = run(capsys, "check", conf_file)
    assert code == 1
    assert "Rumpelstiltskin" not in err
    code, _, err = run(capsys, "check", conf_file, "--debug")
    assert "test_commands.py" in err  # where it happened
    assert len(err.splitlines()) > 2
    assert "Error: Rumpelstiltskin" not in err


@pytest.mark.parametrize(
    "arguments",
    [["bench"], ["bench", "--help"], ["bench", "gram", "--set", "wide"], ["evaluate"], ["evaluate", "bain", "--quick"]],
    ids=" ".join,
)
def test_what_left_the_package_says_where_it_is(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"python -m {'benchmarks' if arguments[0] == 'bench' else 'experiments'}" in err
    assert arguments[0] not in run(capsys, "--help")[1]
