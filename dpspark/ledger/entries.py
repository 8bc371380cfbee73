"""Entries and accounts, read from the rows of the ledger's tables."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from dpspark.core.protection import Promise, Protection, store_unit, unit_column
from dpspark.errors import LedgerError
from dpspark.ledger.balance import Account, Entry
from dpspark.ledger.database import datasets, grants, releases
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Charge, from_json


def read_account(connection: sa.Connection, dataset: str) -> Account:
    """Read all that is known of a dataset."""
    granted = connection.execute(sa.select(grants).where(grants.c.dataset == dataset).order_by(grants.c.id)).all()
    rows = connection.execute(
        sa.select(releases).where(releases.c.dataset == dataset).order_by(releases.c.reserved_at, releases.c.id)
    ).all()
    said = connection.execute(sa.select(datasets).where(datasets.c.dataset == dataset)).one_or_none()
    stated = Promise() if said is None else Promise(said.neighbours, said.unit, _columns(said.fixed))
    return Account(
        dataset,
        tuple(Budget(row.epsilon, row.delta, row.rho) for row in granted),
        tuple(read_entry(row._mapping) for row in rows),
        stated,
        None if said is None else said.warn_below,
    )


def granted_datasets(connection: sa.Connection) -> list[str]:
    """List the datasets that have a grant."""
    return sorted(connection.scalars(sa.select(grants.c.dataset).distinct()))


def find_entry(connection: sa.Connection, dataset: str, name: str, version: str) -> Entry | None:
    """Find the entry of a release; None if there is none."""
    c = releases.c
    row = connection.execute(
        sa.select(releases).where((c.dataset == dataset) & (c.name == name) & (c.version == version))
    ).one_or_none()
    return None if row is None else read_entry(row._mapping)


def find_charged(connection: sa.Connection, entry: Entry) -> Entry:
    """Find the entry again; refuse to go on if its charge was lost or given back."""
    found = find_entry(connection, entry.dataset, entry.name, entry.version)
    if found is None or found.id != entry.id:
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset}: the ledger lost its charge while it ran; it was "
            "restored from an older copy. It is not published.\nRun the same release again."
        )
    if found.state == "given_back":
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset}: its budget was given back while it ran. "
            "It is not published.\nGive it a new release.version."
        )
    return found


def read_entry(row: Any) -> Entry:
    """Read an entry from a row of the table."""
    values = dict(row)
    budget = Budget(values.pop("epsilon"), values.pop("delta"), values.pop("rho"))
    events, neighbours, unit, fixed = (values.pop(key) for key in ("events", "neighbours", "unit", "fixed"))
    try:
        known = Charge.of(budget, None if events is None else from_json(events)).events
    except (KeyError, TypeError, ValueError):
        raise LedgerError(
            f"release {values['name']} {values['version']} of {values['dataset']}: its events cannot be read.\n"
            "Somebody changed them past dpspark, or a newer dpspark wrote them."
        ) from None
    protection = None if neighbours is None else Protection(neighbours, unit_column(unit), _columns(fixed) or ())
    return Entry(budget=budget, events=known, protection=protection, **values)


def protection_row(protection: Protection | None) -> dict[str, str | None]:
    """Write whom a release protects as columns of the table."""
    if protection is None:
        return {"neighbours": None, "unit": None, "fixed": None}
    return {
        "neighbours": protection.neighbours,
        "unit": store_unit(protection.unit),
        "fixed": json.dumps(protection.fixed),
    }


def _columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(json.loads(text))
