"""The parts of a manifest that readers go by, with their types: a stranger may have written it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from dpspark.bundle.names import PlainName
from dpspark.mechanisms.registry import mechanisms_of, regression_named

Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Size = Annotated[Finite, Field(ge=0)]
Above = Annotated[Finite, Field(gt=0)]
Std = Annotated[Above, Field(le=1e60)]  # beyond, neither noise can be drawn nor squares be computed
Steps = Annotated[StrictInt, Field(ge=1, le=1 << 62)]
Bound = Annotated[Finite, Field(ge=-1e60, le=1e60)]
KeyType = Literal["string", "bool", "int8", "int16", "int32", "int64", "float", "double"]
Table = Annotated[StrictStr, Field(pattern=r"^[a-z_]{1,40}\.parquet$")]  # a plain name, in the release's own directory


MOST_PARTS = 10_000  # of a pool


class Shape(BaseModel):
    """A part of a manifest. Keys that are not known here are left alone."""

    model_config = ConfigDict(extra="allow")


class Named(Shape):
    """The identity of the release."""

    name: PlainName
    """The name in the conf."""
    version: PlainName
    """The version in the conf."""
    kind: Literal["gram", "regression", "theil_sen", "quantiles"]
    """What was released."""
    response: StrictStr | None = None
    """The response of a regression."""
    x: StrictStr | None = None
    """The column x of lines."""
    y: StrictStr | None = None
    """The column y of lines."""
    group_types: dict[StrictStr, KeyType] | None = None
    """The types of the groups' columns, as in the source. Without it they are text."""
    groups_sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """The hash of the released keys as text. It is the spec's, unless the list wrote them in another way, such as 3.0 for 3."""
    level_types: dict[StrictStr, KeyType] | None = None
    """The types of the columns of the levels above the groups, in a release with a hierarchy."""
    levels_sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """The hash of the keys of all levels as text, as `groups_sha256` is of the groups'."""


class Spending(Shape):
    """One paid part; together they are the budget, by basic composition. Beside it stand the numbers of its noise."""

    stage: StrictStr
    """What was paid for: the release itself, bounds, diagnostics, ..."""


class Privacy(Shape):
    """The guarantee in numbers."""

    epsilon: Above | None
    """The epsilon of the whole release; none if the budget is in rho."""
    delta: Annotated[Size, Field(lt=1)] | None
    """The delta of the whole release; 0 is pure differential privacy."""
    rho: Above | None
    """The rho of the whole release, in zCDP; none if the budget is in epsilon."""
    neighbours: Literal["add_remove", "replace_one"]
    """Which change of one record is hidden."""
    spending: list[Spending]
    """What each paid part took of the budget."""
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
    """The degrees of freedom of a Wishart matrix."""
    law: Literal["gaussian", "laplace", "wishart", "sum"]
    """Its distribution."""
    count_is_exact: StrictBool
    """The number of rows is public, and has no noise."""
    parts: Annotated[list[Additive], Field(max_length=MOST_PARTS)] | None = None
    """The noises that it is the sum of: those of a pool's parts."""

    @model_validator(mode="after")
    def _drawable(self) -> Additive:
        if self.law == "wishart" and self.degrees < 1:
            raise ValueError("expected degrees of freedom")
        if (self.law == "sum") != bool(self.parts) or any(part.parts for part in self.parts or ()):
            raise ValueError("expected the noises that a sum is of")
        return self


class Sampling(Shape):
    """The matrix was drawn, not added to: noise grows with the data."""

    model: Literal["sampling"]
    """How the noise enters."""
    degrees: Annotated[Finite, Field(ge=1)]
    """Degrees of freedom of the draw."""
    ridge: Size
    """What was added to the diagonal before, and is taken off again."""
    count_is_exact: StrictBool
    """The number of rows is public, and has no noise."""


class OfStatistics(Shape):
    """Noise of one regression's sums, in units of the scaled columns."""

    diagonal_std: Std
    """The noise of Σ x², each regressor with itself."""
    off_diagonal_std: Std
    """The noise of Σ x x′, two regressors."""
    cross_std: Std
    """The noise of Σ x y."""
    response_std: Std | None
    """The noise of Σ y²."""
    least_eigenvalue_std: Std | None
    """The noise of the least eigenvalue, where a mechanism releases it."""
    count_is_exact: StrictBool
    """The number of rows is public, and has no noise."""


class Rule(Shape):
    """The rule by which a ridge is added, and how much."""

    kind: Literal["none", "weak", "missing"]
    """Never, where the noise is large, or to make up for a small eigenvalue."""
    amount: Size
    """The ridge, in units of the scaled matrix."""
    caution: Size
    """What is taken off a released eigenvalue first."""
    known: StrictBool = False
    """What is known exactly of categorical columns was put in before the coefficients were made."""


class OfMeat(Shape):
    """The noise of the meat of one regression, in units of half of its squared clip."""

    formula: StrictStr
    """The regression, as the conf writes it."""
    diagonal_std: Std
    """Its standard deviation on the diagonal."""
    off_diagonal_std: Std
    """Its standard deviation elsewhere."""


class BesideMeats(Shape):
    """The noise of what was released beside the meats of clusters."""

    count_std: Std
    """Of the number of clusters."""
    squares_std: Std
    """Of the sums of squared residuals, in squared clips."""
    totals_std: Std
    """Of the sums of norms, in scores of a row."""


class OfClusters(Shape):
    """What a release says of its clusters, with noise."""

    count: Finite
    """Their number."""
    squares: list[Finite]
    """The sum of squared residuals after the clip, in squared clips, for each regression."""
    totals: list[list[Finite]]
    """The sum of the sizes of scores on each axis, in its longest score."""
    target: Std
    """What the bounds of scores were asked to take away, in scores of a row, before head-room."""


class OfErrors(Shape):
    """What was paid for so that standard errors hold where variances differ."""

    kind: Literal["hc1", "cluster"]
    """What the standard errors are."""
    regressions: Annotated[list[OfMeat], Field(min_length=1)]
    """The meat of each regression."""
    column: StrictStr | None = None
    """The column of clusters."""
    clusters_are_people: StrictBool | None = None
    """Whether a cluster is a person, who is protected."""
    beside: BesideMeats | None = None
    """The noise of what was released beside the meats of clusters."""


class Mechanism(Shape):
    """The noise, as a reader needs it to recompute the guarantee and the intervals. Each mechanism adds its own keys."""

    name: StrictStr
    """The name in the conf, or the default."""
    noise: Additive | Sampling | OfStatistics | Above | None = None
    """The size of the noise."""
    kernel: StrictStr | None = None
    """For lines: the mechanism that `auto` picked, or the conf's."""
    ridge: Rule | Size | None = None
    """The ridge of a regression."""
    radius: Above | None = None
    """The radius of `objective`."""
    sigma: Std | None = None
    """The standard deviation of Gaussian noise, in steps of the grid or in units of the mechanism."""
    scale: Std | None = None
    """The scale of Laplace or Wishart noise."""
    degrees_of_freedom: Annotated[StrictInt, Field(ge=1)] | None = None
    """The degrees of freedom of a Wishart law."""
    repair: Literal["none", "ridge", "eigen", "nearest_psd", "safe"] = "none"
    """How readers repair the matrix, unless told otherwise."""
    errors: OfErrors | None = None
    """The noise of the meats of regressions, where standard errors were paid for."""
    residual_clips: list[Std] | None = None
    """What the residuals of each of them were clipped to, in half-ranges of the response."""
    score_shifts: list[list[StrictInt]] | None = None
    """The axes of clusters' scores, for each of them: terms less so many 1024ths of the intercept."""
    score_scales: list[list[Steps]] | None = None
    """The scale of each of these axes, in steps of 2^−20 of its longest score."""
    score_bounds: list[Steps] | None = None
    """The bounds of weighted scores that were drawn, in steps of 2^−20."""
    score_radii: list[Steps] | None = None
    """What these scores were shortened to: the bounds with head-room."""
    score_units: list[Std] | None = None
    """What one row, or one person who is a cluster, moves each meat by, in its squared bound: the unit of its noise."""
    clusters: OfClusters | None = None
    """The clusters, as far as they were released, with noise."""


class Column(Shape):
    """A column and its bounds, as they were used."""

    name: StrictStr
    """The name, as in the source or computed."""
    lower: Bound | None = None
    """The least value."""
    upper: Bound | None = None
    """The largest value."""
    categories: Annotated[list[StrictStr | StrictInt | StrictBool], Field(min_length=1)] | None = None
    """The categories, instead of bounds."""

    @model_validator(mode="after")
    def _bounded(self) -> Column:
        if self.categories is None and not (
            self.lower is not None and self.upper is not None and self.upper / 2 - self.lower / 2 >= 1e-60
        ):
            raise ValueError("expected bounds or categories")
        return self


class RowNorm(Shape):
    """The bound on the norm of a row, as in the conf."""

    mode: Literal["cap", "project"]
    """As in the conf."""
    radius: Std
    """As in the conf."""
    include_response: StrictBool
    """As in the conf."""


class SpecRelease(Shape):
    """The part of the spec that readers go by."""

    group_by: Annotated[list[StrictStr], Field(min_length=1)] | None = None
    """The columns of the groups, which the tables begin with."""
    hierarchy: Annotated[list[StrictStr | list[StrictStr]], Field(min_length=2)] | None = None
    """The levels of the groups, the coarsest first."""

    @model_validator(mode="after")
    def _finest_last(self) -> SpecRelease:
        if self.hierarchy is not None and (not all(self.hierarchy) or self.hierarchy[-1:] != self.group_by):
            raise ValueError("expected levels whose last is what groups are made by")
        return self


class Spec(Shape):
    """The conf as it was understood, without ledger and output. A query is there as its hash."""

    release: SpecRelease
    """The part `release` of the conf."""


class Ledger(Shape):
    """The ledger's entry that was charged."""

    dataset: StrictStr
    """Whose budget it was."""
    id: StrictStr
    """The entry of the ledger."""


class ReadSnapshot(Shape):
    """The state of a lake table."""

    format: Literal["delta", "iceberg"]
    """The kind of table."""
    id: Annotated[StrictInt, Field(ge=0)] | None
    """Delta's version, or the id of Iceberg's snapshot; none for an Iceberg table that was never written to."""
    table: StrictStr | None
    """The table's own id, as its format has it; none where Spark read the table and does not tell."""


class ReadIn(Shape):
    """The way in which the source was read."""

    snapshot: ReadSnapshot | None = None
    """The state of the Delta or Iceberg table that every pass read; only where it is known."""
    timezone: StrictStr | None = None
    """The time zone of timestamps in expressions. Null for a DataFrame, if the conf has none: its own were made elsewhere."""


class File(Shape):
    """A table of the release."""

    sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
    """The hash of its bytes: `dpspark verify` and every reader compare it."""


class PoolPart(Shape):
    """A release that is part of a pool."""

    name: PlainName
    """Its name."""
    version: PlainName
    """Its version."""
    manifest_sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
    """The hash of its manifest, which has those of its tables."""


class Pool(Shape):
    """What a pool was made of."""

    parts: Annotated[list[PoolPart], Field(min_length=2, max_length=MOST_PARTS)]
    """Its releases, in the order of the directories `parts/1`, `parts/2`, ... where their files are."""
    overlap: Literal["none", "unknown"]
    """What was assumed: that one person is in one part at most, or nothing."""


class Manifest(Shape):
    """The keys that a manifest must have to be read at all; `dpspark.verifying` reads the guarantee."""

    format: StrictInt
    """The format of the bundle: 1."""
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
    products: list[tuple[StrictStr, StrictStr]] | None = None
    """Blocks of products: a categorical column and another one; nothing where there are none."""
    terms: list[StrictStr]
    """Rows and columns of the matrix: the intercept, numbers, each category as `sex[F]`, then products as `sex[F]:educ`."""
    grid_bits: Annotated[StrictInt, Field(ge=0, le=26)]
    """Scaled values were rounded to steps of 2^-bits before they were added up."""
    row_norm: RowNorm | None
    """The bound on the norm of a row, if there is one."""
    spec: Spec
    """The conf as it was understood."""
    spec_hash: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
    """The hash of the spec; the ledger has it too."""
    ledger: Ledger
    """Where it was charged."""
    files: dict[Table, File]
    """Every table, with its hash."""
    pool: Pool | None = None
    """What it is a pool of; a release of its own has none."""

    @model_validator(mode="after")
    def _complete(self) -> Manifest:
        named, mechanism = self.release, self.mechanism
        self._check_products()
        if mechanism.errors is not None and len(mechanism.residual_clips or ()) != len(mechanism.errors.regressions):
            raise ValueError("expected a clip of the residuals of each regression")
        if mechanism.errors is not None and mechanism.errors.kind == "cluster":
            _check_clusters(mechanism)
        if named.kind == "theil_sen" and None in (named.x, named.y, mechanism.kernel):
            raise ValueError("expected x, y and a kernel")
        if named.kind == "regression":
            if mechanism.name not in {known.name for known in mechanisms_of("regression")}:
                raise ValueError("expected a mechanism of regressions that is known here")
            regression_named(mechanism.name).check_shape(mechanism)
        return self

    def _check_products(self) -> None:
        """Refuse products of columns that are not there, or whose first is not categorical."""
        has_categories = {column.name: column.categories is not None for column in self.columns}
        for first, second in self.products or ():
            if not has_categories.get(first) or second not in has_categories or first == second:
                raise ValueError("expected products of a categorical column and another one")


def _check_clusters(mechanism: Mechanism) -> None:
    """Refuse errors by clusters that lack what readers go by."""
    errors, told = mechanism.errors, mechanism.clusters
    if errors is None or told is None or None in (errors.column, errors.clusters_are_people, errors.beside):
        raise ValueError("expected the column of clusters, and what was released of them")
    lists = (mechanism.score_shifts, mechanism.score_scales, mechanism.score_bounds, mechanism.score_radii)
    if any(
        len(each or ()) != len(errors.regressions)
        for each in (*lists, mechanism.score_units, told.squares, told.totals)
    ):
        raise ValueError("expected bounds and sums of the scores of each regression")
