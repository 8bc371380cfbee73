"""The budget ledger: what was granted on a dataset, and what each release took of it.

Reserve before data is read, stage when the noisy result is on disk, commit when it is published. A crash leaves the
reservation, so that a budget is never spent twice unseen; the same release run again goes on with it.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from dpspark.core.protection import Promise, Protection, check_protection
from dpspark.errors import ConfError, LedgerError
from dpspark.ledger import history
from dpspark.ledger.balance import Account, Balance, Entry, balance_of, check_grant
from dpspark.ledger.database import SCHEMA, Database, bring_up_to_date, datasets, grants, releases
from dpspark.ledger.entries import find_charged, find_entry, granted_datasets, protection_row, read_account, read_entry
from dpspark.ledger.history import Act, check_intact
from dpspark.privacy.budget import Budget
from dpspark.privacy.composition import decimal
from dpspark.privacy.events import Charge, Event, to_json

__all__ = ["Balance", "Entry", "Ledger", "check_unchanged", "find_ledger_url"]


class Ledger:
    """A budget ledger, in a database."""

    def __init__(self, url: str, create: bool = True, dataset: str | None = None):
        """Open the ledger. `create` it if there is none, which is for a grant to do; `dataset` is for messages."""
        self._database = Database(url, create, dataset or "DATASET")
        if self._database.was < SCHEMA:
            with self._database.writing() as connection:
                found = bring_up_to_date(connection)
                if found < SCHEMA:
                    what, why = ("create", "") if found == 0 else ("migrate", f"tables of version {found}")
                    history.append(connection, what, None, history.snapshot(connection), why)

    def grant(
        self,
        dataset: str,
        epsilon: float = 0.0,
        delta: float = 0.0,
        rho: float | None = None,
        *,
        promise: Promise | None = None,
        warn_below: float | None = None,
        why: str = "",
        who: str | None = None,
    ) -> Balance:
        """Add to a dataset's budget, in the currency of its first grant; say whom it protects, if that is open."""
        if rho is not None and (epsilon or delta):
            raise ConfError("grant: give epsilon, with or without delta, or rho alone.")
        with self._database.writing() as connection:
            check_intact(connection, self._database.shown_url)
            before = read_account(connection, dataset)
            _check_currency(before, rho)
            if before.delta + decimal(delta) >= 1:
                raise LedgerError(
                    f"dataset {dataset}: delta={delta:g} makes its grants 1 or more together. Grant less."
                )
            settings = _settle(before, promise or Promise(), warn_below)
            row = {"dataset": dataset, "epsilon": float(epsilon), "delta": float(delta), "rho": rho}
            row["granted_at"] = history.now()
            key = connection.execute(grants.insert().values(**row)).inserted_primary_key
            assert key is not None
            connection.execute(datasets.delete().where(datasets.c.dataset == dataset))
            connection.execute(datasets.insert().values(**settings))
            written: dict[sa.Table, list[history.Row]] = {grants: [{"id": key[0], **row}], datasets: [settings]}
            history.append(connection, "grant", dataset, written, why, who)
            after = read_account(connection, dataset)
        return balance_of(after)

    def find(self, dataset: str, name: str, version: str) -> Entry | None:
        with self._database.reading() as connection:
            return find_entry(connection, dataset, name, version)

    def known(self, ids: Iterable[str]) -> set[str]:
        """Find those of some reservations that are in this ledger."""
        with self._database.reading() as connection:
            return set(connection.scalars(sa.select(releases.c.id).where(releases.c.id.in_(list(ids)))))

    def reserve(
        self,
        dataset: str,
        name: str,
        version: str,
        spec_hash: str,
        budget: Budget,
        path: str,
        events: Iterable[Event] | None = None,
        protection: Protection | None = None,
        entry_id: str | None = None,
    ) -> Entry:
        """Charge the budget, or find the charge that this very release made before.

        `entry_id` is that of a draw which is there already, made on a reservation that this ledger does not have.
        """
        if events is not None:
            import dp_accounting  # noqa: F401  slow: not while others wait
        with self._database.writing() as connection:
            before = find_entry(connection, dataset, name, version)
            if before is not None:
                return check_unchanged(before, spec_hash)
            check_intact(connection, self._database.shown_url)
            charge = Charge.of(budget, events)
            self._check(read_account(connection, dataset), charge, protection, granted_datasets(connection))
            row = {
                **{"id": entry_id or uuid.uuid4().hex, "dataset": dataset, "name": name, "version": version},
                **{"spec_hash": spec_hash, **budget.__dict__, "state": "reserved", "path": path},
                "manifest_sha256": None,
                **{"reserved_at": history.now(), "committed_at": None, "events": to_json(charge.events)},
                **protection_row(protection),
            }
            connection.execute(releases.insert().values(**row))
            drawn = ", drawn before, on a charge that this ledger does not have" if entry_id else ""
            history.append(connection, "reserve", dataset, {releases: [row]}, f"release {name} {version}{drawn}")
            return read_entry(row)

    def check(
        self,
        dataset: str,
        name: str,
        version: str,
        budget: Budget,
        events: Iterable[Event] | None = None,
        protection: Protection | None = None,
    ) -> None:
        """Refuse now what `reserve` would refuse, before anything slow is started."""
        with self._database.reading() as connection:
            check_intact(connection, self._database.shown_url)
            found = find_entry(connection, dataset, name, version)
            account, known = read_account(connection, dataset), granted_datasets(connection)
        if found is None:
            self._check(account, Charge.of(budget, events), protection, known)

    def _check(self, account: Account, charge: Charge, protection: Protection | None, known: list[str]) -> None:
        if protection is not None:
            check_protection(account.dataset, account.promise, protection)
        check_grant(account, charge, self._database.shown_url, known)

    def stage(self, entry: Entry, manifest_sha256: str) -> Entry:
        """Record that a noisy result is on disk. The first one recorded is the release: no other is ever published.

        Returns the entry, which says which one was the first.
        """
        with self._database.writing() as connection:
            found = find_charged(connection, entry)
            if found.manifest_sha256 is not None or found.state == "committed":
                return found
            values = {"state": "staged", "manifest_sha256": manifest_sha256}
            return self._write(connection, found, "stage", f"release {entry.name} {entry.version}", None, **values)

    def commit(self, entry: Entry) -> None:
        """Record that the release is published."""
        with self._database.writing() as connection:
            found = find_charged(connection, entry)
            # A second driver may have come as far: then there is nothing to change.
            if found.state == "staged":
                values = {"state": "committed", "committed_at": history.now()}
                self._write(connection, found, "commit", f"release {entry.name} {entry.version}", None, **values)

    def give_back(
        self, dataset: str, name: str, version: str, why: str, *, destroyed: bool = False, who: str | None = None
    ) -> Entry:
        """Take a charge out of the sum, for good. Its name and version stay used, as a driver may still be running.

        A staged result was drawn: its budget comes back only to who says that it was `destroyed` unread. What is published
        stays spent.
        """
        with self._database.writing() as connection:
            check_intact(connection, self._database.shown_url)
            entry = find_entry(connection, dataset, name, version)
            _check_give_back(entry, f"release {name} {version} of {dataset}", destroyed)
            assert entry is not None
            return self._write(connection, entry, "give back", why, who, state="given_back")

    def balances(self, dataset: str | None = None) -> list[Balance]:
        with self._database.reading() as connection:
            named = {
                *connection.scalars(sa.select(grants.c.dataset)),
                *connection.scalars(sa.select(releases.c.dataset)),
            }
            accounts = [read_account(connection, name) for name in sorted(named) if dataset in (None, name)]
        return [balance_of(account) for account in accounts]

    def warning(self, dataset: str) -> str | None:
        """Warn the steward of a budget that is nearly spent; None if it is not."""
        return next((balance.warning for balance in self.balances(dataset)), None)

    def history(self, dataset: str | None = None) -> list[Act]:
        with self._database.reading() as connection:
            acts = history.read(connection)
        return [act for act in acts if dataset is None or act.dataset in (None, dataset)]

    def verify(self, pinned: str | None = None) -> str:
        """Refuse a ledger that was changed past dpspark; return the newest hash of one that was not."""
        with self._database.reading() as connection:
            check_intact(connection, self._database.shown_url, pinned)
            return history.read(connection)[-1].hash

    def check_charged(self, entry: Entry) -> None:
        """Refuse to go on with a release whose budget was given back while it ran."""
        with self._database.reading() as connection:
            find_charged(connection, entry)

    def _write(
        self, connection: sa.Connection, entry: Entry, what: str, why: str, who: str | None, **values: Any
    ) -> Entry:
        here = releases.c.id == entry.id
        connection.execute(releases.update().where(here).values(**values))
        row = dict(connection.execute(sa.select(releases).where(here)).one()._mapping)
        history.append(connection, what, entry.dataset, {releases: [row]}, why, who)
        return read_entry(row)


def find_ledger_url(option: str | None, conf: str | None = None) -> str:
    """Choose the ledger's URL: that of --url, else the conf's, else the environment's."""
    # Stripped: a secret that was mounted from a file may end with a line.
    found = (option or conf or os.environ.get("DPSPARK_LEDGER") or "").strip()
    if not found:
        raise ConfError(
            "no ledger named. Give --url or ledger.url in a conf, or set DPSPARK_LEDGER: sqlite:///ledger.db, say."
        )
    return found


def check_unchanged(entry: Entry, spec_hash: str) -> Entry:
    """Refuse to go on with a release whose budget was given back, or whose spec was another."""
    if entry.state == "given_back":
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset}: its budget was given back, and its name and "
            "version stay used.\nGive it a new release.version."
        )
    if entry.spec_hash != spec_hash:
        begun = "was made" if entry.state == "committed" else "was begun, and is unfinished,"
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset} {begun} from another spec. "
            "A used name and version cannot change.\nGive the changed spec a new release.version."
        )
    return entry


def _check_give_back(entry: Entry | None, name: str, destroyed: bool) -> None:
    if entry is None:
        raise LedgerError(f"{name}: the ledger has none. See: dpspark ledger show")
    if entry.state == "given_back":
        raise LedgerError(f"{name}: its budget was given back before.")
    if entry.state == "committed":
        raise LedgerError(f"{name}: it was published, so its budget stays spent.")
    if entry.state == "staged" and not destroyed:
        raise LedgerError(
            f"{name}: its result was drawn and staged for {entry.path}. Run the release again to publish it.\n"
            "Only if the staged result was destroyed and nobody read it, add --destroyed."
        )


def _check_currency(account: Account, rho: float | None) -> None:
    if account.granted and account.in_rho != (rho is not None):
        has, not_ = ("rho", "epsilon and delta") if account.in_rho else ("epsilon and delta", "rho")
        raise LedgerError(
            f"dataset {account.dataset}: its grants are in {has}, and {not_} cannot be added to them.\n"
            f"Grant {has}, or use another dataset of the ledger."
        )


def _settle(account: Account, asked: Promise, warn_below: float | None) -> dict[str, Any]:
    """Make the dataset's row after a grant. What was stated, or decided by a release, stays."""
    decided = account.promise
    for what in ("neighbours", "unit", "fixed"):
        before, now = getattr(decided, what), getattr(asked, what)
        if None not in (before, now) and before != now:
            raise LedgerError(
                f"dataset {account.dataset}: by an earlier grant or release, it protects {decided}. "
                f"--{what} cannot change that.\nUse another dataset of the ledger."
            )
    promise = account.stated.or_else(asked)
    return {
        "dataset": account.dataset,
        "neighbours": promise.neighbours,
        "unit": promise.unit,
        "fixed": None if promise.fixed is None else json.dumps(promise.fixed),
        "warn_below": account.warn_below if warn_below is None else warn_below,
    }
