"""What a conf says about the rows: columns with their bounds, a weight, and the extras that are paid for beside the release."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, StrictBool, StrictInt, StrictStr, model_validator

from dpspark.core.domain import SIDES, Categorical, Numeric, Side, Weight
from dpspark.exact.histogram import CELLS, Axis
from dpspark.mechanisms.base import options_of
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism
from dpspark.mechanisms.registry import BOUNDS, EARLIER_BOUNDS
from dpspark.spec.values import Number, Part, Positive, Text, finite_number

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


def _side(value: Any) -> Any:
    if value == PRIVATE or value is None:
        return value
    if isinstance(value, str):
        raise ValueError(f"got {value!r}; expected a number, or private.")
    return _bound(finite_number(value))


PRIVATE = "private"
Private = Literal["private"]
OneSide = Annotated[float | Private | None, PlainValidator(_side)]
Bound = Annotated[Number, AfterValidator(_bound)]
Share = Annotated[Number, AfterValidator(_share)]
Probability = Annotated[Number, AfterValidator(_probability)]


class ColumnBounds(Part):
    """Bounds that are public, or a public range in which to look for private ones; or categories.

    Bounds are for integers, floats, decimals and booleans; categories for text, integers and booleans.
    """

    lower: OneSide = None
    """The least value, known without looking at the data. Smaller ones are moved to it. `private`: find it, see `search`."""
    upper: OneSide = None
    """The largest value, known without looking at the data. Larger ones are moved to it. `private`: find it, see `search`."""
    categories: tuple[StrictStr | StrictInt | StrictBool, ...] | None = None
    """Instead of bounds: one 0/1 column each, called `sex[F]`."""
    bounds: Private | None = None
    """Find both bounds in the data, with noise, for a share of the budget: see `bounds`."""
    search: tuple[Bound, Bound] | None = None
    """With `bounds: private`, or one side that is private: a public range to look in. It may be generous."""
    expr: Text | None = None
    """Compute the column from one row's values, in Spark SQL, e.g. `age * age`. Alone, if groups are made by it."""

    @model_validator(mode="after")
    def _bounds_or_categories(self) -> ColumnBounds:
        if self.private_sides or self.search is not None:
            self._check_search()
            return self
        if self.categories is not None:
            self._check_categories()
            return self
        if self.expr is not None and not self.limits:
            return self  # allowed for a key of groups: the whole conf tells
        lower, upper = self.public_bound("lower"), self.public_bound("upper")
        if lower is None or upper is None:
            raise ValueError(NO_BOUNDS)
        if not lower < upper:
            raise ValueError(f"lower={lower:g}, upper={upper:g}; expected lower < upper.")
        half = upper / 2 - lower / 2
        if not half >= SMALLEST_HALF:
            raise ValueError(f"lower={lower:g}, upper={upper:g}; expected bounds further apart.")
        return self

    @property
    def private_sides(self) -> tuple[Side, ...]:
        """The sides that are to be found in the data."""
        return tuple(side for side in SIDES if PRIVATE in (self.bounds, getattr(self, side)))

    def public_bound(self, side: Side) -> float | None:
        """The bound of a side that is given as a number."""
        found = getattr(self, side)
        return None if found == PRIVATE else found

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
        if not self.private_sides:
            raise ValueError("search goes with bounds: private, or with lower or upper: private.")
        if self.bounds is not None and (self.lower is not None or self.upper is not None):
            raise ValueError("bounds: private stands for lower and upper; give search alone beside it.")
        if self.categories is not None:
            raise ValueError("categories have no bounds; give search alone beside bounds: private.")
        if self.search is None:
            asked = "bounds" if self.bounds else self.private_sides[0]
            raise ValueError(
                f"{asked}: private needs search: [lowest, highest], a range known without looking at the data.\n"
                "Bounds are drawn from all of that range: one taken from the data would give its extremes away."
            )
        self._check_public_side()
        lowest, highest = self._searched
        if not lowest < highest:
            raise ValueError(f"search=[{lowest:g}, {highest:g}]; expected the lower end first.")
        # Neighbouring edges of the grid must be different doubles, far enough apart to be bounds.
        cell = (highest - lowest) / CELLS
        fits = cell > 2.0**-50 * max(abs(lowest), abs(highest)) and math.isfinite(cell)
        if not (fits and cell >= 2 * SMALLEST_HALF):
            raise ValueError(f"search=[{lowest:g}, {highest:g}]; expected a range that {CELLS} cells can divide.")

    def _check_public_side(self) -> None:
        """Want a number for the side that is not private, such that some of the search range is beyond it."""
        assert self.search is not None
        for private, public in (SIDES, SIDES[::-1]):
            given = self.public_bound(public)
            if public in self.private_sides:
                continue
            if given is None:
                raise ValueError(f"{private}: private needs {public}: a public bound, or private too.")
            if not (given < self.search[1] if public == "lower" else given > self.search[0]):
                raise ValueError(
                    f"search=[{self.search[0]:g}, {self.search[1]:g}] with {public}={given:g}; expected a range to look in "
                    f"that goes on {'above' if public == 'lower' else 'below'} the public bound."
                )

    @property
    def _searched(self) -> tuple[float, float]:
        """The range to look in: as much of it as is beyond a public side."""
        assert self.search is not None
        lower, upper = self.public_bound("lower"), self.public_bound("upper")
        lowest, highest = self.search
        return (
            lowest if lower is None else max(lowest, lower),
            highest if upper is None else min(highest, upper),
        )

    def column(self, name: str) -> Numeric | Categorical:
        """The column as it is known before a row is read: private bounds stand at the ends of their search range."""
        if self.categories is not None:
            return Categorical(name, self.categories)
        lower, upper = self.public_bound("lower"), self.public_bound("upper")
        if self.search is not None:
            ends = (self.search[0] if lower is None else lower, self.search[1] if upper is None else upper)
            public = next((side for side in SIDES if side not in self.private_sides), None)
            return Numeric(name, *ends, private=True, public_side=public)
        assert lower is not None
        assert upper is not None
        return Numeric(name, lower, upper)

    def axis(self, name: str) -> Axis:
        return Axis(name, *self._searched)


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
    """A noisy cell of the public `search` range becomes each private bound: one more pass."""

    epsilon_share: Share = 0.1
    """The part of the budget that is spent on them."""
    method: Method | None = None
    """`rank` (the default): about the k-th smallest and largest value, k public, with head-room; for 10,000 rows or more.
    `percentile`: two quantiles; the default of version 0.2, and where a probability is given."""
    lower_probability: Probability | None = None
    """For `percentile`: which quantile becomes the lower bound; 0.01 by default."""
    upper_probability: Probability | None = None
    """For `percentile`: which quantile becomes the upper bound; 0.99 by default."""
    headroom: Annotated[Positive, Field(ge=1)] | None = None
    """For `rank`: how many times wider than what was found, on each side; 1.35 by default."""

    @model_validator(mode="after")
    def _options_of_the_method(self) -> BoundsExtra:
        for given in self._given:
            if given not in options_of(self.method_class):
                raise ValueError(
                    f"{given} is not an option of method {self.method_class.name}; it has "
                    f"{' and '.join(options_of(self.method_class))}."
                )
        self.method_class.check_options(self.options)
        return self

    @property
    def method_class(self) -> type[BoundsMechanism]:
        """The method that is named; a probability without a name asks for quantiles, as version 0.2 did."""
        if self.method is not None:
            return BOUNDS[self.method]
        by_share = self.lower_probability is not None or self.upper_probability is not None
        return BOUNDS[EARLIER_BOUNDS if by_share else DEFAULT_METHOD]

    @property
    def options(self) -> Any:
        """The method's options, as its class has them."""
        return self.method_class.Options(**self._given)

    @property
    def _given(self) -> dict[str, float]:
        return self.model_dump(exclude={"epsilon_share", "method"}, exclude_none=True)

    def public(self) -> dict[str, Any]:
        """The part of the spec's hash. The only method of version 0.2 is not said."""
        name = self.method_class.name
        named = {} if name == EARLIER_BOUNDS else {"method": name}
        return {"epsilon_share": self.epsilon_share, **named, **asdict(self.options)}


class CountExtra(Part):
    """Whether to say, with noise, how many rows were used."""

    epsilon_share: Share = 0.01
    """The part of the budget that is spent on it."""


class DiagnosticsExtra(Part):
    """Whether to count, with noise, how many values the bounds cut off."""

    epsilon_share: Share = 0.05
    """The part of the budget that is spent on it."""
