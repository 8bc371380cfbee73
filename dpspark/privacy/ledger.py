"""The budget ledger: what was granted on a dataset, and what each release took of it.

Reserve before data is read, stage when the noisy result is on disk, commit when it is published. A crash leaves the
reservation, so that a budget is never spent twice unseen; the same release run again goes on with it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import sqlalchemy as sa

from dpspark.errors import ConfError, DpsparkError, LedgerError
from dpspark.privacy.budget import Budget, zcdp_epsilon

metadata = sa.MetaData()
grants = sa.Table(
    "grants",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False, index=True),
    sa.Column("epsilon", sa.Float, nullable=False),
    sa.Column("delta", sa.Float, nullable=False),
    sa.Column("granted_at", sa.Text, nullable=False),
)
releases = sa.Table(
    "releases",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("spec_hash", sa.Text, nullable=False),
    sa.Column("epsilon", sa.Float),
    sa.Column("delta", sa.Float),
    sa.Column("rho", sa.Float),
    sa.Column("state", sa.Text, nullable=False),  # reserved, staged, committed
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("manifest_sha256", sa.Text),  # of the one draw that may be published, once staged
    sa.Column("reserved_at", sa.Text, nullable=False),
    sa.Column("committed_at", sa.Text),
    sa.UniqueConstraint("dataset", "name", "version"),
)


@dataclass(frozen=True)
class Entry:
    """One release in the ledger."""

    id: str
    dataset: str
    name: str
    version: str
    spec_hash: str
    budget: Budget
    state: str
    path: str
    reserved_at: str
    committed_at: str | None
    manifest_sha256: str | None = None


@dataclass(frozen=True)
class Balance:
    """What a dataset was granted and what is left. zCDP releases are charged together, at the delta that is left."""

    dataset: str
    granted_epsilon: Decimal
    granted_delta: Decimal
    spent_epsilon: Decimal
    spent_delta: Decimal
    entries: tuple[Entry, ...]

    @property
    def left_epsilon(self) -> Decimal:
        return self.granted_epsilon - self.spent_epsilon

    @property
    def left_delta(self) -> Decimal:
        return self.granted_delta - self.spent_delta


class Ledger:
    def __init__(self, url: str, create: bool = True):
        """Open the books; `create` them if there are none, which is for a grant to do."""
        self._engine = _engine(url, create)
        with self._transaction() as connection:
            metadata.create_all(connection)
            _add_new_columns(connection)

    def grant(self, dataset: str, epsilon: float, delta: float) -> Balance:
        """Add to a dataset's budget."""
        with self._transaction() as connection:
            connection.execute(grants.insert().values(dataset=dataset, epsilon=epsilon, delta=delta, granted_at=_now()))
            return _balance(connection, dataset)

    def find(self, dataset: str, name: str, version: str) -> Entry | None:
        with self._transaction() as connection:
            return _find(connection, dataset, name, version)

    def reserve(self, dataset: str, name: str, version: str, spec_hash: str, budget: Budget, path: str) -> Entry:
        """Charge the budget, or find the charge that this very release made before."""
        with self._transaction() as connection:
            before = _find(connection, dataset, name, version)
            if before is not None:
                return check_unchanged(before, spec_hash)
            balance = _balance(connection, dataset, budget)
            _check_grant(balance, budget, self._shown_url)
            entry = Entry(uuid.uuid4().hex, dataset, name, version, spec_hash, budget, "reserved", path, _now(), None)
            values = {**entry.__dict__, **budget.__dict__}
            del values["budget"]
            connection.execute(releases.insert().values(**values))
            return entry

    def check(self, dataset: str, name: str, version: str, budget: Budget) -> None:
        """Refuse now what `reserve` would refuse, before anything slow is started."""
        with self._transaction() as connection:
            if _find(connection, dataset, name, version) is None:
                _check_grant(_balance(connection, dataset, budget), budget, self._shown_url)

    def stage(self, entry: Entry, manifest_sha256: str) -> Entry:
        """A noisy result is on disk. The first one that the ledger hears of is the release; no other is ever published.

        Returns the entry, which says what that first one was.
        """
        with self._transaction() as connection:
            first = (releases.c.id == entry.id) & releases.c.manifest_sha256.is_(None)
            values = {"state": "staged", "manifest_sha256": manifest_sha256}
            connection.execute(releases.update().where(first & (releases.c.state != "committed")).values(values))
            found = _find(connection, entry.dataset, entry.name, entry.version)
        if found is None or found.id != entry.id:
            raise LedgerError(
                f"release {entry.name} {entry.version}: its reservation is no longer in the ledger. Nothing was published.\n"
                "Restore the ledger that it was made in, and run it again."
            )
        return found

    def commit(self, entry: Entry) -> None:
        with self._transaction() as connection:
            # A second driver may have come as far: then there is nothing to change.
            staged = (releases.c.id == entry.id) & (releases.c.state == "staged")
            connection.execute(releases.update().where(staged).values(state="committed", committed_at=_now()))

    def balances(self, dataset: str | None = None) -> list[Balance]:
        with self._transaction() as connection:
            named = set(connection.scalars(sa.select(grants.c.dataset))) | set(
                connection.scalars(sa.select(releases.c.dataset))
            )
            return [_balance(connection, name) for name in sorted(named) if dataset in (None, name)]

    @property
    def _shown_url(self) -> str:
        return self._engine.url.render_as_string(hide_password=True)

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise DpsparkError(
                f"ledger {self._shown_url}: cannot be used ({type(error.__cause__ or error).__name__}).\n"
                "Check that it can be reached and written."
            ) from None


def find_ledger_url(option: str | None, conf: str | None = None) -> str:
    """--url, else the conf's, else the environment's."""
    found = option or conf or os.environ.get("DPSPARK_LEDGER")
    if not found:
        raise ConfError("ledger.url: missing. Add it to the conf, or set DPSPARK_LEDGER, e.g. to sqlite:///ledger.db")
    return found


def check_unchanged(entry: Entry, spec_hash: str) -> Entry:
    if entry.spec_hash != spec_hash:
        begun = "was made" if entry.state == "committed" else "was begun, and is unfinished,"
        raise LedgerError(
            f"release {entry.name} {entry.version} of {entry.dataset} {begun} from another spec. "
            "A used name and version cannot change.\nGive the changed spec a new release.version."
        )
    return entry


def _check_grant(balance: Balance, budget: Budget, url: str) -> None:
    if balance.granted_epsilon == 0:
        raise LedgerError(
            f"dataset {balance.dataset}: no budget was granted.\n"
            f"Run: dpspark ledger grant {balance.dataset} --epsilon E --delta D --url {url}"
        )
    if balance.left_epsilon < 0 or balance.left_delta < 0:
        without = f"{budget} asked, which would overspend by "
        over = [
            f"{name} {float(-left):.6g}"
            for name, left in (("epsilon", balance.left_epsilon), ("delta", balance.left_delta))
            if left < 0
        ]
        raise LedgerError(
            f"dataset {balance.dataset}: not enough budget left: {without}{' and '.join(over)}.\n"
            f"See: dpspark ledger show {balance.dataset} --url {url}"
        )


def _balance(connection: sa.Connection, dataset: str, extra: Budget | None = None) -> Balance:
    """Add the books up; `extra` is a charge to try."""
    granted = connection.execute(sa.select(grants.c.epsilon, grants.c.delta).where(grants.c.dataset == dataset)).all()
    granted_epsilon = sum((_decimal(row.epsilon) for row in granted), Decimal(0))
    granted_delta = sum((_decimal(row.delta) for row in granted), Decimal(0))
    rows = connection.execute(
        sa.select(releases).where(releases.c.dataset == dataset).order_by(releases.c.reserved_at)
    ).all()
    entries = tuple(_entry(row) for row in rows)
    charges = [entry.budget for entry in entries] + ([extra] if extra else [])
    epsilon = sum((_decimal(b.epsilon) for b in charges if b.epsilon is not None), Decimal(0))
    delta = sum((_decimal(b.delta) for b in charges if b.delta is not None), Decimal(0))
    rho = sum((_decimal(b.rho) for b in charges if b.rho is not None), Decimal(0))
    if rho:
        spare = granted_delta - delta
        # No delta left to convert at: a zCDP charge cannot be met by this grant.
        epsilon += _decimal(zcdp_epsilon(float(rho), float(spare))) if spare > 0 else Decimal("Infinity")
        delta = max(delta, granted_delta)
    return Balance(dataset, granted_epsilon, granted_delta, epsilon, delta, entries)


def _add_new_columns(connection: sa.Connection) -> None:
    """To ledgers of version 0.1."""
    if "manifest_sha256" not in {column["name"] for column in sa.inspect(connection).get_columns("releases")}:
        connection.execute(sa.DDL("ALTER TABLE releases ADD COLUMN manifest_sha256 TEXT"))


def _decimal(value: float) -> Decimal:
    """As written: three charges of 0.1 are 0.3."""
    return Decimal(repr(value))


def _find(connection: sa.Connection, dataset: str, name: str, version: str) -> Entry | None:
    c = releases.c
    row = connection.execute(
        sa.select(releases).where((c.dataset == dataset) & (c.name == name) & (c.version == version))
    ).one_or_none()
    return None if row is None else _entry(row)


def _entry(row: Any) -> Entry:
    values = dict(row._mapping)
    budget = Budget(values.pop("epsilon"), values.pop("delta"), values.pop("rho"))
    return Entry(budget=budget, **values)


def _engine(url: str, create: bool) -> sa.Engine:
    try:
        parsed = sa.engine.make_url(url)
        if parsed.drivername == "postgresql":  # the driver that dpspark[postgres] installs
            parsed = parsed.set(drivername="postgresql+psycopg")
        engine = sa.create_engine(parsed, **_options(parsed))
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError, ValueError):
        raise ConfError("ledger.url: expected a database URL such as sqlite:///ledger.db") from None
    if _is_sqlite(parsed):
        _private_sqlite(engine, parsed.database, create)
    elif parsed.get_backend_name() == "postgresql":
        _one_writer(engine)
    return engine


def _one_writer(engine: sa.Engine) -> None:
    """Transactions wait for each other, so that two cannot read the same balance and both spend it."""

    @sa.event.listens_for(engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7165236894)")


def _options(url: sa.URL) -> dict[str, Any]:
    # Each statement after the lock must see what others committed before it, whatever the server's default is.
    return {"connect_args": {"timeout": 60}} if _is_sqlite(url) else {"isolation_level": "READ COMMITTED"}


def _is_sqlite(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite"


def _private_sqlite(engine: sa.Engine, path: str | None, create: bool) -> None:
    """Readable by its owner only, and one writer at a time from the first read of a transaction on."""
    if path and path != ":memory:":
        if not create and not os.path.exists(path):
            raise LedgerError(
                f"ledger {path!r}: there is none, so no budget was granted.\n"
                f"Run: dpspark ledger grant DATASET --epsilon E --delta D --url {engine.url}"
            )
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise DpsparkError(f"ledger {path!r}: {error.strerror}. Check the path and its permissions.") from None

    @sa.event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
