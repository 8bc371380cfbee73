"""The ledger in words: what was granted, spent and is left, and who did what."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from dpspark.core.suggest import did_you_mean
from dpspark.errors import LedgerError
from dpspark.ledger.balance import Balance, Entry
from dpspark.ledger.ledger import Ledger, find_ledger_url
from dpspark.privacy.events import to_json


def show_ledger(dataset: str | None, url: str | None, as_json: bool) -> str:
    """Render the balance of one dataset, or of all."""
    ledger = Ledger(find_ledger_url(url), create=False)
    balances, damage = ledger.balances(dataset), []
    try:
        ledger.verify()
    except LedgerError as error:
        damage = [f"WARNING: {error}"]
    if dataset is not None and not balances:
        raise _unknown(dataset, ledger)
    if as_json:
        return json.dumps([{**_as_dict(balance), "intact": not damage} for balance in balances])
    if not balances:
        return "Nothing granted yet. See: dpspark ledger grant --help"
    return "\n\n".join([*damage, *(_as_text(balance) for balance in balances)])


def _unknown(dataset: str, ledger: Ledger) -> LedgerError:
    meant = did_you_mean(dataset, [balance.dataset for balance in ledger.balances()])
    return LedgerError(
        f"dataset {dataset}: nothing was granted on it.{meant}\nSee all with: dpspark ledger show; or grant a budget."
    )


def _as_text(balance: Balance) -> str:
    lines = [balance.dataset, *(_rho_lines(balance) if balance.granted_rho is not None else _epsilon_lines(balance))]
    if balance.promise.neighbours is not None:
        lines.append(f"  protects {balance.promise}")
    unknown = sum(entry.protection is None for entry in balance.charged)
    if unknown:
        lines.append(f"  {_releases(unknown)} did not record what they protect: see their manifests")
    if balance.warning is not None:
        lines.append(f"  WARNING  {balance.warning}")
    for entry in balance.entries:
        state = entry.state.replace("_", " ")
        lines.append(f"  {state:<10} {entry.name} {entry.version}  {entry.budget}  {_seconds(entry.reserved_at)}")
    return "\n".join(lines)


def _epsilon_lines(balance: Balance) -> list[str]:
    at = f"delta {exactly(balance.spent_delta)}"
    lines = [
        f"  granted  epsilon {exactly(balance.granted_epsilon)}  delta {exactly(balance.granted_delta)}",
        f"  spent    epsilon {rounded_up(balance.spent_epsilon)}  {at}",
        f"  left     epsilon {rounded_down(balance.left_epsilon)}"
        + (
            f"  delta {exactly(balance.left_delta)}"
            if balance.how == "basic"
            else f"  at {at}, or more: releases cost less together"
        ),
    ]
    alone = balance.one_by_one
    if balance.how != "basic" and alone is not None:
        claimed = f"epsilon {rounded_up(alone.epsilon)}, delta {exactly(alone.delta)}"
        together = f"epsilon {rounded_up(balance.spent_epsilon)} at {at} ({balance.how})"
        count = len(balance.charged)
        lines.append(
            f"  {count} releases would cost {claimed} one by one; together they cost {together}"
            if count > 1
            else f"  1 release claims {claimed}; that is {together}"
        )
    return lines


def _rho_lines(balance: Balance) -> list[str]:
    assert balance.spent_rho is not None
    return [
        f"  granted  rho {exactly(balance.granted_rho)}",
        f"  spent    rho {rounded_up(balance.spent_rho)}, by {_releases(len(balance.charged))}",
        f"  left     rho {rounded_down(balance.left_rho)}",
    ]


def _releases(count: int) -> str:
    return f"{count} release{'' if count == 1 else 's'}"


def _as_dict(balance: Balance) -> dict[str, Any]:
    def pair(epsilon: Decimal, delta: Decimal, rho: Decimal | None) -> dict[str, float]:
        return {"rho": float(rho)} if rho is not None else {"epsilon": float(epsilon), "delta": float(delta)}

    alone = balance.one_by_one
    return {
        "dataset": balance.dataset,
        "granted": pair(balance.granted_epsilon, balance.granted_delta, balance.granted_rho),
        "spent": pair(balance.spent_epsilon, balance.spent_delta, balance.spent_rho),
        "left": pair(balance.left_epsilon, balance.left_delta, balance.left_rho),
        "composition": balance.how,
        **({} if alone is None else {"one_by_one": pair(alone.epsilon, alone.delta, None)}),
        "protects": asdict(balance.promise),
        "warn_below": balance.warn_below,
        "warning": balance.warning,
        "releases": [_entry_dict(entry) for entry in balance.entries],
    }


def _entry_dict(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "name": entry.name,
        "version": entry.version,
        "state": entry.state,
        **{key: value for key, value in entry.budget.__dict__.items() if value is not None},
        "spec_hash": entry.spec_hash,
        "events": json.loads(to_json(entry.events)),
        "reserved_at": entry.reserved_at,
        "committed_at": entry.committed_at,
    }


def show_history(dataset: str | None, verify: bool, pinned: str | None, url: str | None, as_json: bool) -> str:
    """Render the history, and the newest hash if it was verified."""
    ledger = Ledger(find_ledger_url(url), create=False)
    head = ledger.verify(pinned) if verify else None
    acts = ledger.history(dataset)
    if as_json:
        return json.dumps([{**asdict(act), "rows": json.loads(act.rows)} for act in acts])
    lines = [
        f"{act.sequence:>5}  {_seconds(act.at)}  {act.who}  {act.what}"
        + (f"  {act.dataset}" if act.dataset else "")
        + (f"  {act.why}" if act.why else "")
        + f"  {act.hash[:16]}"
        for act in acts
    ]
    if head is not None:
        lines.append(
            f"Intact: every row follows from those before it, and all that stands in the ledger from them. Newest: {head}"
        )
    return "\n".join(lines)


def exactly(value: Decimal | None) -> str:
    """Show a number as it was written: sums of decimals are exact."""
    return f"{float(value or 0):.12g}"


def rounded_up(value: Decimal) -> str:
    return exactly(Context(prec=8, rounding=ROUND_CEILING).plus(value))


def rounded_down(value: Decimal | None) -> str:
    return exactly(Context(prec=8, rounding=ROUND_FLOOR).plus(value or Decimal(0)))


def _seconds(at: str) -> str:
    return datetime.fromisoformat(at).isoformat(timespec="seconds")
