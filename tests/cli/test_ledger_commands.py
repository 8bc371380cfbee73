"""`dpspark ledger` as a steward types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from postgres import PASSWORD

from dpspark.cli.options import report_step, terminal
from dpspark.core.protection import Protection
from dpspark.errors import ConfError, LedgerError
from dpspark.ledger.ledger import Ledger
from dpspark.privacy.budget import Budget, analytic_mu
from dpspark.privacy.events import Gaussian
from dpspark.show.progress import Note, NoteKind
from dpspark.spec.spec import load_spec
from tests.commands import run as run_command


@pytest.fixture
def url(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DPSPARK_LEDGER", ledger_url)
    return ledger_url


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code, out, err = run_command(capsys, "ledger", *arguments)
    assert PASSWORD not in out + err
    return code, out, err


def a_year(url: str, out: Path) -> None:
    for month in range(1, 13):
        Ledger(url).reserve(
            *(
                "people",
                "income",
                f"2026-{month:02}",
                "hash",
                Budget(1.0, 1e-9),
                str(out / "income" / f"2026-{month:02}"),
            ),
            (Gaussian.of(analytic_mu(1.0, 1e-9), 1e-18),),
            Protection("add_remove"),
        )


def test_a_steward_s_year(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grant = [
        "grant",
        "people",
        "--epsilon",
        "4",
        "--delta",
        "2.4e-8",
        "--warn-below",
        "0.5",
        "--neighbours",
        "add_remove",
    ]
    code, out, _ = run(capsys, *grant, "--reason", "decision 12/2026", "--who", "the steward")
    assert (code, out) == (0, "people: granted epsilon 4, delta 2.4e-08. In all: epsilon 4, delta 2.4e-08.\n")
    a_year(url, tmp_path)
    code, out, _ = run(capsys, "show")
    assert code == 0
    assert (
        "12 releases would cost epsilon 12, delta 1.2e-08 one by one; together they cost epsilon 3.3777492 at delta 2.4e-08"
        in out
    )
    assert "spent    epsilon 3.3777492  delta 2.4e-08" in out
    assert "left     epsilon 0.62225" in out
    assert "protects one row, added or removed" in out
    assert "WARNING  little budget is left: people has 15.6% of its epsilon 4" in out
    (shown,) = json.loads(run(capsys, "show", "people", "--json")[1])
    assert shown["spent"]["epsilon"] == pytest.approx(3.37775, abs=1e-4)
    assert shown["spent"]["delta"] == 2.4e-8
    assert shown["intact"] is True
    assert shown["one_by_one"] == {"epsilon": 12.0, "delta": 1.2e-8}
    assert shown["releases"][0]["events"][0]["event"] == "gaussian"
    code, out, _ = run(capsys, "history", "people", "--verify")
    assert code == 0
    assert "the steward  grant  people  decision 12/2026" in out
    assert "reserve  people  release income 2026-12" in out
    pin = out.split()[-1]
    assert run(capsys, "history", "--pinned", pin)[0] == 0
    code, _, err = run(capsys, "history", "--pinned", "0" * 64)
    assert (code, "which was pinned" in err) == (3, True)
    acts = json.loads(run(capsys, "history", "--json")[1])
    assert [act["what"] for act in acts] == ["create", "grant", *["reserve"] * 12]
    assert acts[1]["rows"]["grants"][0]["epsilon"] == 4.0


def test_give_back(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a budget given back whose draw lies on disk, because its driver died before it told the ledger."""
    run(capsys, "grant", "people", "--epsilon", "4", "--delta", "2.4e-8")
    a_year(url, tmp_path)
    entry = Ledger(url).find("people", "income", "2026-02")
    assert entry is not None
    partial = tmp_path / ".staging" / f"{entry.id}.12ab.part"
    partial.mkdir(parents=True)
    code, _, err = run(capsys, "give-back", "people", "income", "2026-02", "--reason", "typo")
    assert (code, "its driver died while it wrote" in err) == (3, True)
    partial.rename(tmp_path / ".staging" / f"{entry.id}.12ab")
    code, _, err = run(capsys, "give-back", "people", "income", "2026-02", "--reason", "typo", "--destroyed")
    assert (code, "its result was drawn" in err) == (3, True)
    code, out, _ = run(capsys, "give-back", "people", "income", "2026-01", "--reason", "the driver never started")
    assert (code, out.startswith("people: the budget of income 2026-01 was given back. Left: epsilon 0.77")) == (
        0,
        True,
    )
    assert "given back income 2026-01" in run(capsys, "show")[1]
    assert "the driver never started" in run(capsys, "history")[1]
    assert run(capsys, "give-back", "people", "income", "2026-01", "--reason", " ")[0] == 2
    assert run(capsys, "give-back", "people", "income", "2026-01")[0] == 2
    assert run(capsys, "give-back", "people", "income", "1999", "--reason", "x")[0] == 3


def test_a_pure_budget(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails on 0.2.0: --epsilon alone was refused. Kills: a delta that nobody granted."""
    code, out, err = run(capsys, "grant", "people", "--epsilon", "40")
    assert (code, err) == (0, "")
    assert out == "people: granted epsilon 40, delta 0. In all: epsilon 40, delta 0.\n"
    ledger = Ledger(url)
    ledger.check("people", "r", "1", Budget(1.0, 0.0), (), Protection("add_remove"))
    with pytest.raises(LedgerError):
        ledger.check("people", "r", "1", Budget(1.0, 1e-12), (), Protection("add_remove"))
    run(capsys, "grant", "people", "--epsilon", "1", "--delta", "1e-6")
    assert "epsilon 42, delta 1e-06" in run(capsys, "grant", "people", "--epsilon", "1")[1]
    for bad in (["--delta", "1e-6"], ["--rho", "1", "--delta", "1e-6"], ["--rho", "1", "--epsilon", "1"], []):
        assert run(capsys, "grant", "others", *bad)[0] == 2


def test_a_budget_in_rho(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "grant", "people", "--rho", "0.5", "--unit", "person_id", "--neighbours", "replace_one")
    assert (code, out) == (0, "people: granted rho 0.5. In all: rho 0.5.\n")
    person = Protection("replace_one", "person_id")
    Ledger(url).reserve("people", "r", "1", "h", Budget(rho=0.3), "/out", None, person)
    out = run(capsys, "show")[1]
    assert "spent    rho 0.3, by 1 release\n  left     rho 0.2" in out
    assert "protects all rows of one person_id, replaced" in out
    (shown,) = json.loads(run(capsys, "show", "--json")[1])
    assert (shown["granted"], shown["left"]) == ({"rho": 0.5}, {"rho": 0.2})
    assert run(capsys, "grant", "people", "--epsilon", "1", "--delta", "0")[0] == 3


@pytest.mark.parametrize(
    "bad",
    [
        ["grant", "d"],
        ["grant", "d", "--epsilon", "1"],
        ["grant", "d", "--epsilon", "1", "--delta", "0", "--rho", "1"],
        ["grant", "d", "--rho", "nan"],
        ["grant", "d", "--epsilon", "inf", "--delta", "0"],
        ["grant", "d", "--rho", "1", "--warn-below", "2"],
        ["grant", "d", "--rho", "1", "--neighbours", "both"],
    ],
)
def test_bad_grants(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *bad)[0] == 2


def test_old_claims_are_plain_sums(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "grant", "people", "--epsilon", "100", "--delta", "1e-6")
    for version in "123":
        Ledger(url).reserve("people", "r", version, "h", Budget(0.1, 1e-9), "/out")
    out = run(capsys, "show")[1]
    assert (
        "granted  epsilon 100  delta 1e-06\n  spent    epsilon 0.3  delta 3e-09\n  left     epsilon 99.7  delta 9.97e-07"
        in out
    )
    assert "3 releases did not record what they protect" in out


@pytest.mark.parametrize(
    "words",
    [
        ["show", "people", f"postgresql://u:{PASSWORD}@host/d"],
        ["show", "--url", f"postgresql://u:{PASSWORD}@host:port/d"],
        ["grant", f"postgresql://{'u' * 60}:{PASSWORD}@host/d", "--rho", "1"],
        ["grant", "d", "--rho", f"postgresql://host/d?password={PASSWORD}"],
    ],
)
def test_words_in_the_wrong_place_do_not_show_passwords(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, *words)[0] == 2


@pytest.mark.parametrize(
    "ledger",
    [
        "postgresql://u:{}@host/d",
        {"dataset": "postgresql://u:{}@host/d"},
        {"dataset": "d", "url": ["postgresql://u:{}@host/d"]},
        {"dataset": "d", "url": {"postgresql://u:{}@host/d": 1}},
        {"dataset": "d", "postgresql://u:{}@host/d": 1},
    ],
)
def test_confs_with_the_url_in_the_wrong_place_do_not_show_passwords(ledger: Any) -> None:
    text = json.dumps(ledger).replace("{}", PASSWORD)
    with pytest.raises(ConfError) as caught:
        load_spec({"ledger": json.loads(text), "columns": {"a": {"lower": 0, "upper": 1}}, "privacy": {"rho": 1}})
    assert PASSWORD not in str(caught.value)
    with pytest.raises(ConfError) as caught:
        load_spec({"ledger": 1}, (f"ledger.url=postgresql://u:{PASSWORD}@host/d",))
    assert PASSWORD not in str(caught.value)


def test_a_low_budget_is_heard_in_every_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Kills: a warning that only a terminal shows."""
    terminal(Note(NoteKind.LOW_BUDGET, "little budget is left: people has 3.0% of its epsilon 4"))
    report_step("reading")
    assert capsys.readouterr().err == "little budget is left: people has 3.0% of its epsilon 4\n"
