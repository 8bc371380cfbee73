"""Exact integer Gram matrices: float64 BLAS on small integers, summed in wide integers.

A block of `domain.block_rows` rows has products below 2^53 in sum, so its float64 product is an exact integer whatever
the order of the additions. Blocks are added in int64, and those in pairs (high, low) worth high·2^40 + low.
The result is the same for any partitioning, retry or merge order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np

from dpspark.core.domain import Domain
from dpspark.exact.bounds import grid_rows, grid_weights, plain_values, settle_nulls
from dpspark.exact.clip_counter import ClipCounter

LOW_BITS = 40
LOW_MASK = (1 << LOW_BITS) - 1
BLOCKS_BETWEEN_CARRIES = 512  # 512 blocks of at most 2^53 fit an int64


class GramAccumulator:
    """An accumulator that adds bounded rows to a Gram matrix, one block at a time; counts clipped values too, if asked."""

    def __init__(self, domain: Domain, count_clipped: bool = False):
        self.domain = domain
        self._columns = domain.columns if domain.weight is None else (*domain.columns, domain.weight)
        self._clipped = ClipCounter(domain) if count_clipped else None
        self._weights = None if domain.weight is None else np.empty(domain.block_rows)
        self._block = np.empty((domain.width, domain.block_rows))
        self._filled = 0
        self._sum = np.zeros((domain.width, domain.width), dtype=np.int64)
        self._blocks = 0
        self._wide = Wide.zero(domain.width)

    def add(self, columns: Sequence[Any], rows: int) -> None:
        """Add rows given as one arrow array (or ready numpy array) for each of `domain.read_columns`."""
        ready = [
            values if isinstance(values, np.ndarray) else plain_values(column, values)
            for column, values in zip(self._columns, columns, strict=True)
        ]
        weights = grid_weights(self.domain.weight, ready.pop()) if self.domain.weight is not None else None
        if self._clipped is not None:
            self._clipped.add(ready, weights)
        start = 0
        while start < rows:
            stop = min(rows, start + self.domain.block_rows - self._filled)
            end = self._filled + stop - start
            grid_rows(self.domain, [values[start:stop] for values in ready], self._block[:, self._filled : end])
            if self._weights is not None and weights is not None:
                self._weights[self._filled : end] = weights[start:stop]
            self._filled, start = end, stop
            if self._filled == self.domain.block_rows:
                self._flush()

    def finish(self) -> bytes:
        """Write the partial sum, for `merge_partials`."""
        self._flush()
        self._carry()
        return (
            self._wide.to_bytes() if self._clipped is None else self._wide.followed_by(self._clipped.counts).to_bytes()
        )

    def _flush(self) -> None:
        rows = self._block[:, : self._filled]
        product = self._product(rows)
        if np.isnan(product.diagonal()).any():  # a NaN row shows on the diagonal: no need to scan every value
            settle_nulls(self.domain, rows)
            product = self._product(rows)
        self._sum += product.astype(np.int64)
        self._filled = 0
        self._blocks += 1
        if self._blocks == BLOCKS_BETWEEN_CARRIES:
            self._carry()

    def _product(self, rows: np.ndarray) -> np.ndarray:
        return rows @ rows.T if self._weights is None else (rows * self._weights[: self._filled]) @ rows.T

    def _carry(self) -> None:
        self._wide.add(self._sum[np.triu_indices(self.domain.width)])
        self._sum[:] = 0
        self._blocks = 0


class Wide:
    """Upper triangles (and what follows them) of integers beyond int64, as high·2^40 + low with 0 <= low < 2^40."""

    def __init__(self, high: np.ndarray, low: np.ndarray):
        self.high = high
        self.low = low

    @classmethod
    def zero(cls, width: int, more: int = 0) -> Wide:
        entries = width * (width + 1) // 2 + more
        return cls(np.zeros(entries, dtype=np.int64), np.zeros(entries, dtype=np.int64))

    @classmethod
    def from_bytes(cls, payload: bytes) -> Wide:
        high, low = np.frombuffer(payload, dtype="<i8").reshape(2, -1)
        return cls(high.astype(np.int64), low.astype(np.int64))

    def to_bytes(self) -> bytes:
        return np.stack([self.high, self.low]).astype("<i8").tobytes()

    def add(self, small: np.ndarray) -> None:
        self.high += small >> LOW_BITS
        self.low += small & LOW_MASK
        self._normalise()

    def followed_by(self, small: np.ndarray) -> Wide:
        return Wide(np.append(self.high, small >> LOW_BITS), np.append(self.low, small & LOW_MASK))

    def merge(self, other: Wide) -> None:
        self.high += other.high
        self.low += other.low
        self._normalise()

    def shifted(self, bits: int) -> Wide:
        """Multiply every entry by 2^bits, bits <= 20."""
        found = Wide(self.high << bits, self.low << bits)
        found._normalise()
        return found

    def to_integers(self) -> list[int]:
        return [(int(high) << LOW_BITS) + int(low) for high, low in zip(self.high, self.low, strict=True)]

    def _normalise(self) -> None:
        self.high += self.low >> LOW_BITS
        self.low &= LOW_MASK


def partial_bytes(width: int, more: int = 0) -> int:
    """Compute the size of a partial sum."""
    return 16 * (width * (width + 1) // 2 + more)


def merge_partials(payloads: Iterable[bytes], width: int, more: int = 0) -> bytes:
    """Add up partial sums, in any order; `more` entries follow each triangle."""
    total = Wide.zero(width, more)
    for payload in payloads:
        total.merge(Wide.from_bytes(payload))
    return total.to_bytes()


class ExactGram:
    """The exact DᵀD of bounded rows, in grid units of 2^(-2·bits). Only a mechanism may look inside.

    It has no readable repr and cannot be pickled, so that it does not get into a log or a file by accident.
    """

    def __init__(self, domain: Domain, upper: Sequence[int], clipped: Sequence[int] | None = None):
        if len(upper) != domain.width * (domain.width + 1) // 2:
            raise ValueError("upper triangle of the wrong length")
        self.domain = domain
        self._upper = list(upper)
        self._clipped = None if clipped is None else list(clipped)

    @classmethod
    def from_partials(cls, domain: Domain, payloads: Iterable[bytes], count_clipped: bool = False) -> ExactGram:
        entries, more = domain.width * (domain.width + 1) // 2, domain.clip_counts if count_clipped else 0
        found = Wide.from_bytes(merge_partials(payloads, domain.width, more)).to_integers()
        return cls(domain, found[:entries], found[entries:] if count_clipped else None)

    def reveal(self) -> list[int]:
        """Return the upper triangle, row by row. For mechanisms and tests."""
        return list(self._upper)

    def reveal_clipped(self) -> list[int]:
        """Return how many values of each numeric column were below, then above its bounds. For mechanisms and tests."""
        if self._clipped is None:
            raise ValueError("clipped values were not counted")
        return list(self._clipped)

    def __repr__(self) -> str:
        return f"ExactGram({self.domain.width} columns, not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ExactGram is private: release it through a mechanism")
