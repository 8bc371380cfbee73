"""The parts of a spec that say where rows come from, whom they are about, and where the release goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator

from dpspark.data.stores import problem_with
from dpspark.errors import ConfError
from dpspark.fields import DeltaOrNone, Number, Part, PlainName, Positive, Text, WholeNumber
from dpspark.privacy.budget import Budget
from dpspark.spec_rows import PrivacyUnit


class Source(Part):
    parquet: Text | None = None
    table: Text | None = None
    sql: Text | None = None
    dataframe: Literal[True] | None = None  # passed from Python
    rows_per_record: WholeNumber | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Source:
        if sum(value is not None for value in (self.parquet, self.table, self.sql, self.dataframe)) != 1:
            raise ValueError(
                "give exactly one of parquet, table and sql (or dataframe: true, to pass one from Python)."
            )
        if self.rows_per_record is not None and self.sql is None and self.dataframe is None:
            raise ValueError("rows_per_record goes with sql or dataframe only.")
        problem = None if self.parquet is None else problem_with(self.parquet)
        if problem is not None:
            raise ValueError(f"parquet: {problem}")
        if self.sql is not None:
            from dpspark.expressions import check_query  # a SQL parser: slow to import, and few confs need it

            try:
                row_local = check_query(self.sql)
            except ConfError as error:
                raise ValueError(str(error).removeprefix("source.sql: ")) from None
            if not row_local and self.rows_per_record is None:
                raise ValueError(
                    "the query joins, aggregates or nests, so say how many of its rows one record can change.\n"
                    "Add source.rows_per_record."
                )
        return self


class RowNormBound(Part):
    mode: Literal["cap", "project"]
    radius: Annotated[Number, Field(ge=0.01, le=1000)]
    include_response: StrictBool = False


class Privacy(Part):
    """`fixed` are columns that a replaced record keeps: group keys move otherwise."""

    epsilon: Positive | None = None
    delta: DeltaOrNone = None
    rho: Positive | None = None
    neighbours: Literal["add_remove", "replace_one"] = "add_remove"
    fixed: tuple[Text, ...] | None = None
    unit: PrivacyUnit | None = None

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
    url: Text | None = None
    dataset: PlainName


class Output(Part):
    path: Text = "releases"

    @model_validator(mode="after")
    def _goes_down(self) -> Output:
        problem = problem_with(self.path)
        if problem is not None:
            raise ValueError(f"path: {problem}")
        if ".." in Path(self.path).parts:
            raise ValueError("path: '..' is not for a conf. Write the whole path, or use --out.")
        return self
