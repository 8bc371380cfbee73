"""The budget ledger on a real SQLite file and on a real PostgreSQL server."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from dpspark.errors import ConfError, DpsparkError, LedgerError
from dpspark.privacy.budget import Budget, zcdp_epsilon
from dpspark.privacy.ledger import Ledger


@pytest.fixture
def url(ledger_url: str) -> str:
    return ledger_url


def reserve(ledger: Ledger, version: str, budget: Budget, spec_hash: str = "h") -> str:
    return ledger.reserve("d", "r", version, spec_hash, budget, "/out").id


def test_no_grant_is_refused(url: str) -> None:
    with pytest.raises(LedgerError, match="no budget was granted"):
        reserve(Ledger(url), "1", Budget(1.0, 1e-9))


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
    with pytest.raises(LedgerError, match="no longer in the ledger"):
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


def test_bad_urls(tmp_path: Path) -> None:
    for bad in ("nonsense", "magic:///x", ""):
        with pytest.raises(ConfError):
            Ledger(bad)
    with pytest.raises(DpsparkError, match="No such file"):
        Ledger(f"sqlite:///{tmp_path}/absent/ledger.db")
    (tmp_path / "garbage.db").write_text("this is not a database, not at all, really not one")
    with pytest.raises(DpsparkError, match="cannot be used"):
        Ledger(f"sqlite:///{tmp_path}/garbage.db")


def test_a_ledger_of_the_first_version_gets_its_new_column(tmp_path: Path) -> None:
    """What it holds stays; what it lacked can be written."""
    import sqlalchemy as sa

    url = f"sqlite:///{tmp_path / 'old.db'}"
    ledger = Ledger(url)
    ledger.grant("d", 1.0, 1e-6)
    reserve(ledger, "1", Budget(0.8, 1e-9))
    before = ledger.find("d", "r", "1")
    assert before is not None
    with sa.create_engine(url).begin() as connection:
        connection.execute(sa.text("ALTER TABLE releases DROP COLUMN manifest_sha256"))
    again = Ledger(url)
    assert again.find("d", "r", "1") == before
    assert again.stage(before, "digest").manifest_sha256 == "digest"
