"""The ledger for people: grant a budget, print the books."""

from __future__ import annotations

import json
import math
from decimal import Decimal

from dpspark.errors import ConfError
from dpspark.fields import plain_name
from dpspark.privacy.ledger import Balance, Ledger, find_ledger_url


def grant_budget(dataset: str, epsilon: float, delta: float, url: str | None) -> str:
    try:
        plain_name(dataset)
    except ValueError as error:
        raise ConfError(f"dataset: {error}") from None
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ConfError(f"--epsilon {epsilon:g}; expected a finite number > 0.")
    if not 0 <= delta < 1:
        raise ConfError(f"--delta {delta:g}; expected a number from 0 to below 1, such as 1e-6.")
    balance = Ledger(find_ledger_url(url)).grant(dataset, epsilon, delta)
    return (
        f"{dataset}: granted epsilon {epsilon:g}, delta {delta:g}. "
        f"In all: epsilon {_short(balance.granted_epsilon)}, delta {_short(balance.granted_delta)}."
    )


def show_ledger(dataset: str | None, url: str | None, as_json: bool) -> str:
    balances = Ledger(find_ledger_url(url), create=False).balances(dataset)
    if as_json:
        return json.dumps([_as_dict(balance) for balance in balances])
    if not balances:
        return f"Nothing granted{f' on {dataset}' if dataset else ''} yet. See: dpspark ledger grant --help"
    return "\n\n".join(_as_text(balance) for balance in balances)


def _as_text(balance: Balance) -> str:
    lines = [
        f"{balance.dataset}",
        f"  granted  epsilon {_short(balance.granted_epsilon)}  delta {_short(balance.granted_delta)}",
        f"  spent    epsilon {_short(balance.spent_epsilon)}  delta {_short(balance.spent_delta)}",
        f"  left     epsilon {_short(balance.left_epsilon)}  delta {_short(balance.left_delta)}",
    ]
    for entry in balance.entries:
        lines.append(f"  {entry.state:<9}  {entry.name} {entry.version}  {entry.budget}  {entry.reserved_at}")
    return "\n".join(lines)


def _as_dict(balance: Balance) -> dict[str, object]:
    return {
        "dataset": balance.dataset,
        "granted": {"epsilon": float(balance.granted_epsilon), "delta": float(balance.granted_delta)},
        "spent": {"epsilon": float(balance.spent_epsilon), "delta": float(balance.spent_delta)},
        "left": {"epsilon": float(balance.left_epsilon), "delta": float(balance.left_delta)},
        "releases": [
            {
                "id": entry.id,
                "name": entry.name,
                "version": entry.version,
                "state": entry.state,
                **{key: value for key, value in entry.budget.__dict__.items() if value is not None},
                "reserved_at": entry.reserved_at,
                "committed_at": entry.committed_at,
            }
            for entry in balance.entries
        ],
    }


def _short(value: Decimal) -> str:
    return f"{float(value):.6g}"
