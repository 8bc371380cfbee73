"""What a report says of the guarantee, against figures that are worked out otherwise."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dpspark.ledger.ledger import Ledger
from dpspark.privacy.budget import Budget, zcdp_epsilon
from dpspark.report.ledger import ledger_section
from dpspark.report.words import guarantee


def page(**privacy: Any) -> str:
    whole = {"epsilon": None, "delta": None, "rho": None, "neighbours": "add_remove", "spending": [], **privacy}
    return re.sub("<[^>]*>", " ", guarantee({"guarantee": "", "privacy": whole}))


def power(**privacy: Any) -> float:
    """The share that an attack finds, as the page has it."""
    (percent,) = re.findall(r"finds the record at most ([\d.]+)% of the time", page(**privacy))
    return float(percent) / 100


def most_power(epsilon: float, delta: float, false_alarms: float = 0.05) -> float:
    """By search: the largest power for which both tests, of presence and of absence, keep to (ε, δ)."""
    tries = [i / 1e5 for i in range(100_001)]
    e = 2.718281828459045**epsilon
    return max(p for p in tries if p <= e * false_alarms + delta and 1 - false_alarms <= e * (1 - p) + delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0), (1.0, 1e-9), (3.0, 1e-6), (8.0, 0), (1.0, 0.2)])
def test_power_of_an_attack(epsilon: float, delta: float) -> None:
    """Kills: half the power; the other of the two bounds; a delta left out; rounding down."""
    most = most_power(epsilon, delta)
    assert most - 1e-5 <= power(epsilon=epsilon, delta=delta) <= most + 0.0011


def test_power_of_an_attack_in_rho() -> None:
    assert power(rho=0.02) == power(epsilon=zcdp_epsilon(0.02, 1e-9), delta=1e-9)


def test_power_is_rounded_up() -> None:
    assert power(epsilon=0.2, delta=0) == 0.062  # 6.107%


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ({}, "One record, that is one row of the source. Somebody"),
        ({"rows_per_record": 1}, "One record, that is one row of the source. Somebody"),
        ({"rows_per_record": 3}, "it may be in up to 3 of the rows"),
        ({"column": "household", "max_rows": 7}, "one value of household: at most 7 of them"),
    ],
)
def test_who_is_protected(unit: dict[str, Any], said: str) -> None:
    assert said in page(epsilon=1.0, delta=0, unit=unit)


def test_spent_is_rounded_up_and_left_down(tmp_path: Path) -> None:
    """0.12345601 of 1: six digits of what is spent, and of what is left, 0.87654399, against the one who spends."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger(url)
    ledger.grant("d", 1.0)
    entry = ledger.reserve("d", "r", "1", "h", Budget(0.12345601, 0.0), "/out")
    section = ledger_section({"ledger": {"dataset": "d", "id": entry.id}}, url)
    assert re.findall(r"<td[^>]*>([\d.]+)</td>", section)[:3] == ["1", "0.123457", "0.876543"]
