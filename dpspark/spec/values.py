"""The kinds of values a conf may hold, and how each is refused."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr


class Part(BaseModel):
    """A group of keys: unknown ones are refused, and nothing changes once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


def finite_number(value: Any) -> float:
    """Want a number that is no bool, text, infinity or NaN."""
    return _finite(_number(value))


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


def _none_for_zero(value: Any) -> Any:
    """A delta of 0 is none: pure."""
    return None if value == 0 and not isinstance(value, bool) else value


Number = Annotated[float, BeforeValidator(_number), AfterValidator(_finite)]
Positive = Annotated[Number, AfterValidator(_positive)]
Delta = Annotated[Positive, AfterValidator(_below_one)]
BudgetShare = Annotated[Positive, AfterValidator(_share)]
DeltaOrNone = Annotated[Delta | None, BeforeValidator(_none_for_zero)]
Text = Annotated[StrictStr, Field(min_length=1)]
WholeNumber = Annotated[StrictInt, Field(ge=1)]
Version = Annotated[StrictInt, Field(ge=0, lt=2**63)]
