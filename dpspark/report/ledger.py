"""The ledger's word on the dataset, for a report. Its address is never shown: it may hold a password."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from dpspark.errors import LedgerError
from dpspark.ledger.balance import Balance
from dpspark.report.markup import Markup, element, facts, join, table


def ledger_section(manifest: dict[str, Any], url: str | None) -> Markup:
    ledger = manifest["ledger"]
    if manifest.get("pool") is not None:
        return _of_pool(manifest, url)
    said = facts([("Dataset", ledger["dataset"]), ("Entry", element("code", ledger["id"]))])
    why = element(
        "p",
        "Every release from the same data adds to what can be learnt about a record. The ledger keeps the sum, and refuses "
        "what goes beyond the budget that was granted.",
    )
    return join(why, said, None if url is None else _balance(manifest, url))


def _of_pool(manifest: dict[str, Any], url: str | None) -> Markup:
    """A pool reads no data: its parts were charged."""
    if url is not None:
        raise LedgerError("a pool is charged nothing, and has no entry. Give --url with the reports of its parts.")
    rows: list[list[object]] = [
        [part["name"], part["version"], element("code", part["manifest_sha256"], class_="long")]
        for part in manifest["pool"]["parts"]
    ]
    why = element("p", "A pool reads no data and is charged nothing. Its parts were, each in the ledger of its data.")
    return join(why, table(["Part", "Version", "SHA-256 of its manifest"], rows, "The releases that were added up"))


def _balance(manifest: dict[str, Any], url: str) -> Markup:
    from dpspark.ledger.ledger import Ledger

    ledger = manifest["ledger"]
    balances = Ledger(url, create=False).balances(ledger["dataset"])
    if not balances:
        raise LedgerError(f"dataset {ledger['dataset']}: nothing was granted on it in this ledger. Check --url.")
    (balance,) = balances
    own = next((entry for entry in balance.entries if entry.id == ledger["id"]), None)
    if own is None:
        raise LedgerError(f"this ledger has no entry {ledger['id']} of dataset {ledger['dataset']}. Check --url.")
    return join(_table(balance), element("p", _together(balance)))


def _table(balance: Balance) -> Markup:
    parts: list[tuple[str, Decimal, Decimal]] = []
    if balance.granted_rho is not None:
        parts.append(("ρ", balance.granted_rho, balance.spent_rho or Decimal(0)))
    elif balance.how == "basic":
        parts.append(("ε", balance.granted_epsilon, balance.spent_epsilon))
        parts.append(("δ", balance.granted_delta, balance.spent_delta))
    else:  # what they cost together, at all of the delta that was granted
        parts.append((f"ε, at δ = {shown(balance.spent_delta)}", balance.granted_epsilon, balance.spent_epsilon))
    rows: list[list[object]] = [
        [name, shown(granted), shown(spent, ROUND_CEILING), shown(granted - spent, ROUND_FLOOR)]
        for name, granted, spent in parts
    ]
    return table(["Budget", "Granted", "Spent", "Left"], rows, "All releases of this dataset together", (1, 2, 3))


def _together(balance: Balance) -> str:
    count = len(balance.charged)
    how = "added up" if balance.how == "basic" else f"composed ({balance.how})"
    return f"{count} release{'' if count == 1 else 's'}, {how}, when this report was made."


def shown(value: Decimal, rounding: str | None = None) -> str:
    """Round what is spent up, and what is left down."""
    return f"{float(Context(prec=6, rounding=rounding).plus(value)):.12g}"
