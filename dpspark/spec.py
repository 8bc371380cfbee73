"""What a release is: the conf file as frozen, validated values. An unknown key is refused."""

from __future__ import annotations

import hashlib
import json
import math
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)

from dpspark.conf import explain, override, read_conf
from dpspark.data.domain import FINEST_BITS, INTERCEPT, Categorical, Domain, Numeric, RowNorm
from dpspark.errors import ConfError
from dpspark.expressions import check_query, check_row_local, query_filters
from dpspark.privacy.budget import Budget


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"got {value!r}; expected a number.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("expected a number that fits a double.") from None


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"got {value}; expected a finite number.")
    return value


def _positive(value: float) -> float:
    if not value > 0:
        raise ValueError(f"got {value:g}; expected a number > 0.")
    return value


def _below_one(value: float) -> float:
    if not value < 1:
        raise ValueError(f"got {value:g}; expected a number between 0 and 1, such as 1e-9.")
    return value


def _share(value: float) -> float:
    if not value < 1:
        raise ValueError(f"got {value:g}; expected a share of the budget between 0 and 1, such as 0.1.")
    return value


def plain_name(value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError(f"got {value!r}; expected text. Put it in quotes.")
    allowed = all(c.isalnum() or c in "._-" for c in text)
    if not (allowed and 0 < len(text) <= 100 and text[0].isalnum()):
        raise ValueError(
            f"got {text[:60]!r}; expected letters, digits, '.', '_' or '-', starting with a letter or digit."
        )
    return text


Number = Annotated[float, BeforeValidator(_number), AfterValidator(_finite)]
Positive = Annotated[Number, AfterValidator(_positive)]
Delta = Annotated[Positive, AfterValidator(_below_one)]
PlainName = Annotated[str, BeforeValidator(plain_name)]
Text = Annotated[StrictStr, Field(min_length=1)]
WholeNumber = Annotated[StrictInt, Field(ge=1)]


# The mechanisms of each kind of release, the default first; then the options that each takes.
MECHANISMS = {
    "gram": ("gaussian", "laplace", "wishart", "johnson_lindenstrauss", "inverse_wishart"),
    "regression": ("gram_ridge", "adassp", "ssp", "objective", "gradient_descent"),
}
OPTIONS: dict[str, tuple[str, ...]] = {
    "gaussian": ("repair",),
    "laplace": ("repair",),
    "wishart": ("calibration", "degrees_of_freedom", "scale", "repair"),
    "johnson_lindenstrauss": ("calibration", "rows", "adaptive", "repair"),
    "inverse_wishart": ("calibration", "degrees_of_freedom", "adaptive", "repair"),
    "gram_ridge": (),
    "adassp": ("constants",),
    "ssp": (),
    "objective": ("calibration", "radius"),
    "gradient_descent": ("steps", "clip"),
}
ALL_OPTIONS = sorted({option for options in OPTIONS.values() for option in options})


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(_Part):
    parquet: Text | None = None
    table: Text | None = None
    sql: Text | None = None
    rows_per_record: WholeNumber | None = None

    @model_validator(mode="after")
    def _one_of(self) -> Source:
        if sum(value is not None for value in (self.parquet, self.table, self.sql)) != 1:
            raise ValueError("give exactly one of parquet, table and sql.")
        if self.rows_per_record is not None and self.sql is None:
            raise ValueError("rows_per_record goes with sql only.")
        if self.sql is not None:
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


class ColumnBounds(_Part):
    lower: Number | None = None
    upper: Number | None = None
    categories: tuple[StrictStr | StrictInt | StrictBool, ...] | None = None

    @model_validator(mode="after")
    def _bounds_or_categories(self) -> ColumnBounds:
        if self.categories is not None:
            self._check_categories()
            return self
        if self.lower is None or self.upper is None:
            raise ValueError("give lower and upper, or categories: without public bounds there is no release.")
        if not self.lower < self.upper:
            raise ValueError(f"lower={self.lower:g}, upper={self.upper:g}; expected lower < upper.")
        half = self.upper / 2 - self.lower / 2
        if not (half > 0 and math.isfinite(2.0**FINEST_BITS / half)):
            raise ValueError(f"lower={self.lower:g}, upper={self.upper:g}; expected bounds further apart.")
        return self

    def _check_categories(self) -> None:
        assert self.categories is not None
        if self.lower is not None or self.upper is not None:
            raise ValueError("give lower and upper, or categories, not both.")
        if not self.categories:
            raise ValueError("categories is empty; expected at least one.")
        if len({type(category) for category in self.categories}) > 1:
            raise ValueError("categories mix text, whole numbers and true/false; expected one kind. Quote text.")
        if len(set(self.categories)) < len(self.categories):
            raise ValueError("categories has one value twice; expected distinct ones.")

    def column(self, name: str) -> Numeric | Categorical:
        if self.categories is not None:
            return Categorical(name, self.categories)
        assert self.lower is not None
        assert self.upper is not None
        return Numeric(name, self.lower, self.upper)


class RowNormBound(_Part):
    mode: Literal["cap", "project"]
    radius: Annotated[Number, Field(ge=0.01, le=1000)]


class Privacy(_Part):
    epsilon: Positive | None = None
    delta: Delta | None = None
    rho: Positive | None = None
    neighbours: Literal["add_remove", "replace_one"] = "add_remove"

    @model_validator(mode="after")
    def _one_currency(self) -> Privacy:
        if (self.rho is None) == (self.epsilon is None) or (self.rho is not None and self.delta is not None):
            raise ValueError("give epsilon and delta, or rho alone.")
        return self

    @property
    def budget(self) -> Budget:
        """A budget without delta is pure: delta is 0."""
        if self.rho is not None:
            return Budget(rho=self.rho)
        return Budget(self.epsilon, self.delta or 0.0)


class ReleaseName(_Part):
    name: PlainName
    version: PlainName
    kind: Literal["gram", "regression"] = "gram"
    response: Text | None = None
    regressors: tuple[Text, ...] | None = None
    expected_rows: WholeNumber | None = None

    @model_validator(mode="after")
    def _own_keys(self) -> ReleaseName:
        if self.kind == "regression" and self.response is None:
            raise ValueError("kind regression needs release.response, the column to explain.")
        if self.kind != "regression" and (self.response is not None or self.regressors is not None):
            raise ValueError(f"response and regressors are for kind regression; this one is of kind {self.kind}.")
        return self


class Mechanism(_Part):
    name: Text | None = None
    calibration: Literal["exact", "theorem"] | None = None
    degrees_of_freedom: WholeNumber | None = None
    scale: Positive | None = None
    rows: WholeNumber | None = None
    constants: Literal["joint", "wang", "kalaja"] | None = None
    radius: Positive | None = None
    steps: Annotated[StrictInt, Field(ge=1, le=1000)] | None = None
    clip: Positive | None = None
    repair: Literal["none", "ridge", "eigen", "nearest_psd", "safe"] | None = None
    adaptive: Annotated[Positive, AfterValidator(_share)] | None = None

    def check(self, kind: str) -> None:
        """The name belongs to this kind of release, and the options to the name."""
        name = self.name_for(kind)
        if name not in MECHANISMS[kind]:
            raise ValueError(f"mechanism.name={name!r}; for kind {kind} expected one of {', '.join(MECHANISMS[kind])}.")
        for option in ALL_OPTIONS:
            if getattr(self, option) is not None and option not in OPTIONS[name]:
                raise ValueError(
                    f"mechanism: {option} is not an option of {name}; it has {', '.join(OPTIONS[name]) or 'none'}."
                )

        if self.repair == "safe" and name != "wishart":
            raise ValueError(f"mechanism.repair='safe' is for wishart; for {name} use ridge, eigen or nearest_psd.")

    def name_for(self, kind: str) -> str:
        return self.name or MECHANISMS[kind][0]


class LedgerPlace(_Part):
    url: Text | None = None
    dataset: PlainName


class Output(_Part):
    path: Text = "releases"


class Spec(_Part):
    """One release, complete. Its `hash` covers all that its numbers depend on, and not where they are put."""

    source: Source | None = None  # None: a DataFrame is passed
    columns: dict[Text, ColumnBounds] = Field(min_length=1)
    where: Text | None = None
    nulls: Literal["drop_row", "midpoint"] | None = None
    row_norm: RowNormBound | None = None
    privacy: Privacy
    release: ReleaseName
    mechanism: Mechanism = Mechanism()
    ledger: LedgerPlace
    output: Output = Output()

    @model_validator(mode="after")
    def _fits_together(self) -> Spec:
        if self.nulls == "drop_row" and self.privacy.neighbours == "replace_one":
            raise ValueError(
                "nulls=drop_row with neighbours=replace_one: dropping rows makes their number private.\n"
                "Use nulls: midpoint, or neighbours: add_remove."
            )
        self.mechanism.check(self.release.kind)
        self._check_currency()
        if self.where is not None:
            check_row_local(self.where, "where")
        terms = self.domain.terms
        for term in terms:
            if terms.count(term) > 1 or (term == INTERCEPT and terms.index(term) > 0):
                raise ValueError(f"columns: two terms of the matrix would be called {term!r}. Rename a column.")
        return self

    def _check_currency(self) -> None:
        name, privacy = self.mechanism_name, self.privacy
        if name == "laplace" and (privacy.epsilon is None or privacy.delta is not None):
            raise ValueError("mechanism laplace is pure: give privacy.epsilon alone, without delta or rho.")
        if name == "gaussian" and privacy.rho is None and privacy.delta is None:
            raise ValueError("privacy.delta: missing. Give epsilon and delta, or rho alone; or use mechanism laplace.")
        if name not in ("laplace", "gaussian") and (privacy.rho is not None or privacy.delta is None):
            raise ValueError(f"mechanism {name} needs privacy.epsilon and privacy.delta.")

    @property
    def mechanism_name(self) -> str:
        return self.mechanism.name_for(self.release.kind)

    @property
    def null_policy(self) -> Literal["drop_row", "midpoint"]:
        if self.nulls is not None:
            return self.nulls
        return "midpoint" if self.privacy.neighbours == "replace_one" else "drop_row"

    @property
    def domain(self) -> Domain:
        """The bounded rows, on the finest grid; the mechanism may choose a coarser one."""
        columns = tuple(bounds.column(name) for name, bounds in self.columns.items())
        norm = RowNorm(self.row_norm.mode, self.row_norm.radius) if self.row_norm else None
        domain = Domain(columns, self.null_policy, norm)
        return domain.with_bits(FINEST_BITS)

    @property
    def rows_per_record(self) -> int:
        return (self.source.rows_per_record or 1) if self.source else 1

    @property
    def changed_rows(self) -> Literal["added", "replaced", "either"]:
        """What one record does to the rows that are read."""
        if self.source is not None and self.source.sql is not None and self.source.rows_per_record is not None:
            # A joined or aggregated row may change where its record is only added: protect against all of it.
            return "either"
        if self.privacy.neighbours == "add_remove":
            return "added"
        filtered = self.where is not None or (self.source and self.source.sql and query_filters(self.source.sql))
        return "either" if filtered else "replaced"

    @property
    def hash(self) -> str:
        return hashlib.sha256(json.dumps(self.public(), sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    def public(self) -> dict[str, Any]:
        """The hashed part of the spec, for the manifest."""
        content = self.model_dump(mode="json", exclude={"ledger", "output"}, exclude_none=True)
        content["nulls"] = self.null_policy
        content["mechanism"]["name"] = self.mechanism_name
        if self.source is None:
            content["source"] = {"dataframe": True}
        return content


def load_spec(conf: str | Path | dict[str, Any], overrides: tuple[str, ...] = ()) -> Spec:
    """A spec from a conf file or a dictionary."""
    content = override(deepcopy(conf), overrides) if isinstance(conf, dict) else read_conf(conf, overrides)
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        raise explain(error) from None
