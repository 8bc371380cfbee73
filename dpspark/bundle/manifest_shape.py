"""The parts of a manifest that readers go by, with their types: a stranger may have written it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from dpspark.mechanisms.registry import mechanisms_of, regression_named
from dpspark.spec.values import PlainName

Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Size = Annotated[Finite, Field(ge=0)]
Above = Annotated[Finite, Field(gt=0)]
Std = Annotated[Above, Field(le=1e60)]  # beyond what can be drawn
Bound = Annotated[Finite, Field(ge=-1e60, le=1e60)]
KeyType = Literal["string", "bool", "int8", "int16", "int32", "int64", "float", "double"]
Table = Annotated[StrictStr, Field(pattern=r"^[a-z_]{1,40}\.parquet$")]  # a plain name, in the release's own directory


class Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class Named(Shape):
    """Which release this is."""

    name: PlainName
    """The conf's."""
    version: PlainName
    """The conf's."""
    kind: Literal["gram", "regression", "theil_sen", "quantiles"]
    """What was released."""
    response: StrictStr | None = None
    """Of a regression."""
    x: StrictStr | None = None
    """Of lines."""
    y: StrictStr | None = None
    """Of lines."""
    group_types: dict[StrictStr, KeyType] | None = None
    """Of the columns of the groups: those that they have in the source. Without it they are text."""
    groups_sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Of the released keys as text. It is the spec's, unless the list had them written in another way, such as 3.0 for 3."""


class Spending(Shape):
    """One stage; together they are the budget, by basic composition. Beside it stand the numbers of its noise."""

    stage: StrictStr
    """What was paid for: the release itself, bounds, diagnostics, ..."""


class Privacy(Shape):
    """The guarantee in numbers."""

    epsilon: Above | None
    """Of the whole release; none if the budget is in rho."""
    delta: Annotated[Size, Field(lt=1)] | None
    """Of the whole release; 0 is pure differential privacy."""
    rho: Above | None
    """In zCDP; none if the budget is in epsilon."""
    neighbours: Literal["add_remove", "replace_one"]
    """Which change of one record is hidden."""
    spending: list[Spending]
    """What each stage took of the budget."""
    judged_by: Literal["files", "plan", "statement"] | None = None
    """Who says that a row of the source is one record; nobody asked before 0.3."""

    @model_validator(mode="after")
    def _one_currency(self) -> Privacy:
        if (self.rho is None) == (self.epsilon is None):
            raise ValueError("expected epsilon or rho")
        return self


class Additive(Shape):
    """Noise that was added to the matrix, in units of the scaled matrix."""

    model: Literal["additive"]
    """How the noise enters."""
    diagonal_std: Std
    """Its standard deviation on the diagonal."""
    off_diagonal_std: Std
    """Its standard deviation elsewhere."""
    degrees: Size
    """Degrees of freedom, of a Wishart matrix."""
    law: Literal["gaussian", "laplace", "wishart"]
    """Its distribution."""
    count_is_exact: StrictBool
    """The number of rows is public, and has no noise."""


class Sampling(Shape):
    """The matrix was drawn, not added to: noise grows with the data."""

    model: Literal["sampling"]
    """How the noise enters."""
    degrees: Above
    """Degrees of freedom of the draw."""
    ridge: Size
    """What was added to the diagonal before, and is taken off again."""
    count_is_exact: StrictBool
    """The number of rows is public, and has no noise."""


class OfStatistics(Shape):
    """Noise of one regression's sums, in units of the scaled columns."""

    diagonal_std: Std
    """Of Σ x², each regressor with itself."""
    off_diagonal_std: Std
    """Of Σ x x′, two regressors."""
    cross_std: Std
    """Of Σ x y."""
    response_std: Std | None
    """Of Σ y²."""
    least_eigenvalue_std: Std | None
    """Of the least eigenvalue, where a mechanism releases it."""
    count_is_exact: StrictBool
    """The number of rows is public, and has no noise."""


class Rule(Shape):
    """When a ridge is added, and how much."""

    kind: Literal["none", "weak", "missing"]
    """Never, where the noise is large, or to make up for a small eigenvalue."""
    amount: Size
    """The ridge, in units of the scaled matrix."""
    caution: Size
    """What is taken off a released eigenvalue first."""


class Mechanism(Shape):
    """How the noise was made: what a reader needs to recompute the guarantee and the intervals. Each mechanism adds its own."""

    name: StrictStr
    """The conf's, or the default."""
    noise: Additive | Sampling | OfStatistics | Above | None = None
    """Its size."""
    kernel: StrictStr | None = None
    """Of lines: the mechanism that `auto` picked, or the conf's."""
    ridge: Rule | Size | None = None
    """Of a regression."""
    radius: Above | None = None
    """Of `objective`."""
    sigma: Std | None = None
    """Standard deviation of Gaussian noise, in steps of the grid or in units of the mechanism."""
    scale: Std | None = None
    """Of Laplace or Wishart noise."""
    degrees_of_freedom: Annotated[StrictInt, Field(ge=1)] | None = None
    """Of a Wishart law."""
    repair: Literal["none", "ridge", "eigen", "nearest_psd", "safe"] = "none"
    """How readers repair the matrix, unless told otherwise."""


class Column(Shape):
    """A column and its bounds, as they were used."""

    name: StrictStr
    """As in the source, or computed."""
    lower: Bound | None = None
    """The least value."""
    upper: Bound | None = None
    """The largest value."""
    categories: Annotated[list[StrictStr | StrictInt | StrictBool], Field(min_length=1)] | None = None
    """Instead of bounds."""

    @model_validator(mode="after")
    def _bounded(self) -> Column:
        if self.categories is None and not (
            self.lower is not None and self.upper is not None and self.upper / 2 - self.lower / 2 >= 1e-60
        ):
            raise ValueError("expected bounds or categories")
        return self


class RowNorm(Shape):
    """As in the conf."""

    mode: Literal["cap", "project"]
    """As in the conf."""
    radius: Above
    """As in the conf."""
    include_response: StrictBool
    """As in the conf."""


class SpecRelease(Shape):
    """Of the spec, what readers go by."""

    group_by: Annotated[list[StrictStr], Field(min_length=1)] | None = None
    """The columns of the groups, which the tables begin with."""


class Spec(Shape):
    """The conf as it was understood, without ledger and output; of a query, its hash."""

    release: SpecRelease
    """The conf's."""


class Ledger(Shape):
    """Where it was charged."""

    dataset: StrictStr
    """Whose budget it was."""
    id: StrictStr
    """The entry of the ledger."""


class ReadIn(Shape):
    """How the source was read."""

    timezone: StrictStr | None = None
    """Of timestamps in the conf's expressions. Null for a DataFrame, if the conf has none: its own were made elsewhere."""


class File(Shape):
    """A table of the release."""

    sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
    """Of its bytes: `dpspark verify` and every reader compare it."""


class Manifest(Shape):
    """What a manifest must have to be read at all; the guarantee has its own reader, in `certificate`."""

    format: StrictInt
    """Of the bundle: 1."""
    release: Named
    """Which release this is."""
    source: ReadIn | None = None
    """How the source was read; not said before 0.3."""
    guarantee: StrictStr
    """The guarantee in a sentence."""
    privacy: Privacy
    """The guarantee in numbers."""
    mechanism: Mechanism
    """How the noise was made."""
    columns: Annotated[list[Column], Field(min_length=1)]
    """The columns, with the bounds that were used."""
    terms: list[StrictStr]
    """Rows and columns of the matrix: the intercept, numbers, and each category as `sex[F]`."""
    grid_bits: Annotated[StrictInt, Field(ge=0, le=26)]
    """Scaled values were rounded to steps of 2^-bits before they were added up."""
    row_norm: RowNorm | None
    """The bound on the norm of a row, if there is one."""
    spec: Spec
    """The conf as it was understood."""
    spec_hash: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
    """Of the spec; the ledger has it too."""
    ledger: Ledger
    """Where it was charged."""
    files: dict[Table, File]
    """Every table, with its hash."""

    @model_validator(mode="after")
    def _complete(self) -> Manifest:
        named, mechanism = self.release, self.mechanism
        if named.kind == "theil_sen" and None in (named.x, named.y, mechanism.kernel):
            raise ValueError("expected x, y and a kernel")
        if named.kind == "regression":
            if mechanism.name not in {known.name for known in mechanisms_of("regression")}:
                raise ValueError("expected a mechanism of regressions that is known here")
            regression_named(mechanism.name).check_shape(mechanism)
        return self
