"""The budget ledger on a real SQLite file and on a real PostgreSQL server."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa
from postgres import PASSWORD

from dpspark.core.protection import Promise, Protection
from dpspark.errors import ConfError, DpsparkError, LedgerError
from dpspark.ledger.ledger import Ledger
from dpspark.privacy.budget import Budget, analytic_mu, zcdp_epsilon
from dpspark.privacy.events import Exponential, Gaussian, Pure


@pytest.fixture
def url(ledger_url: str) -> str:
    return ledger_url


def reserve(ledger: Ledger, version: str, budget: Budget, spec_hash: str = "h") -> str:
    return ledger.reserve("d", "r", version, spec_hash, budget, "/out").id


def test_no_grant_is_refused(url: str) -> None:
    with pytest.raises(LedgerError, match="no budget was granted"):
        reserve(Ledger(url), "1", Budget(1.0, 1e-9))


def test_a_pure_budget(url: str) -> None:
    """Fails on 0.2.0: it said that delta was overspent, and not that the budget has none.

    Kills: pure releases that are priced by zCDP, which has no epsilon at delta 0; a delta that slips in beside them.
    """
    ledger = Ledger(url)
    ledger.grant("d", epsilon=0.5)
    for version in "123":
        ledger.reserve("d", "r", version, "h", Budget(0.1, 0.0), "/out", [Pure(0.1)])
    ledger.reserve("d", "r", "4", "h", Budget(0.1, 0.0), "/out", [Exponential(0.05, 2)])
    (balance,) = ledger.balances("d")
    assert (balance.spent_epsilon, balance.spent_delta, balance.how) == (Decimal("0.4"), 0, "basic")
    for asked in (Budget(0.01, 1e-12), Budget(rho=1e-9)):
        with pytest.raises(LedgerError, match=r"its budget is pure \(epsilon alone, delta 0\)") as refused:
            reserve(ledger, "5", asked)
        assert "Give privacy.epsilon alone" in str(refused.value)
    with pytest.raises(LedgerError, match=r"epsilon 0.1 is left of 0.5 \(pure: delta 0\)"):
        reserve(ledger, "5", Budget(0.11, 0.0))
    reserve(ledger, "5", Budget(0.1, 0.0))
    assert ledger.warning("d") == "little budget is left: d has 0.0% of its epsilon 0.5"
    assert ledger.verify()
    ledger.grant("d", epsilon=1.0, delta=1e-9)  # no longer pure
    reserve(ledger, "6", Budget(0.5, 1e-9))


def test_three_tenths_fit_into_three_tenths_and_no_more(url: str) -> None:
    """Kills: float sums (0.1 + 0.1 + 0.1 > 0.3), and a check that lets the last one through."""
    ledger = Ledger(url)
    ledger.grant("d", 0.3, 3e-9)
    for version in "123":
        reserve(ledger, version, Budget(0.1, 1e-9))
    with pytest.raises(LedgerError, match="overspend by epsilon 1e-06"):
        reserve(ledger, "4", Budget(1e-6, 1e-30))
    assert float(ledger.balances("d")[0].left_epsilon) == 0


def test_delta_is_a_limit_of_its_own(url: str) -> None:
    ledger = Ledger(url)
    ledger.grant("d", 100.0, 1e-9)
    with pytest.raises(LedgerError, match="delta"):
        reserve(ledger, "1", Budget(0.1, 2e-9))


def test_grants_add_up_and_stay_with_their_dataset(url: str) -> None:
    ledger = Ledger(url)
    ledger.grant("d", 1.0, 1e-9)
    assert float(ledger.grant("d", 2.0, 1e-9).granted_epsilon) == 3.0
    ledger.grant("other", 50.0, 1e-3)
    with pytest.raises(LedgerError):
        reserve(ledger, "1", Budget(4.0, 1e-9))


def test_zcdp_releases_compose_and_are_paid_at_the_delta_left(url: str) -> None:
    """Kills: rho counted as epsilon, or converted one by one."""
    ledger = Ledger(url)
    ledger.grant("d", 5.0, 1e-6)
    for version in "1234":
        reserve(ledger, version, Budget(rho=0.1))
    spent = float(ledger.balances("d")[0].spent_epsilon)
    assert spent == pytest.approx(zcdp_epsilon(0.4, 1e-6))
    assert float(ledger.balances("d")[0].left_delta) == 0  # all of it pays for the conversion
    with pytest.raises(LedgerError):
        reserve(ledger, "5", Budget(rho=1.0))
    with pytest.raises(LedgerError):  # no delta would be left to convert rho at
        reserve(ledger, "6", Budget(0.001, 1e-6))


def test_the_same_release_is_charged_once(url: str) -> None:
    ledger = Ledger(url)
    ledger.grant("d", 1.0, 1e-6)
    first = reserve(ledger, "1", Budget(0.8, 1e-9))
    assert reserve(Ledger(url), "1", Budget(0.8, 1e-9)) == first
    with pytest.raises(LedgerError, match="another spec"):
        reserve(ledger, "1", Budget(0.8, 1e-9), spec_hash="changed")


def test_states_only_move_forward(url: str) -> None:
    ledger = Ledger(url)
    ledger.grant("d", 1.0, 1e-6)
    reserve(ledger, "1", Budget(0.8, 1e-9))
    entry = ledger.find("d", "r", "1")
    assert entry is not None
    ledger.commit(entry)  # not staged yet: no effect
    assert ledger.find("d", "r", "1").state == "reserved"  # type: ignore[union-attr]
    assert ledger.stage(entry, "first").manifest_sha256 == "first"
    assert ledger.stage(entry, "second").manifest_sha256 == "first"  # only one draw is ever the release
    ledger.commit(entry)
    ledger.stage(entry, "third")
    found = ledger.find("d", "r", "1")
    assert found is not None
    assert (found.state, found.manifest_sha256) == ("committed", "first")
    with pytest.raises(LedgerError, match="It is not published"):
        ledger.stage(replace(entry, id="another"), "fourth")


def test_many_at_once_never_overspend(url: str) -> None:
    """Kills: a read of the balance outside the write's transaction."""
    Ledger(url).grant("d", 1.0, 1e-3)

    def attempt(version: int) -> bool:
        try:
            reserve(Ledger(url), str(version), Budget(0.1, 1e-9))
            return True
        except LedgerError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(40))) == 10


def test_file_is_its_owner_s_alone(tmp_path: Path) -> None:
    Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert stat.S_IMODE(os.stat(tmp_path / "ledger.db").st_mode) == 0o600


GAUSSIAN = (Gaussian.of(analytic_mu(1.0, 1e-9), 1e-18),)


def test_gaussian_releases_compose(url: str) -> None:
    """Kills: events that are not stored, or not read again."""
    Ledger(url).grant("d", 3.4, 2.4e-8)
    for month in range(12):
        Ledger(url).reserve("d", "r", str(month), "h", Budget(1.0, 1e-9), "/out", GAUSSIAN)
    (balance,) = Ledger(url).balances("d")
    assert float(balance.spent_epsilon) == pytest.approx(3.37775, abs=1e-4)
    assert balance.one_by_one is not None
    assert float(balance.one_by_one.epsilon) == 12
    assert balance.entries[0].events == GAUSSIAN
    with pytest.raises(LedgerError, match=r"overspend by epsilon 0\.128"):
        Ledger(url).reserve("d", "r", "13", "h", Budget(1.0, 1e-9), "/out", GAUSSIAN)


def test_no_release_claims_more_than_the_grant(url: str) -> None:
    """At the granted delta it would cost less than the granted epsilon; but its certificate says more."""
    ledger = Ledger(url)
    ledger.grant("d", 0.9, 1e-3)
    with pytest.raises(LedgerError, match=r"epsilon=1, delta=1e-09 asked, which would overspend by epsilon 0\.1"):
        ledger.reserve("d", "r", "1", "h", Budget(1.0, 1e-9), "/out", GAUSSIAN)
    ledger.grant("d", 0.1, 0.0)
    ledger.reserve("d", "r", "1", "h", Budget(1.0, 1e-9), "/out", GAUSSIAN)


def test_what_is_asked_granted_and_left_is_said(url: str) -> None:
    """Kills: an amount that leaves out what was spent, where the request alone is more than the grant."""
    ledger = Ledger(url)
    ledger.grant("d", 1.0, 1e-6)
    reserve(ledger, "1", Budget(0.75, 1e-7))
    with pytest.raises(LedgerError) as caught:
        reserve(ledger, "2", Budget(3.0, 1e-5))
    assert "epsilon=3, delta=1e-05 asked, which would overspend by epsilon 2.75 and delta 9.1e-06;" in str(caught.value)
    assert "; epsilon 0.25, delta 9e-07 is left of epsilon 1, delta 1e-06.\nSee: " in str(caught.value)


def test_what_is_left_is_said_as_releases_compose(url: str) -> None:
    """Kills: what is left by plain sums, where the ledger counts less; rho without it."""
    ledger = Ledger(url)
    ledger.grant("d", 2.0, 1e-6)
    ledger.reserve("d", "r", "1", "h", Budget(1.0, 1e-9), "/out", GAUSSIAN)
    left = float(ledger.balances("d")[0].left_epsilon)
    assert left > 1.1
    with pytest.raises(
        LedgerError, match=r"epsilon ([\d.]+) at delta 1e-06 is left of epsilon 2, delta 1e-06"
    ) as caught:
        ledger.reserve("d", "r", "2", "h", Budget(5.0, 1e-9), "/out", (Gaussian.of(analytic_mu(5.0, 1e-9), 1e-18),))
    assert f"; epsilon {left:.4f}"[:-1] in str(caught.value)
    ledger.grant("e", rho=0.2)
    with pytest.raises(LedgerError, match=r"overspend by rho 0\.8; rho 0\.2 is left of 0\.2"):
        ledger.reserve("e", "r", "1", "h", Budget(rho=1.0), "/out")


def test_a_misspelt_dataset_is_not_given_a_second_budget(url: str) -> None:
    """Kills: `ledger grant wage` as the first thing to do for the data of wages."""
    ledger = Ledger(url)
    ledger.grant("wages", 1.0, 1e-6)
    with pytest.raises(LedgerError, match="Did you mean 'wages'") as caught:
        ledger.check("wage", "r", "1", Budget(1.0, 1e-9))
    assert "Correct ledger.dataset. Only if these are other data, run: dpspark ledger grant wage " in str(caught.value)
    with pytest.raises(LedgerError, match=r"granted\.\nRun: dpspark ledger grant people "):
        ledger.reserve("people", "r", "1", "h", Budget(1.0, 1e-9), "/out")


def test_a_grant_in_rho(url: str) -> None:
    """Kills: releases without a zCDP cost let through, rho rounded so that the last one does not fit."""
    ledger = Ledger(url)
    assert float(ledger.grant("d", rho=0.2).granted_rho or 0) == 0.2
    ledger.grant("d", rho=0.1)
    for version in "12":
        reserve(ledger, version, Budget(rho=0.1))
    reserve(ledger, "3", Budget(0.2, 0.0))  # pure: epsilon²/2
    with pytest.raises(LedgerError, match="has no zCDP cost"):
        reserve(ledger, "4", Budget(0.001, 1e-9))
    with pytest.raises(LedgerError, match=r"overspend by rho 0\.02"):
        reserve(ledger, "5", Budget(rho=0.1))
    ledger.reserve("d", "r", "6", "h", Budget(9.0, 1e-9), "/out", (Gaussian.of(0.399, 0.0),))  # rho 0.0796
    balance = ledger.balances("d")[0]
    assert float(balance.left_rho or 0) == pytest.approx(0.08 - 0.399**2 / 2)
    with pytest.raises(LedgerError, match="grants are in rho"):
        ledger.grant("d", 1.0, 1e-9)
    ledger.grant("e", 1.0, 1e-9)
    with pytest.raises(LedgerError, match="grants are in epsilon and delta"):
        ledger.grant("e", rho=1.0)


def test_a_warning_when_little_is_left(url: str) -> None:
    ledger = Ledger(url)
    ledger.grant("d", 1.0, 1e-6)
    reserve(ledger, "1", Budget(0.8, 1e-9))
    assert ledger.warning("d") is None  # exactly 20% is left
    reserve(ledger, "2", Budget(0.05, 1e-9))
    assert ledger.warning("d") == "little budget is left: d has 15.0% of its epsilon 1"
    ledger.grant("d", 1e-3, 1e-9, warn_below=0.1)
    assert ledger.warning("d") is None
    ledger.grant("d", 1e-3, 1e-9)
    assert ledger.balances("d")[0].warn_below == 0.1
    ledger.grant("z", rho=1.0, warn_below=0.5)
    ledger.reserve("z", "r", "1", "h", Budget(rho=0.6), "/out")
    assert "40.0% of its rho 1" in str(ledger.warning("z"))


ROW, PERSON = Protection("add_remove"), Protection("add_remove", "person")
TRACT = Protection("replace_one", None, ("tract",))


@pytest.mark.parametrize(
    ("stated", "made", "asked", "refused"),
    [
        (None, ROW, Protection("replace_one"), "neighbours: add_remove; this release has replace_one"),
        (None, Protection("replace_one"), ROW, "Neither implies the other"),
        (None, PERSON, ROW, "protects all rows of one person; this release protects one row"),
        (None, PERSON, Protection("add_remove", "household"), "this release protects one household"),
        (None, ROW, PERSON, None),
        (None, Protection("replace_one"), TRACT, "records whose tract may change"),
        (None, TRACT, Protection("replace_one"), None),
        (Promise(unit="column:person"), None, ROW, "all rows of one person"),
        (Promise(unit="column:person"), None, PERSON, None),
        (Promise("replace_one"), None, ROW, "neighbours: replace_one; this release has add_remove"),
        (Promise(unit="rows"), PERSON, ROW, None),
        (Promise(fixed=("tract",)), Protection("replace_one"), TRACT, None),
    ],
)
def test_a_release_that_protects_less_is_refused(
    url: str, stated: Promise | None, made: Protection | None, asked: Protection, refused: str | None
) -> None:
    """Kills: each of the three comparisons, and one that looks at the last release instead of all."""
    ledger = Ledger(url)
    ledger.grant("d", 10.0, 1e-6, promise=stated)
    for version, protection in enumerate([made, made]):
        if protection is not None:
            ledger.reserve("d", "r", str(version), "h", Budget(0.1, 1e-9), "/out", None, protection)
    if refused is None:
        ledger.reserve("d", "r", "x", "h", Budget(0.1, 1e-9), "/out", None, asked)
        return
    with pytest.raises(LedgerError, match=refused):
        ledger.check("d", "r", "x", Budget(0.1, 1e-9), None, asked)
    with pytest.raises(LedgerError, match=refused):
        ledger.reserve("d", "r", "x", "h", Budget(0.1, 1e-9), "/out", None, asked)


def test_what_a_dataset_promises_cannot_change(url: str) -> None:
    ledger = Ledger(url)
    ledger.grant("d", 10.0, 1e-6)
    ledger.reserve("d", "r", "1", "h", Budget(0.1, 1e-9), "/out", None, ROW)
    with pytest.raises(LedgerError, match=r"it protects one row, added or removed\. --unit cannot change that"):
        ledger.grant("d", 1.0, 0.0, promise=Promise(unit="column:person"))
    ledger.grant("d", 1.0, 0.0, promise=Promise("add_remove"))
    with pytest.raises(LedgerError, match="--neighbours cannot change that"):
        ledger.grant("d", 1.0, 0.0, promise=Promise("replace_one"))
    assert float(ledger.balances("d")[0].granted_epsilon) == 11.0
    ledger.grant("p", 1.0, 1e-6)
    ledger.reserve("p", "r", "1", "h", Budget(0.1, 1e-9), "/out", None, PERSON)
    with pytest.raises(LedgerError, match=r"all rows of one person, added or removed\. --unit"):  # nor be weakened
        ledger.grant("p", 1.0, 0.0, promise=Promise(unit="rows"))
    ledger.grant("e", 1.0, 1e-6)  # a release given back decides nothing
    ledger.reserve("e", "r", "1", "h", Budget(0.1, 1e-9), "/out", None, ROW)
    ledger.give_back("e", "r", "1", "wrong relation")
    ledger.reserve("e", "r", "2", "h", Budget(0.1, 1e-9), "/out", None, Protection("replace_one"))


def test_a_reservation_given_back(url: str) -> None:
    """Kills: a second use of its name and version, by which a driver still running could publish a second draw."""
    ledger = Ledger(url)
    ledger.grant("d", 1.0, 1e-6)
    reserve(ledger, "1", Budget(1.0, 1e-9))
    entry = ledger.find("d", "r", "1")
    assert entry is not None
    with pytest.raises(LedgerError, match="not enough"):
        reserve(ledger, "2", Budget(1.0, 1e-9))
    assert ledger.give_back("d", "r", "1", "typo").state == "given_back"
    reserve(ledger, "2", Budget(1.0, 1e-9))
    with pytest.raises(LedgerError, match="given back, and its name and version stay used"):
        reserve(ledger, "1", Budget(1.0, 1e-9))
    for act in (
        ledger.check_charged,
        lambda entry: ledger.stage(entry, "digest"),
        ledger.commit,
    ):  # the driver that was still running
        with pytest.raises(LedgerError, match="given back while it ran"):
            act(entry)
    with pytest.raises(LedgerError, match="given back before"):
        ledger.give_back("d", "r", "1", "again")
    with pytest.raises(LedgerError, match="has none"):
        ledger.give_back("d", "r", "9", "none")


def test_what_was_staged_or_published_stays_spent(url: str) -> None:
    """Kills: a staged draw given back without the steward's word that nobody has it."""
    ledger = Ledger(url)
    ledger.grant("d", 1.0, 1e-6)
    for version in "12":
        reserve(ledger, version, Budget(0.5, 1e-9))
        entry = ledger.find("d", "r", version)
        assert entry is not None
        ledger.stage(entry, "digest")
    with pytest.raises(LedgerError, match="drawn and staged"):
        ledger.give_back("d", "r", "1", "lost")
    ledger.give_back("d", "r", "1", "the disk burnt", destroyed=True)
    ledger.commit(entry)
    with pytest.raises(LedgerError, match="published, so its budget stays spent"):
        ledger.give_back("d", "r", "2", "sorry", destroyed=True)
    assert float(ledger.balances("d")[0].spent_epsilon) == 0.5


def test_reading_waits_for_no_writer(url: str) -> None:
    Ledger(url).grant("d", 1.0, 1e-6)
    ledger = Ledger(url)
    with ledger._database.writing():
        assert len(ledger.balances("d")) == 1


def test_only_a_grant_makes_a_ledger(url: str) -> None:
    with pytest.raises(LedgerError, match="there is none, so no budget was granted"):
        Ledger(url, create=False)
    with pytest.raises(LedgerError, match="Run: dpspark ledger grant wages --epsilon"):
        Ledger(url, create=False, dataset="wages")
    Ledger(url).grant("d", 1.0, 1e-6)
    assert len(Ledger(url, create=False).balances()) == 1


def test_a_missing_file_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kills: a relative path alone, which says nothing to who runs from another directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LedgerError) as caught:
        Ledger("sqlite:///ledger.db", create=False)
    assert f"ledger {str(tmp_path / 'ledger.db')!r}: there is none" in str(caught.value)


def test_a_wider_file_is_made_its_owner_s_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger(f"sqlite:///{path}")
    path.chmod(0o644)
    Ledger(f"sqlite:///{path}")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_passwords_are_never_shown(postgres_url: str, postgres_database: str) -> None:
    """Kills: a URL shown whole; a driver's own message, which may quote it; a password among the options."""
    ledger = Ledger(postgres_database)
    ledger.grant("d", 1.0, 1e-9)
    shown: list[str] = [repr(ledger.history())]
    in_options = sa.make_url(postgres_database).set(password=None).update_query_dict({"password": PASSWORD})
    wrong = sa.make_url(postgres_url)
    urls = [
        postgres_database,
        in_options.render_as_string(hide_password=False),
        wrong.set(port=1).render_as_string(hide_password=False),
        wrong.set(database="absent").render_as_string(hide_password=False),
        wrong.set(username="nobody").render_as_string(hide_password=False),
        f"postgresql://u:{PASSWORD}@host:port/x",
        f"mysql://u:{PASSWORD}@host/x",
        f"postgresql+nonsense://u:{PASSWORD}@host/x",
    ]
    for url in urls:
        with pytest.raises(DpsparkError) as caught:
            Ledger(url).reserve("d", "r", "1", "h", Budget(5.0, 1e-9), "/out")
        assert caught.value.__cause__ is None
        shown.append(str(caught.value))
    assert len(shown) == 9
    assert not [text for text in shown if PASSWORD in text]
    assert "not enough budget left" in shown[1]
    assert "not enough budget left" in shown[2]


def test_postgresql_without_its_driver() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from dpspark.ledger.ledger import Ledger\n"
        "Ledger('postgresql://u:secret@localhost/x')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ConfError" in done.stderr
    assert "pip install 'dpspark[postgres]'" in done.stderr
    assert "secret" not in done.stderr.splitlines()[-1]


def test_bad_urls(tmp_path: Path) -> None:
    for bad in ("nonsense", "magic:///x", ""):
        with pytest.raises(ConfError):
            Ledger(bad)
    with pytest.raises(DpsparkError, match="No such file"):
        Ledger(f"sqlite:///{tmp_path}/absent/ledger.db")
    (tmp_path / "garbage.db").write_text("this is not a database, not at all, really not one")
    with pytest.raises(DpsparkError, match="cannot be used"):
        Ledger(f"sqlite:///{tmp_path}/garbage.db")


def test_grants_of_delta_stay_below_one(ledger_url: str) -> None:
    """Kills: grants that add up to a delta of 1, with which anything at all could be released."""
    ledger = Ledger(ledger_url)
    ledger.grant("d", 1.0, 0.6)
    with pytest.raises(LedgerError, match="1 or more together"):
        ledger.grant("d", 1.0, 0.4)
    assert ledger.balances("d")[0].granted_delta == Decimal("0.6")
