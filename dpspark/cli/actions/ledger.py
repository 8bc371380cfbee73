"""The ledger for people: grant a budget, print the books, give a budget back, read the history."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from dpspark.bundle.files import read_manifest
from dpspark.bundle.names import plain_name
from dpspark.bundle.staging import staged_digests, staged_paths, staging_path
from dpspark.bundle.storage import place_of
from dpspark.core.protection import Promise
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError, LedgerError
from dpspark.ledger.balance import Balance, Entry
from dpspark.ledger.history import one_line
from dpspark.ledger.ledger import Ledger, find_ledger_url
from dpspark.privacy.events import to_json


def grant_budget(
    dataset: str,
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    promise: Promise,
    warn_below: float | None,
    reason: str,
    who: str | None,
    url: str | None,
) -> str:
    try:
        plain_name(dataset)
    except ValueError as error:
        raise ConfError(f"dataset: {error}") from None
    _check_amounts(epsilon, delta, rho)
    if warn_below is not None and not 0 <= warn_below <= 1:
        raise ConfError(f"--warn-below {warn_below:g}; expected a share from 0 to 1, such as 0.2.")
    ledger = Ledger(find_ledger_url(url))
    more = {"promise": promise, "warn_below": warn_below, "why": reason, "who": who}
    if rho is not None:
        balance = ledger.grant(dataset, rho=rho, **more)  # type: ignore[arg-type]
        return f"{dataset}: granted rho {rho:g}. In all: rho {_exact(balance.granted_rho)}."
    assert epsilon is not None
    delta = delta or 0.0  # a budget without one is pure
    balance = ledger.grant(dataset, epsilon, delta, **more)  # type: ignore[arg-type]
    return (
        f"{dataset}: granted epsilon {epsilon:g}, delta {delta:g}. "
        f"In all: epsilon {_exact(balance.granted_epsilon)}, delta {_exact(balance.granted_delta)}."
    )


def _check_amounts(epsilon: float | None, delta: float | None, rho: float | None) -> None:
    if (rho is None) == (epsilon is None) or (delta is not None and epsilon is None):
        raise ConfError("ledger grant: give --epsilon, with --delta or alone (delta 0), or --rho alone.")
    for name, value in (("epsilon", epsilon), ("rho", rho)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ConfError(f"--{name} {value:g}; expected a finite number > 0.")
    if delta is not None and not 0 <= delta < 1:
        raise ConfError(f"--delta {delta:g}; expected a number from 0 to below 1, such as 1e-6.")


def give_budget_back(
    dataset: str, name: str, version: str, reason: str, destroyed: bool, who: str | None, url: str | None
) -> str:
    if not one_line(reason):
        raise ConfError("--reason: empty. Say why; it is kept in the history.")
    ledger = Ledger(find_ledger_url(url), create=False)
    entry = ledger.find(dataset, name, version)
    if entry is not None and entry.state != "committed":  # of a published one the ledger itself says why not
        _check_nothing_there(entry)
    if destroyed and entry is not None and entry.state == "reserved":
        raise ConfError(
            f"--destroyed: the ledger knows of no staged result of {name} {version}, so none was destroyed. Leave it out."
        )
    ledger.give_back(dataset, name, version, reason, destroyed=destroyed, who=who)
    balance = ledger.balances(dataset)[0]
    left = (
        f"rho {_down(balance.left_rho)}" if balance.left_rho is not None else f"epsilon {_down(balance.left_epsilon)}"
    )
    return f"{dataset}: the budget of {name} {version} was given back. Left: {left}. Its name and version stay used."


def _check_nothing_there(entry: Entry) -> None:
    """A driver may have died between writing its result and telling the ledger: what was drawn is on disk."""
    final = place_of(entry.path)
    output = final.parent.parent
    staged = [staging_path(output, entry.id, digest) for digest in staged_digests(output, entry.id)]
    manifest = read_manifest(final)
    published = manifest is not None and manifest["ledger"]["id"] == entry.id
    if staged or published:
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset}: its result was drawn, and is at "
            f"{final if published else staged[0]}.\nRun the release again to publish it."
        )
    partial = staged_paths(output, entry.id)
    if partial:
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset}: its driver died while it wrote {partial[0]}.\n"
            "Run the release again; or delete that, if nobody read it, and give its budget back."
        )


def show_ledger(dataset: str | None, url: str | None, as_json: bool) -> str:
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
    at = f"delta {_exact(balance.spent_delta)}"
    lines = [
        f"  granted  epsilon {_exact(balance.granted_epsilon)}  delta {_exact(balance.granted_delta)}",
        f"  spent    epsilon {_up(balance.spent_epsilon)}  {at}",
        f"  left     epsilon {_down(balance.left_epsilon)}"
        + (
            f"  delta {_exact(balance.left_delta)}"
            if balance.how == "basic"
            else f"  at {at}, or more: releases cost less together"
        ),
    ]
    alone = balance.one_by_one
    if balance.how != "basic" and alone is not None:
        claimed = f"epsilon {_up(alone.epsilon)}, delta {_exact(alone.delta)}"
        together = f"epsilon {_up(balance.spent_epsilon)} at {at} ({balance.how})"
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
        f"  granted  rho {_exact(balance.granted_rho)}",
        f"  spent    rho {_up(balance.spent_rho)}, by {_releases(len(balance.charged))}",
        f"  left     rho {_down(balance.left_rho)}",
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
        lines.append(f"Intact: every row follows from those before it, and the books from them. Newest: {head}")
    return "\n".join(lines)


def _exact(value: Decimal | None) -> str:
    """As it was written: sums of decimals are exact."""
    return f"{float(value or 0):.12g}"


def _up(value: Decimal) -> str:
    return _exact(Context(prec=8, rounding=ROUND_CEILING).plus(value))


def _down(value: Decimal | None) -> str:
    return _exact(Context(prec=8, rounding=ROUND_FLOOR).plus(value or Decimal(0)))


def _seconds(at: str) -> str:
    return datetime.fromisoformat(at).isoformat(timespec="seconds")
