"""The kinds of values a conf may hold, and how each is refused."""

from __future__ import annotations

import math
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr

from dpspark.errors import without_passwords

LONGEST_NAME = 200  # bytes: of a directory's name, for any file system


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


def plain_name(value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError(f"got {value!r}; expected text. Put it in quotes.")
    allowed = all(c.isalnum() or c in "._-" for c in text)
    if not (allowed and 0 < len(text) <= 100 and text[0].isalnum()):
        raise ValueError(
            f"got {without_passwords(text)[:60]!r}; expected letters, digits, '.', '_' or '-', starting with a letter or digit."
        )
    # Two names that look alike, or that a file system takes for one, would be two entries of the ledger.
    if not unicodedata.is_normalized("NFKC", text) or len(text.encode()) > LONGEST_NAME:
        raise ValueError(f"got {text[:60]!r}; expected a name of plain letters, {LONGEST_NAME} bytes at most.")
    return text


Number = Annotated[float, BeforeValidator(_number), AfterValidator(_finite)]
Positive = Annotated[Number, AfterValidator(_positive)]
Delta = Annotated[Positive, AfterValidator(_below_one)]
BudgetShare = Annotated[Positive, AfterValidator(_share)]
DeltaOrNone = Annotated[Delta | None, BeforeValidator(_none_for_zero)]
PlainName = Annotated[str, BeforeValidator(plain_name)]
Text = Annotated[StrictStr, Field(min_length=1)]
WholeNumber = Annotated[StrictInt, Field(ge=1)]
