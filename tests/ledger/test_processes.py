"""Many drivers at once: real processes on one ledger, in each kind of database."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from dpspark.ledger.ledger import Ledger
from dpspark.privacy.budget import Budget, analytic_mu
from dpspark.privacy.composition import compose
from dpspark.privacy.events import Charge, Gaussian

PROCESSES, EACH = 8, 25
MU = analytic_mu(1.0, 1e-9)
DRIVER = """
import json, sys
from dpspark.errors import LedgerError
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import from_json
from dpspark.ledger.ledger import Ledger
url, events, epsilon, delta, first, count = json.loads(sys.stdin.read())
made, ledger = [], Ledger(url, create=False)
for version in range(first, first + count):
    try:
        entry = ledger.reserve("d", "r", str(version), "h", Budget(epsilon, delta), "/out", events and from_json(events))
        made.append([entry.version, entry.id])
    except LedgerError as error:
        assert "not enough budget left" in str(error), str(error)
print(json.dumps(made))
"""


def reserve_all(url: str, events: str | None, epsilon: float, delta: float) -> dict[str, str]:
    """200 reservations from 8 processes; those that were told yes, by version."""

    def one(first: int) -> list[list[str]]:
        task = json.dumps([url, events, epsilon, delta, first, EACH])
        done = subprocess.run([sys.executable, "-c", DRIVER], input=task, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with ThreadPoolExecutor(PROCESSES) as pool:
        found = [pair for made in pool.map(one, range(0, PROCESSES * EACH, EACH)) for pair in made]
    assert len(found) == len(dict(found))
    return dict(found)


def check(url: str, made: dict[str, str]) -> None:
    """None is lost, none is there twice, and the history has each of them."""
    ledger = Ledger(url)
    (balance,) = ledger.balances("d")
    assert {entry.version: entry.id for entry in balance.entries} == made
    assert balance.left_epsilon >= 0
    assert [act.what for act in ledger.history()] == ["create", "grant"] + ["reserve"] * len(made)
    ledger.verify()


def test_200_reservations_from_8_processes(ledger_url: str) -> None:
    """Kills: a balance read outside the lock (more than 70 fit), a reservation lost or doubled."""
    Ledger(ledger_url).grant("d", 7.0, 1e-6)
    made = reserve_all(ledger_url, None, 0.1, 1e-9)
    assert len(made) == 70
    check(ledger_url, made)


@pytest.mark.slow
def test_200_gaussian_reservations_from_8_processes(ledger_url: str) -> None:
    """The same where each is composed with those before it."""
    epsilon = compose([Charge(Budget(1.0, 1e-9), (Gaussian.of(MU, 0.0),))] * 30, Decimal("1e-8")).epsilon
    Ledger(ledger_url).grant("d", float(epsilon) * (1 + 1e-9), 1e-8)
    events = f'[{{"event": "gaussian", "noise_multiplier": {Gaussian.of(MU, 0.0).noise_multiplier!r}, "sampler_distance": 0}}]'
    made = reserve_all(ledger_url, events, 1.0, 1e-9)
    assert len(made) == 30
    check(ledger_url, made)
