"""Parts of dates and times, in the proleptic Gregorian calendar, for all dates that Spark can hold.

pyarrow's own kernels are quicker, but have years of 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpspark.source.compute.arrays import nulls_of, values_of, wrap

SECOND = 1_000_000  # in microseconds
DAY = 86_400  # in seconds
NEAR = 10_000_000  # days around 1970, whose years have 16 bits
ERA = 146_097  # days in 400 years
MARCH_FIRST = 719_468  # days from the first of March of the year 0 to 1970


def _seconds(times: Any, offset: int) -> np.ndarray:
    """Local seconds since 1970: rounded down first, so that nothing overflows."""
    return values_of(times) // SECOND + offset


def to_date(kind: Any, one: Any, offset: int) -> Any:
    return wrap(kind, (_seconds(one, offset) // DAY).astype(np.int32), nulls_of(one))


def date_part(kind: Any, one: Any, part: str) -> Any:
    ends = pc.min_max(one.cast(pa.int32()))
    if all(end.is_valid and abs(end.as_py()) < NEAR for end in ends.values()):
        return pc.cast(QUICK[part](one), kind)
    return wrap(kind, PARTS[part](values_of(one).astype(np.int64)).astype(np.int32), nulls_of(one))


def time_part(kind: Any, one: Any, offset: int, unit: int, count: int) -> Any:
    """Compute hours, minutes or seconds: how many units of so many seconds, up to a count."""
    return wrap(kind, (_seconds(one, offset) // unit % count).astype(np.int32), nulls_of(one))


def _civil(days: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Year, month and day; years begin with March while leap days are counted (Hinnant, civil_from_days)."""
    shifted = days + MARCH_FIRST
    era = shifted // ERA
    of_era = shifted - era * ERA
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    return year + era * 400 + (month >= 10), np.where(month < 10, month + 3, month - 9), day


def _new_year(year: np.ndarray) -> np.ndarray:
    """The first of January, in days since 1970."""
    before = year - 1
    return 365 * before + before // 4 - before // 100 + before // 400 - 719_162


def _year(days: np.ndarray) -> np.ndarray:
    return _civil(days)[0]


def _month(days: np.ndarray) -> np.ndarray:
    return _civil(days)[1]


def _day(days: np.ndarray) -> np.ndarray:
    return _civil(days)[2]


def _quarter(days: np.ndarray) -> np.ndarray:
    return (_month(days) + 2) // 3


def _weekday(days: np.ndarray) -> np.ndarray:
    return (days + 3) % 7  # 1970 began with a Thursday; Monday is 0


def _day_of_week(days: np.ndarray) -> np.ndarray:
    return (days + 4) % 7 + 1  # Sunday is 1


def _day_of_year(days: np.ndarray) -> np.ndarray:
    return days - _new_year(_year(days)) + 1


def _week(days: np.ndarray) -> np.ndarray:
    thursday = days - _weekday(days) + 3  # an ISO week is of the year that its Thursday is in
    return (thursday - _new_year(_year(thursday))) // 7 + 1


PARTS = {
    **{"year": _year, "quarter": _quarter, "month": _month, "day": _day, "week": _week},
    **{"weekday": _weekday, "dayofweek": _day_of_week, "dayofyear": _day_of_year},
}


QUICK: dict[str, Callable[..., Any]] = {
    **{"year": pc.year, "quarter": pc.quarter, "month": pc.month, "day": pc.day, "week": pc.iso_week},
    **{"weekday": pc.day_of_week, "dayofyear": pc.day_of_year},
    "dayofweek": lambda days: pc.day_of_week(days, count_from_zero=False, week_start=7),
}


def add_days(kind: Any, one: Any, other: Any, sign: int) -> Any:
    """Move dates by days; beyond the last date it wraps around, as Java's ints do."""
    with np.errstate(over="ignore"):
        moved = values_of(one) + np.int32(sign) * values_of(other).astype(np.int32)
    return wrap(kind, moved, nulls_of(one), nulls_of(other))


def days_between(kind: Any, one: Any, other: Any) -> Any:
    with np.errstate(over="ignore"):
        return wrap(kind, values_of(one) - values_of(other), nulls_of(one), nulls_of(other))


KERNELS: dict[str, Callable[..., Any]] = {
    **{"to_date": to_date, "date_part": date_part, "time_part": time_part, "add_days": add_days},
    **{"days_between": days_between},
}
