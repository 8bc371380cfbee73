"""What a conf says about the rows: columns with their bounds, a weight, and the extras that are paid for beside the release."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictInt, StrictStr, model_validator

from dpspark.core.domain import Categorical, Numeric, Weight
from dpspark.exact.histogram import CELLS, Axis
from dpspark.mechanisms.base import options_of
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism
from dpspark.mechanisms.registry import BOUNDS
from dpspark.spec.values import Number, Part, Positive, Text

LARGEST_SHARE = 0.9
LARGEST_BOUND, SMALLEST_HALF = 1e60, 1e-60  # fourth powers of values, as in variances of squares, are doubles

NO_BOUNDS = "give lower and upper, or categories: without public bounds there is no release."


def _share(value: float) -> float:
    if not 0 < value <= LARGEST_SHARE:
        raise ValueError(f"got {value:g}; expected a part of the budget, from above 0 to {LARGEST_SHARE:g}.")
    return value


def _probability(value: float) -> float:
    if not 0 < value < 1:
        raise ValueError(f"got {value:g}; expected a number between 0 and 1.")
    return value


def _bound(value: float) -> float:
    if not abs(value) <= LARGEST_BOUND:
        raise ValueError(f"got {value:g}; expected a bound within ±{LARGEST_BOUND:g}.")
    return value


Bound = Annotated[Number, AfterValidator(_bound)]
Share = Annotated[Number, AfterValidator(_share)]
Probability = Annotated[Number, AfterValidator(_probability)]


class ColumnBounds(Part):
    """Bounds that are public, or a public range in which to look for private ones; or categories.

    Bounds are for integers, floats, decimals and booleans; categories for text, integers and booleans.
    """

    lower: Bound | None = None
    """The least value, known without looking at the data. Smaller ones are moved to it."""
    upper: Bound | None = None
    """The largest value, known without looking at the data. Larger ones are moved to it."""
    categories: tuple[StrictStr | StrictInt | StrictBool, ...] | None = None
    """Instead of bounds: one 0/1 column each, called `sex[F]`."""
    bounds: Literal["private"] | None = None
    """Find the bounds in the data, with noise, for a share of the budget: see `bounds`."""
    search: tuple[Bound, Bound] | None = None
    """With `bounds: private`: a public range to look in. A narrow one finds them better."""
    expr: Text | None = None
    """Compute the column from one row's values, in Spark SQL, e.g. `age * age`. Alone, if groups are made by it."""

    @model_validator(mode="after")
    def _bounds_or_categories(self) -> ColumnBounds:
        if self.bounds is not None or self.search is not None:
            self._check_search()
            return self
        if self.categories is not None:
            self._check_categories()
            return self
        if self.expr is not None and not self.limits:
            return self  # allowed for a key of groups: the whole conf tells
        if self.lower is None or self.upper is None:
            raise ValueError(NO_BOUNDS)
        if not self.lower < self.upper:
            raise ValueError(f"lower={self.lower:g}, upper={self.upper:g}; expected lower < upper.")
        half = self.upper / 2 - self.lower / 2
        if not half >= SMALLEST_HALF:
            raise ValueError(f"lower={self.lower:g}, upper={self.upper:g}; expected bounds further apart.")
        return self

    @property
    def limits(self) -> tuple[str, ...]:
        """The keys that are given beside `expr`."""
        keys = ("lower", "upper", "categories", "bounds", "search")
        return tuple(key for key in keys if getattr(self, key) is not None)

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

    def _check_search(self) -> None:
        if self.bounds is None:
            raise ValueError("search goes with bounds: private.")
        if self.lower is not None or self.upper is not None or self.categories is not None:
            raise ValueError("bounds: private stands for lower and upper; give search alone beside it.")
        if self.search is None:
            raise ValueError(
                "bounds: private needs search: [lowest, highest], a range known without looking at the data.\n"
                "Bounds are drawn from all of that range: one taken from the data would give its extremes away."
            )
        lowest, highest = self.search
        if not lowest < highest:
            raise ValueError(f"search=[{lowest:g}, {highest:g}]; expected the lower end first.")
        # Neighbouring edges of the grid must be different doubles, far enough apart to be bounds.
        cell = (highest - lowest) / CELLS
        fits = cell > 2.0**-50 * max(abs(lowest), abs(highest)) and math.isfinite(cell)
        if not (fits and cell >= 2 * SMALLEST_HALF):
            raise ValueError(f"search=[{lowest:g}, {highest:g}]; expected a range that {CELLS} cells can divide.")

    def column(self, name: str) -> Numeric | Categorical:
        """The column as it is known before a row is read: private bounds stand at the ends of their search range."""
        if self.categories is not None:
            return Categorical(name, self.categories)
        if self.search is not None:
            return Numeric(name, *self.search, private=True)
        assert self.lower is not None
        assert self.upper is not None
        return Numeric(name, self.lower, self.upper)

    def axis(self, name: str) -> Axis:
        assert self.search is not None
        return Axis(name, *self.search)


class WeightColumn(Part):
    """All noise grows by `upper`. Regressions have the noise's error alone, unless `squares_share` is paid."""

    column: Text | None = None
    """The column with the weights."""
    expr: Text | None = None
    """Instead of a column: compute the weight from one row's values, in Spark SQL, e.g. `pwgtp / 100`."""
    upper: Annotated[Positive, Field(ge=1e-9, le=1e12)]
    """The largest weight; larger ones count as this."""
    squares_share: Share | None = None
    """The part of the budget that buys the moments of squared weights, for standard errors: one more pass."""

    @model_validator(mode="after")
    def _one_of_them(self) -> WeightColumn:
        if (self.column is None) == (self.expr is None):
            raise ValueError("give column, or expr, and not both: where the weights are, or how they are computed.")
        return self

    @property
    def name(self) -> str:
        """The column, or the expression itself: readers see where a weight comes from."""
        return self.column if self.column is not None else str(self.expr)

    @property
    def weight(self) -> Weight:
        return Weight(self.name, self.upper)


DEFAULT_METHOD = next(iter(BOUNDS))
if TYPE_CHECKING:
    Method = str
else:
    Method = Literal[tuple(BOUNDS)]


class BoundsExtra(Part):
    """Two noisy cells of the public `search` range become the bounds: one more pass."""

    epsilon_share: Share = 0.1
    """The part of the budget that is spent on them."""
    method: Method = DEFAULT_METHOD
    """Two quantiles (`percentile`), or the k-th smallest and largest value with head-room (`rank`, for 10,000 rows or more)."""
    lower_probability: Probability | None = None
    """For `percentile`: which quantile becomes the lower bound; 0.01 by default."""
    upper_probability: Probability | None = None
    """For `percentile`: which quantile becomes the upper bound; 0.99 by default."""
    headroom: Annotated[Positive, Field(ge=1)] | None = None
    """For `rank`: how many times wider than what was found, on each side; 1.5 by default."""

    @model_validator(mode="after")
    def _options_of_the_method(self) -> BoundsExtra:
        for given in self._given:
            if given not in options_of(self.method_class):
                raise ValueError(
                    f"{given} is not an option of method {self.method}; it has "
                    f"{' and '.join(options_of(self.method_class))}."
                )
        self.method_class.check_options(self.options)
        return self

    @property
    def method_class(self) -> type[BoundsMechanism]:
        return BOUNDS[self.method]

    @property
    def options(self) -> Any:
        """The method's options, as its class has them."""
        return self.method_class.Options(**self._given)

    @property
    def _given(self) -> dict[str, float]:
        return self.model_dump(exclude={"epsilon_share", "method"}, exclude_none=True)

    def public(self) -> dict[str, Any]:
        """The part of the spec's hash. The default method is not said: version 0.2 had no other."""
        named = {} if self.method == DEFAULT_METHOD else {"method": self.method}
        return {"epsilon_share": self.epsilon_share, **named, **asdict(self.options)}


class CountExtra(Part):
    """Whether to say, with noise, how many rows were used."""

    epsilon_share: Share = 0.01
    """The part of the budget that is spent on it."""


class DiagnosticsExtra(Part):
    """Whether to count, with noise, how many values the bounds cut off."""

    epsilon_share: Share = 0.05
    """The part of the budget that is spent on it."""
