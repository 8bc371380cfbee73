"""The exact number of rows that a release uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from dpspark.core.domain import Categorical, Numeric
from dpspark.exact.bounds import plain_values


class RowCounter:
    """A counter of rows, those with a null left out if asked. Stability: a row adds 1 or nothing."""

    def __init__(self, columns: Sequence[Numeric | Categorical], drop_nulls: bool):
        self.columns = columns
        self.drop_nulls = drop_nulls
        self.count = 0

    def add(self, columns: Sequence[Any], rows: int) -> None:
        kept = np.ones(rows, dtype=bool)
        for column, values in zip(self.columns, columns, strict=True):
            if self.drop_nulls:
                ready = values if isinstance(values, np.ndarray) else plain_values(column, values)
                kept &= ~np.isnan(ready) if isinstance(column, Numeric) else ready >= 0
        self.count += int(np.count_nonzero(kept))

    def finish(self) -> bytes:
        return np.array([self.count], dtype="<i8").tobytes()


def merge_counts(payloads: Iterable[bytes]) -> bytes:
    total = sum(int(np.frombuffer(payload, "<i8")[0]) for payload in payloads)
    return np.array([total], dtype="<i8").tobytes()


class ExactCount:
    """An exact number of rows. Only a mechanism may look inside: no readable repr, no pickling."""

    def __init__(self, rows: int):
        self._rows = rows

    def reveal(self) -> int:
        """Return the number. For mechanisms and tests."""
        return self._rows

    def __repr__(self) -> str:
        return "ExactCount(not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ExactCount is private: release it through a mechanism")
