"""The parts of a manifest that readers go by, with their types: a stranger may have written it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from dpspark.fields import PlainName

Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Size = Annotated[Finite, Field(ge=0)]
Above = Annotated[Finite, Field(gt=0)]
Std = Annotated[Above, Field(le=1e60)]  # beyond what can be drawn
Bound = Annotated[Finite, Field(ge=-1e60, le=1e60)]
Table = Annotated[StrictStr, Field(pattern=r"^[a-z_]{1,40}\.parquet$")]  # a plain name, in the release's own directory


class Shape(BaseModel):
    model_config = ConfigDict(extra="allow")


class Named(Shape):
    name: PlainName
    version: PlainName
    kind: Literal["gram", "regression", "theil_sen", "quantiles"]
    response: StrictStr | None = None
    x: StrictStr | None = None
    y: StrictStr | None = None


class Spending(Shape):
    stage: StrictStr


class Privacy(Shape):
    epsilon: Above | None
    delta: Annotated[Size, Field(lt=1)] | None
    rho: Above | None
    neighbours: Literal["add_remove", "replace_one"]
    spending: list[Spending]

    @model_validator(mode="after")
    def _one_currency(self) -> Privacy:
        if (self.rho is None) == (self.epsilon is None):
            raise ValueError("expected epsilon or rho")
        return self


class Additive(Shape):
    model: Literal["additive"]
    diagonal_std: Std
    off_diagonal_std: Std
    degrees: Size
    law: Literal["gaussian", "laplace", "wishart"]
    count_is_exact: StrictBool


class Sampling(Shape):
    model: Literal["sampling"]
    degrees: Above
    ridge: Size
    count_is_exact: StrictBool


class OfStatistics(Shape):
    diagonal_std: Std
    off_diagonal_std: Std
    cross_std: Std
    response_std: Std | None
    least_eigenvalue_std: Std | None
    count_is_exact: StrictBool


class Rule(Shape):
    kind: Literal["none", "weak", "missing"]
    amount: Size
    caution: Size


class Mechanism(Shape):
    name: StrictStr
    noise: Additive | Sampling | OfStatistics | Above | None = None
    kernel: StrictStr | None = None
    ridge: Rule | Size | None = None
    radius: Above | None = None
    sigma: Std | None = None
    scale: Std | None = None
    degrees_of_freedom: Annotated[StrictInt, Field(ge=1)] | None = None
    repair: Literal["none", "ridge", "eigen", "nearest_psd", "safe"] = "none"


class Column(Shape):
    name: StrictStr
    lower: Bound | None = None
    upper: Bound | None = None
    categories: Annotated[list[StrictStr | StrictInt | StrictBool], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Column:
        if self.categories is None and not (
            self.lower is not None and self.upper is not None and self.upper / 2 - self.lower / 2 >= 1e-60
        ):
            raise ValueError("expected bounds or categories")
        return self


class RowNorm(Shape):
    mode: Literal["cap", "project"]
    radius: Above
    include_response: StrictBool


class SpecRelease(Shape):
    group_by: Annotated[list[StrictStr], Field(min_length=1)] | None = None


class Spec(Shape):
    release: SpecRelease


class Ledger(Shape):
    dataset: StrictStr
    id: StrictStr


class File(Shape):
    sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(Shape):
    """What a manifest must have to be read at all; the guarantee has its own reader, in `certificate`."""

    format: StrictInt
    release: Named
    guarantee: StrictStr
    privacy: Privacy
    mechanism: Mechanism
    columns: Annotated[list[Column], Field(min_length=1)]
    terms: list[StrictStr]
    grid_bits: Annotated[StrictInt, Field(ge=0, le=26)]
    row_norm: RowNorm | None
    spec: Spec
    spec_hash: Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
    ledger: Ledger
    files: dict[Table, File]

    @model_validator(mode="after")
    def _complete(self) -> Manifest:
        named, mechanism = self.release, self.mechanism
        if named.kind == "theil_sen" and None in (named.x, named.y, mechanism.kernel):
            raise ValueError("expected x, y and a kernel")
        if named.kind == "regression" and mechanism.name == "objective":
            if None in (mechanism.radius, mechanism.sigma) or not isinstance(mechanism.ridge, float | int):
                raise ValueError("expected radius, sigma and ridge")
        elif named.kind == "regression" and not (
            mechanism.name == "gradient_descent" or isinstance(mechanism.ridge, Rule)
        ):
            raise ValueError("expected a rule for the ridge")
        return self
