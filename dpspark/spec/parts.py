"""The parts of a spec that say where rows come from, whom they are about, and where the release goes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from dpspark.bundle.names import PlainName
from dpspark.bundle.table_address import TableAddress, parse_tables
from dpspark.core.domain import PersonKey
from dpspark.core.suggest import did_you_mean
from dpspark.errors import ConfError
from dpspark.privacy.budget import Budget
from dpspark.source.stores import as_s3, problem_with
from dpspark.spec.values import DeltaOrNone, Number, Part, Positive, Text, Version, WholeNumber

UTC = "UTC"
MOST_ROWS = 10_000  # of one person: the noise grows with it
OFFSET = re.compile(r"[+-](0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00")


def check_timezone(name: str) -> None:
    """Refuse what is not the same zone on every machine. Regions have a slash: what short names mean differs."""
    if name == UTC or OFFSET.fullmatch(name):
        return
    from zoneinfo import available_timezones

    known = {zone for zone in available_timezones() if "/" in zone}
    if name not in known:
        raise ValueError(
            f"timezone={name!r}; expected UTC, a region such as Europe/Berlin, or an offset such as +02:00."
            f"{did_you_mean(name, known)}"
        )


class Source(Part):
    """Exactly one of parquet, delta, iceberg, table, sql and dataframe."""

    parquet: Text | None = None
    """A file, a directory or a glob, on a disk or in a store (`s3://…`). Directories named `key=value` are columns too."""
    delta: Text | None = None
    """A Delta table whose files the tasks read, without its jars: a directory, on a disk or in a store (`s3://…`), or a table
    of Spark's catalog, e.g. `db.people` (`./db.people` is a directory). Needs `dpspark[lake]`."""
    version: Version | None = None
    """The version of the Delta table; by default the newest. The manifest has the one that was read."""
    iceberg: Text | None = None
    """An Iceberg table whose files the tasks read, without its jars: `catalog.db.people`, with the catalog in pyiceberg's own
    settings, or the path of a `metadata.json`. Needs `dpspark[lake]`."""
    snapshot: Version | None = None
    """The id of the Iceberg table's snapshot; by default the newest. The manifest has the one that was read."""
    table: Text | None = None
    """A table of Spark's catalog, e.g. `db.people`."""
    sql: Text | None = None
    """A query in Spark SQL. Releases, ledger and messages have its hash at most."""
    dataframe: Literal[True] | None = None
    """A DataFrame is passed from Python; for `rows_per_record`."""
    reader: Literal["auto", "spark"] = "auto"
    """Who reads the files of `parquet` and `table`: `auto`, the tasks themselves wherever they can; `spark`, Spark's own scan,
    e.g. where a catalog has row filters or column masks, which a direct read would not see."""
    timezone: Text | None = None
    """The time zone of expressions on timestamps: `UTC` (the default), a region such as `Europe/Berlin`, or an offset such as
    `+02:00`. The machine's own does not matter."""
    rows_per_record: WholeNumber | None = None
    """The operator's statement: how many of the rows that are read one record can change. Where Spark's plan does not show
    that a row is one record (a join, an aggregate, a window, a UDF, Spark Connect), there is no release without it; with it,
    every change of so many rows is protected against, which takes more noise."""

    @property
    def of_files(self) -> bool:
        """Whether a row of the source is a row of a file: no plan of Spark's stands between."""
        return self.parquet is not None or self.delta is not None or self.iceberg is not None

    @model_validator(mode="after")
    def _one_of(self) -> Source:
        given = (self.parquet, self.delta, self.iceberg, self.table, self.sql, self.dataframe)
        if sum(value is not None for value in given) != 1:
            raise ValueError(
                "give exactly one of parquet, delta, iceberg, table and sql (or dataframe: true, to pass one from Python)."
            )
        self._check_options()
        if self.timezone is not None:
            check_timezone(self.timezone)
        for key in ("parquet", "delta", "iceberg"):
            address = getattr(self, key)
            problem = None if address is None else problem_with(address)
            if problem is not None:
                raise ValueError(f"{key}: {problem}")
        if self.sql is not None:
            from dpspark.spec.expressions import check_query  # a SQL parser: slow to import, and few confs need it

            try:
                reading = check_query(self.sql)
            except ConfError as error:
                raise ValueError(str(error).removeprefix("source.sql: ")) from None
            if reading == "across" and self.rows_per_record is None:
                raise ValueError(
                    "the query joins, aggregates or looks across rows, so say how many of its rows one record can change.\n"
                    "Add source.rows_per_record."
                )
        return self

    def _check_options(self) -> None:
        """Refuse options that are not of the source that is given."""
        if self.version is not None and self.delta is None:
            raise ValueError("version is for source.delta. Leave it out; an Iceberg table has a snapshot.")
        if self.snapshot is not None and self.iceberg is None:
            raise ValueError("snapshot is for source.iceberg. Leave it out; a Delta table has a version.")
        if self.table is not None and "/" in self.table and "`" not in self.table:
            raise ValueError(
                f"table={self.table!r} is a path, and a table has a name: db.people.\n"
                "Use source.parquet, delta or iceberg for a path; or put a name with a slash between backquotes."
            )
        if self.reader == "spark" and (self.delta is not None or self.iceberg is not None):
            raise ValueError(
                "reader=spark beside delta or iceberg, whose files the tasks read.\n"
                "Use source.table for a table that Spark is to read, with its jars and catalog."
            )
        if self.reader == "spark" and (self.sql is not None or self.dataframe is not None):
            raise ValueError("reader is for parquet and table: a query or a DataFrame is Spark's anyway. Leave it out.")


class RowNormBound(Part):
    """The l2 norm of the scaled row, without the intercept."""

    mode: Literal["cap", "project"]
    """`cap` shrinks longer rows; `project` moves every row to that norm."""
    radius: Annotated[Number, Field(ge=0.01, le=1000)]
    """The norm, in half-widths of the bounds. √(columns/3) is that of evenly spread values."""
    include_response: StrictBool = False
    """Kind regression: shrink intercept, regressors and response together, which is weighted least squares."""


class PrivacyUnit(Part):
    """Who is protected: a person, whose rows have one value in `column`, and of whom at most `max_rows` rows are kept."""

    column: Text
    """Who a row is about."""
    max_rows: Annotated[StrictInt, Field(ge=1, le=MOST_ROWS)]
    """How many rows of one person are kept, at random. Noise grows with it."""
    nulls: Literal["drop", "own"] = "drop"
    """Rows without an id are dropped, or each is a person of its own. Dropping is the default: where one person may have
    several such rows, nobody can tell, and each would be protected by itself alone."""

    @property
    def key(self) -> PersonKey:
        return PersonKey(self.column)


class Privacy(Part):
    """Epsilon, with or without delta; or rho alone."""

    epsilon: Positive | None = None
    """Any number above 0."""
    delta: DeltaOrNone = None
    """Far below one in the number of people, e.g. `1e-9`; 0 or nothing is pure differential privacy."""
    rho: Positive | None = None
    """A budget in zCDP instead."""
    neighbours: Literal["add_remove", "replace_one"] = "add_remove"
    """`add_remove` hides whether a record is there; `replace_one` hides its values, and publishes the number of rows."""
    fixed: tuple[Text, ...] | None = None
    """Under `replace_one`: columns that a replaced record keeps. Group columns that are not here may change: more noise."""
    unit: PrivacyUnit | None = None
    """Protect a person with all rows, not a row."""

    @model_validator(mode="after")
    def _one_currency(self) -> Privacy:
        if (self.rho is None) == (self.epsilon is None) or (self.rho is not None and self.delta is not None):
            raise ValueError("give epsilon and delta, or rho alone.")
        if self.unit is not None and self.fixed is not None:
            raise ValueError(
                "fixed is for replaced rows: with a unit a person's rows may be in several groups, and others in their place."
                "\nLeave fixed out."
            )
        return self

    @property
    def protected(self) -> str | None:
        """The column that says who a row is about; None: each row is somebody else."""
        return self.unit.column if self.unit is not None else None

    @property
    def budget(self) -> Budget:
        """A budget without delta is pure: delta is 0."""
        if self.rho is not None:
            return Budget(rho=self.rho)
        return Budget(self.epsilon, self.delta or 0.0)


class LedgerPlace(Part):
    """SQLite for one machine, PostgreSQL for a team."""

    url: Text | None = None
    """E.g. `sqlite:///ledger.db`; else `--url` or `$DPSPARK_LEDGER`."""
    dataset: PlainName
    """The name under which the steward granted a budget: people whose releases add up."""


class Output(Part):
    """Relative paths start at the working directory."""

    path: Text = "releases"
    """A directory, local or `s3://…`. The release goes to `<path>/<name>/<version>/`."""
    tables: Text | None = None
    """Also load the release into tables, once it is published: `catalog.schema` of Spark, `delta:DIRECTORY` or
    `iceberg:catalog.namespace`. A release that was published before is loaded when it is run again."""

    @property
    def table_address(self) -> TableAddress | None:
        return None if self.tables is None else parse_tables(self.tables)

    @model_validator(mode="after")
    def _goes_down(self) -> Output:
        try:
            self.table_address  # noqa: B018
        except ValueError as error:
            raise ValueError(f"tables: {error}") from None
        problem = problem_with(as_s3(self.path))
        if problem is not None:
            raise ValueError(f"path: {problem}")
        if ".." in Path(self.path).parts:
            raise ValueError("path: '..' is not for a conf. Write the whole path, or use --out.")
        return self
