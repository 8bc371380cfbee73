"""The ledger's tables, in SQLite or PostgreSQL: how they are opened, kept private, versioned and migrated."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from dpspark.errors import ConfError, DpsparkError, LedgerError

SCHEMA = 2
WAIT_SECONDS = 60
LOCK = 7165236894  # of PostgreSQL's advisory locks, any number of our own

metadata = sa.MetaData()
version_table = sa.Table("ledger_version", metadata, sa.Column("version", sa.Integer, nullable=False))
grants = sa.Table(
    "grants",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("dataset", sa.Text, nullable=False, index=True),
    sa.Column("epsilon", sa.Float, nullable=False),
    sa.Column("delta", sa.Float, nullable=False),
    sa.Column("granted_at", sa.Text, nullable=False),
    sa.Column("rho", sa.Float),  # else NULL; with it, epsilon and delta are 0
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
    sa.Column("state", sa.Text, nullable=False),  # reserved, staged, committed; or given_back
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("reserved_at", sa.Text, nullable=False),
    sa.Column("committed_at", sa.Text),
    sa.Column("events", sa.Text),  # NULL in releases of version 1, as are the three that follow
    sa.Column("neighbours", sa.Text),
    sa.Column("unit", sa.Text),
    sa.Column("fixed", sa.Text),
    sa.Column("manifest_sha256", sa.Text),  # once staged: of the one bundle that may be published
    sa.UniqueConstraint("dataset", "name", "version"),
)
datasets = sa.Table(
    "datasets",
    metadata,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("neighbours", sa.Text),  # what the steward stated; NULL: the first release decides
    sa.Column("unit", sa.Text),
    sa.Column("fixed", sa.Text),
    sa.Column("warn_below", sa.Float),
)
history = sa.Table(
    "history",
    metadata,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("dataset", sa.Text),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("rows", sa.Text, nullable=False),  # JSON: every row of the other tables that this act wrote
    sa.Column("hash", sa.Text, nullable=False),
)
KEPT = (grants, releases, datasets)  # what history can rebuild

_ADDED = {"grants": ("rho",), "releases": ("events", "neighbours", "unit", "fixed", "manifest_sha256")}
_FORBIDDEN = {"history": ("UPDATE", "DELETE"), "grants": ("UPDATE", "DELETE"), "releases": ("DELETE",)}


class Database:
    """The database of a ledger: transactions on its tables, which are made or migrated when they are opened."""

    def __init__(self, url: str, create: bool, dataset: str = "DATASET"):
        """Open the tables. `dataset` is the one that a message would have a budget granted on."""
        self._engine = _engine(url, create, dataset)
        with self.reading() as connection:
            found = _version(connection)
        if found == 0 and not create:
            raise _no_ledger(self.shown_url, dataset, self.shown_url)
        self.was = found
        if found > SCHEMA:
            raise LedgerError(
                f"ledger {self.shown_url}: its tables are of version {found}; this dpspark knows up to {SCHEMA}.\n"
                "Use the newer dpspark that wrote them."
            )

    @property
    def shown_url(self) -> str:
        """The URL without its password, and without options, which may hold one too."""
        return self._engine.url.set(query={}).render_as_string(hide_password=True)

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Begin a transaction with one writer at a time, from the first read on: no two can spend the same balance."""
        with self._begin(self._engine) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Begin a transaction that sees the ledger at one moment; it waits for no writer."""
        with self._begin(self._engine.execution_options(reading=True)) as connection:
            yield connection

    @contextmanager
    def _begin(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        try:
            with engine.begin() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            # The texts of drivers may hold the URL: only the kind of the error is shown.
            raise DpsparkError(
                f"ledger {self.shown_url}: cannot be used ({type(error.__cause__ or error).__name__}).\n"
                "Check that it can be reached and written."
            ) from None


def bring_up_to_date(connection: sa.Connection) -> int:
    """Make or migrate the tables, within the caller's transaction. Return the version found; 0 if there were none."""
    found = _version(connection)  # again: another process may have been first
    if found in (0, 1):
        if found == 1:
            for table, columns in _ADDED.items():
                for column in columns:
                    kind = metadata.tables[table].c[column].type.compile(connection.dialect)
                    connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        metadata.create_all(connection)
        _forbid(connection)
        connection.execute(version_table.insert().values(version=SCHEMA))
    return found


def _version(connection: sa.Connection) -> int:
    names = set(sa.inspect(connection).get_table_names())
    if version_table.name in names:
        return int(connection.scalar(sa.select(version_table.c.version)) or 0)
    return 1 if {"grants", "releases"} <= names else 0


def _forbid(connection: sa.Connection) -> None:
    """Have the database itself refuse to change what was written."""
    postgres = connection.dialect.name == "postgresql"
    if postgres:
        connection.exec_driver_sql(
            "CREATE OR REPLACE FUNCTION dpspark_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$"
        )
    for table, acts in _FORBIDDEN.items():
        for act in (*acts, "TRUNCATE") if postgres else acts:
            name = f"{table}_no_{act.lower()}"
            body = (
                f"FOR EACH {'STATEMENT' if act == 'TRUNCATE' else 'ROW'} EXECUTE FUNCTION dpspark_append_only()"
                if postgres
                else "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
            )
            connection.exec_driver_sql(f"CREATE TRIGGER {name} BEFORE {act} ON {table} {body}")


def _engine(url: str, create: bool, dataset: str) -> sa.Engine:
    try:
        parsed = sa.engine.make_url(url)
        backend = parsed.get_backend_name()
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ValueError):
        backend = ""
    try:
        if backend in ("postgresql", "postgres"):
            return _postgres(parsed)
        if backend == "sqlite" and parsed.drivername in ("sqlite", "sqlite+pysqlite"):
            return _sqlite(parsed, create, dataset)
    except (sa.exc.ArgumentError, ValueError):  # an option that its driver does not take
        pass
    raise ConfError(
        "ledger.url: expected a database URL such as sqlite:///ledger.db or postgresql://user@host/database"
    )


def _postgres(url: sa.URL) -> sa.Engine:
    if "+" not in url.drivername:
        url = url.set(drivername="postgresql+psycopg")
    try:
        # Each statement after the lock must see what others committed before it, whatever the server's default is.
        engine = sa.create_engine(
            url, isolation_level="READ COMMITTED", poolclass=sa.NullPool, connect_args={"connect_timeout": 20}
        )
    except (ImportError, sa.exc.NoSuchModuleError):
        raise ConfError(
            "ledger.url: PostgreSQL needs the package psycopg. Run: pip install 'dpspark[postgres]'"
        ) from None

    @sa.event.listens_for(engine, "begin")
    def _(connection: Any) -> None:
        if connection.get_execution_options().get("reading"):
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        else:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")

    return engine


def _sqlite(url: sa.URL, create: bool, dataset: str) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": WAIT_SECONDS})
    if url.database and url.database != ":memory:":
        _make_private(url.database, create, str(url), dataset)

    @sa.event.listens_for(engine, "connect")
    def _(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = FULL")

    @sa.event.listens_for(engine, "begin")
    def _(connection: Any) -> None:
        reading = connection.get_execution_options().get("reading")
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def _no_ledger(where: str, dataset: str, shown_url: str) -> LedgerError:
    return LedgerError(
        f"ledger {where}: there is none, so no budget was granted.\n"
        f"Run: dpspark ledger grant {dataset} --epsilon E --delta D --url {shown_url}"
    )


def _make_private(path: str, create: bool, shown_url: str, dataset: str) -> None:
    """Make the file readable and writable by its owner alone."""
    if not create and not os.path.exists(path):
        raise _no_ledger(repr(os.path.abspath(path)), dataset, shown_url)
    try:
        opened = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            found = os.fstat(opened)
            if stat.S_IMODE(found.st_mode) & 0o077 and found.st_uid == os.geteuid():
                os.fchmod(opened, 0o600)
        finally:
            os.close(opened)
    except OSError as error:
        raise DpsparkError(f"ledger {path!r}: {error.strerror}. Check the path and its permissions.") from None
