"""Exact sums of the residuals of bounded rows: whole numbers, the same for any partitioning and on any machine.

A residual is r = w·z, with z a bounded row of the domain: w is 1 at the response, minus a coefficient at each regressor, and
0 elsewhere. Coefficients are released with noise before any row is read for this, and are rounded to steps of a power of two,
so that a row's residual is a whole number below 2^53: a product of float64 has no rounding error in whatever order it is added
up. All that follows is elementwise IEEE arithmetic, row by row. Stability: one row changes the numbers of no other.

The counts are of |r| by octaves: the scale is linear between powers of two, and each octave has OCTAVE_CELLS cells. A row that
the null policy drops is in no count and no sum.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from dpspark.core.domain import Domain
from dpspark.exact.bounds import grid_rows, plain_values, settle_nulls
from dpspark.exact.fixed_point import Wide
from dpspark.exact.histogram import Axis, encode_counts

COEFFICIENT_BITS = 20  # fewer where coefficients are so large that a residual would not fit
RATIO_STEPS = 1 << 26  # of a residual that is squared, at its clip: its square is exact
OCTAVE_CELLS = 32
LOWEST_OCTAVE, HIGHEST_OCTAVE = -18, 2  # from 2^−18 of the response's half-range to 4 times it


@dataclass(frozen=True)
class Residual:
    """The residual of one regression. It is private until its coefficients are published: no readable repr."""

    response: int  # its place among the domain's terms
    regressors: tuple[int, ...]
    steps: tuple[int, ...] = field(repr=False)  # of the coefficients, in units of 2^−bits
    bits: int = field(repr=False)

    @classmethod
    def of(
        cls, domain: Domain, coefficients: np.ndarray, response: int | None = None, regressors: Sequence[int] = ()
    ) -> Residual:
        """Round coefficients, in scaled coordinates; by default those of the response on all that come before it."""
        at = domain.width - 1 if response is None else response
        terms = tuple(regressors) or tuple(range(at))
        length = 1.0 + float(np.abs(coefficients).sum())
        if not math.isfinite(length):
            raise ValueError("coefficients are not finite")
        room = 52 - math.ceil(math.log2(length)) - math.ceil(math.log2(domain.one * domain.largest))
        bits = min(COEFFICIENT_BITS, room - 1)
        steps = np.rint(np.ldexp(np.asarray(coefficients, dtype=float), bits))
        return cls(at, terms, tuple(map(int, steps.tolist())), bits)

    @property
    def coefficients(self) -> np.ndarray:
        """The coefficients as they are used."""
        return np.ldexp(np.array(self.steps, dtype=float), -self.bits)

    def of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Compute the residuals of a block of bounded rows, in whole steps."""
        fitted = np.array(self.steps, dtype=float) @ rows[list(self.regressors)]
        response = rows[self.response]
        if self.bits < 0:  # steps of the coefficients are longer than those of the response
            return response - np.ldexp(fitted, -self.bits)
        return np.ldexp(response, self.bits) - fitted

    def per_one(self, domain: Domain) -> float:
        """Say how many steps 1.0 has."""
        return float(domain.one) * 2.0 ** max(self.bits, 0)

    def clipped(self, domain: Domain, rows: np.ndarray, clip: float, most: int) -> np.ndarray:
        """Compute clip(r, ±clip) in whole numbers: `most` of them are the clip."""
        size = clip * self.per_one(domain)
        return np.rint(np.clip(self.of_rows(rows), -size, size) * (most / size))


def octave_axis(name: str) -> Axis:
    """The axis on which absolute residuals are counted: the same for every regression, and public."""
    return Axis(name, LOWEST_OCTAVE, HIGHEST_OCTAVE, (HIGHEST_OCTAVE - LOWEST_OCTAVE) * OCTAVE_CELLS)


def octaves(sizes: np.ndarray) -> np.ndarray:
    """Find where sizes lie on the scale of octaves: 2^e·(1 + f), 0 <= f < 1, at e + f. Exact for doubles."""
    mantissa, exponent = np.frexp(sizes)
    return np.where(sizes > 0, exponent + (2 * mantissa - 2), float(LOWEST_OCTAVE))


def octave_size(position: float) -> float:
    """Find the size at a place of the scale of octaves."""
    whole = math.floor(position)
    return math.ldexp(1.0 + (position - whole), whole)


class BlockAccumulator(ABC):
    """An accumulator that shows itself bounded rows, block by block."""

    def __init__(self, domain: Domain, block_rows: int):
        self.domain, self.block_rows = domain, block_rows

    def add(self, columns: Sequence[Any], rows: int) -> None:
        """Add rows given as one arrow array (or ready numpy array) for each of `domain.columns`."""
        ready = [
            values if isinstance(values, np.ndarray) else plain_values(column, values)
            for column, values in zip(self.domain.columns, columns, strict=True)
        ]
        for start in range(0, rows, self.block_rows):
            part = [values[start : start + self.block_rows] for values in ready]
            block = np.empty((self.domain.width, len(part[0])))
            grid_rows(self.domain, part, block)
            settle_nulls(self.domain, block)
            self.add_block(block)

    @abstractmethod
    def add_block(self, rows: np.ndarray) -> None: ...

    @abstractmethod
    def finish(self) -> bytes: ...


class ResidualHistograms(BlockAccumulator):
    """An accumulator of counts of |r| by octaves, for each of some residuals: payloads as histogram.merge_histograms has them.

    Stability: one row adds 1 to one cell of each, or nothing.
    """

    def __init__(self, domain: Domain, residuals: Sequence[Residual]):
        super().__init__(domain, domain.block_rows)
        self.residuals = residuals
        self.axis = octave_axis("")
        self._counts = [np.zeros(self.axis.cells, dtype=np.int64) for _ in residuals]

    def add_block(self, rows: np.ndarray) -> None:
        kept = rows[:, rows[0] != 0]  # a dropped row has no intercept
        for residual, counts in zip(self.residuals, self._counts, strict=True):
            sizes = np.abs(residual.of_rows(kept)) / residual.per_one(self.domain)
            counts += np.bincount(self.axis.cell_of(octaves(sizes)), minlength=self.axis.cells)

    def finish(self) -> bytes:
        return b"".join(map(encode_counts, self._counts))


class ResidualSums(BlockAccumulator):
    """An accumulator of Σ x·clip(r, ±c), one sum for each regressor, then Σ clip(r)². A clip is `domain.one` steps.

    Stability: one row adds x·clip(r), of norm ‖x‖·c at most, and clip(r)², from 0 to c².
    """

    def __init__(self, domain: Domain, residual: Residual, clip: float):
        super().__init__(domain, domain.block_rows)
        self.residual, self.clip = residual, clip
        self._wide = _zeros(len(residual.regressors) + 1)

    def add_block(self, rows: np.ndarray) -> None:
        values = self.residual.clipped(self.domain, rows, self.clip, self.domain.one)
        sums = np.append(rows[list(self.residual.regressors)] @ values, values @ values)
        self._wide.add(sums.astype(np.int64))

    def finish(self) -> bytes:
        return self._wide.to_bytes()


class ResidualGrams(BlockAccumulator):
    """An accumulator of Σ v·x xᵀ with v = clip(r, ±R)² − R²/2, for each of some residuals: upper triangles, one after another.

    v is a signed weight on the grid of the values themselves: R²/2 is `domain.one` steps. A matrix with a coarser grid would
    not be that which R²/2 times the release's own is added to, and the difference would stand beside small residuals.
    v·x is `domain.one` times one whole number plus another, so that no product goes beyond 2^53.
    Stability: one row adds v·x xᵀ, |v| <= R²/2.
    """

    def __init__(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]):
        super().__init__(domain, domain.block_rows)
        self.residuals, self.clips = residuals, clips
        self._wide = [(_zeros(triangle(residual)), _zeros(triangle(residual))) for residual in residuals]

    def add_block(self, rows: np.ndarray) -> None:
        one = float(self.domain.one)
        for residual, clip, (high, low) in zip(self.residuals, self.clips, self._wide, strict=True):
            ratio = residual.clipped(self.domain, rows, clip, RATIO_STEPS) / RATIO_STEPS
            x = rows[list(residual.regressors)]
            weighted = x * np.rint((2 * ratio * ratio - 1) * one)
            ones = np.rint(weighted / one)
            upper = np.triu_indices(len(x))
            for wide, part in ((high, ones), (low, weighted - one * ones)):
                wide.add((part @ x.T)[upper].astype(np.int64))

    def finish(self) -> bytes:
        sums = [high.shifted(self.domain.bits) for high, _ in self._wide]
        for total, (_, low) in zip(sums, self._wide, strict=True):
            total.merge(low)
        return Wide(np.concatenate([w.high for w in sums]), np.concatenate([w.low for w in sums])).to_bytes()


def meat_steps(domain: Domain) -> float:
    """Steps of the integer grid of `ResidualGrams` in R²/2 of a row at its bounds."""
    return 8.0**domain.bits


def triangle(residual: Residual) -> int:
    """Count the entries of the upper triangle of a regression's x xᵀ."""
    return len(residual.regressors) * (len(residual.regressors) + 1) // 2


def _zeros(entries: int) -> Wide:
    return Wide.zero(0, entries)


class ExactSums:
    """Exact sums of residuals, in grid steps. Only a mechanism may look inside: no readable repr, no pickling."""

    def __init__(self, steps: Sequence[int]):
        self._steps = list(steps)

    @classmethod
    def from_partials(cls, payloads: Iterable[bytes], entries: int) -> ExactSums:
        total = _zeros(entries)
        for payload in payloads:
            total.merge(Wide.from_bytes(payload))
        return cls(total.to_integers())

    def reveal(self) -> list[int]:
        """Return the sums. For mechanisms and tests."""
        return list(self._steps)

    def __repr__(self) -> str:
        return f"ExactSums({len(self._steps)} numbers, not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ExactSums is private: release it through a mechanism")
