"""Exact counts of columns' values on a public grid, for quantiles.

Each column has an axis: a public range cut into cells of equal width. A value outside the range counts in the cell at that
end, ±inf too; a null or NaN does not count. Stability: one row adds 1 to one cell of each axis, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from dpspark.core.domain import Numeric
from dpspark.exact.bounds import plain_values

CELLS = 1 << 20
FEW = 8  # a batch of fewer rows than a FEW-th of the cells is added one by one


@dataclass(frozen=True)
class Axis:
    """A column's public range and its cells. Edge r, from 0 to `cells`, is the left end of cell r."""

    name: str
    lowest: float
    highest: float
    cells: int = CELLS

    def cell_of(self, values: np.ndarray) -> np.ndarray:
        """Find the cell of each value that is not a NaN. Elementwise, so that it does not depend on the batch."""
        with np.errstate(over="ignore"):
            at = np.floor((values - self.lowest) * (self.cells / (self.highest - self.lowest)))
        return np.clip(at, 0, self.cells - 1).astype(np.int64)

    def edge(self, number: int) -> float:
        low, high = Fraction(self.lowest), Fraction(self.highest)
        return float(low + (high - low) * number / self.cells)


class HistogramAccumulator:
    """An accumulator that counts the values of some columns, one axis each."""

    def __init__(self, axes: Sequence[Axis]):
        self.axes = axes
        self._counts = [np.zeros(axis.cells, dtype=np.int64) for axis in axes]

    def add(self, columns: Sequence[Any], rows: int) -> None:
        """Add rows given as one arrow array (or ready numpy array) for each axis."""
        for axis, values, counts in zip(self.axes, columns, self._counts, strict=True):
            ready = values if isinstance(values, np.ndarray) else plain_values(numeric_of(axis), values)
            cells = axis.cell_of(ready[~np.isnan(ready)])
            if FEW * len(cells) < axis.cells:
                np.add.at(counts, cells, 1)
            else:
                counts += np.bincount(cells, minlength=axis.cells)

    def finish(self) -> bytes:
        """Write the counts, for `merge_histograms`."""
        return b"".join(map(encode_counts, self._counts))


def merge_histograms(payloads: Iterable[bytes], axes: Sequence[Axis]) -> bytes:
    """Add up counts, in any order."""
    return b"".join(map(encode_counts, _sum(payloads, axes)))


def _sum(payloads: Iterable[bytes], axes: Sequence[Axis]) -> list[np.ndarray]:
    totals = [np.zeros(axis.cells, dtype=np.int64) for axis in axes]
    for payload in payloads:
        at = 0
        for total in totals:
            at = _decode_into(total, payload, at)
    return totals


def most_bytes(axes: Sequence[Axis]) -> int:
    """Compute the largest size of a payload: all counts of every axis."""
    return sum(8 * (axis.cells + 1) for axis in axes)


def encode_counts(counts: np.ndarray) -> bytes:
    """Write pairs of cell and count where few cells are occupied, else all counts; first their number, −1 for all."""
    occupied = np.flatnonzero(counts)
    if 2 * len(occupied) < len(counts):
        return b"".join(
            part.astype("<i8").tobytes() for part in (np.array([len(occupied)]), occupied, counts[occupied])
        )
    return np.array([-1], dtype="<i8").tobytes() + counts.astype("<i8").tobytes()


def _decode_into(total: np.ndarray, payload: bytes, at: int) -> int:
    pairs = int(np.frombuffer(payload, "<i8", 1, at)[0])
    at += 8
    if pairs < 0:
        total += np.frombuffer(payload, "<i8", len(total), at)
        return at + 8 * len(total)
    cells, counts = np.frombuffer(payload, "<i8", 2 * pairs, at).reshape(2, -1)
    total[cells] += counts
    return at + 16 * pairs


class ExactHistogram:
    """Exact counts of values. Only a mechanism may look inside: no readable repr, no pickling."""

    def __init__(self, axes: Sequence[Axis], counts: Sequence[np.ndarray]):
        self.axes = tuple(axes)
        self._counts = list(counts)

    @classmethod
    def from_partials(cls, axes: Sequence[Axis], payloads: Iterable[bytes]) -> ExactHistogram:
        return cls(axes, _sum(payloads, axes))

    def reveal(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the occupied cells of an axis, in order, and their counts. For mechanisms and tests."""
        (counts,) = (counts for axis, counts in zip(self.axes, self._counts, strict=True) if axis.name == name)
        occupied = np.flatnonzero(counts)
        return occupied, counts[occupied]

    def __repr__(self) -> str:
        return f"ExactHistogram({len(self.axes)} columns, not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ExactHistogram is private: release it through a mechanism")


def numeric_of(axis: Axis) -> Numeric:
    return Numeric(axis.name, axis.lowest, axis.highest)
