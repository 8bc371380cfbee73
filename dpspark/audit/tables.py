"""Small raw tables, through the code that executors run: no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import Clip, Domain
from dpspark.exact.bounds import grid_rows, plain_values, settle_nulls
from dpspark.exact.fixed_point import ExactGram, GramAccumulator
from dpspark.exact.gradient import ExactGradient, GradientAccumulator
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import (
    BlockAccumulator,
    ExactSums,
    Residual,
    ResidualGrams,
    ResidualHistograms,
    ResidualSums,
    octave_axis,
    triangle,
)
from dpspark.exact.scores import Scores, SummedClusters, sum_scores

Raw = Sequence[Sequence[object]]  # one sequence of values a row, in the order of the domain's columns


def arrays(domain: Domain, rows: Raw) -> list[Any]:
    """One arrow array for each column; those of numbers are doubles, as a NaN among them must be."""
    names = [*domain.columns, *([] if domain.weight is None else [domain.weight])]
    found = []
    for at, column in enumerate(names):
        values = [row[at] for row in rows]
        found.append(pa.array(values, type=None if hasattr(column, "categories") and values else pa.float64()))
    return found


def bounded_rows(domain: Domain, rows: Raw) -> np.ndarray:
    """Rows as they are summed, in units of 1.0: one a row."""
    out = np.empty((domain.width, len(rows)))
    columns = [plain_values(c, values) for c, values in zip(domain.columns, arrays(domain, rows), strict=False)]
    grid_rows(domain, columns, out)
    settle_nulls(domain, out)
    return out.T / domain.one


def gram_of(domain: Domain, rows: Raw, count_clipped: bool = False) -> ExactGram:
    """The exact matrix of a table."""
    accumulator = GramAccumulator(domain, count_clipped)
    if rows:
        accumulator.add(arrays(domain, rows), len(rows))
    return ExactGram.from_partials(domain, [accumulator.finish()], count_clipped)


def upper_of(gram: ExactGram) -> np.ndarray:
    """Its upper triangle in units of 1.0."""
    return np.array([value / gram.domain.steps_per_row for value in gram.reveal()])


@dataclass(frozen=True)
class TableRows:
    """A table in memory, for mechanisms that ask for sums of its rows."""

    rows: Raw
    exact: ExactGram
    codes: tuple[int, ...] | None = None  # of the rows' clusters; None: each row is one of its own

    @classmethod
    def of(cls, domain: Domain, rows: Raw, codes: Sequence[int] | None = None) -> TableRows:
        return cls(rows, gram_of(domain, rows), None if codes is None else tuple(codes))

    def gram(self, domain: Domain) -> ExactGram:
        return self.exact if self.exact.domain == domain else gram_of(domain, self.rows)

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        found = GradientAccumulator(domain, theta, clip)
        if self.rows:
            found.add(arrays(domain, self.rows), len(self.rows))
        return ExactGradient(np.frombuffer(found.finish(), dtype="<i8").tolist())

    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram:
        found = self._added(ResidualHistograms(domain, tuple(residuals.values())))
        return ExactHistogram.from_partials([octave_axis(name) for name in residuals], [found])

    def residual_sums(self, domain: Domain, residual: Residual, clip: float) -> ExactSums:
        found = self._added(ResidualSums(domain, residual, clip))
        return ExactSums.from_partials([found], len(residual.regressors) + 1)

    def residual_grams(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]) -> ExactSums:
        found = self._added(ResidualGrams(domain, residuals, clips))
        return ExactSums.from_partials([found], sum(map(triangle, residuals)))

    @contextmanager
    def clusters(self, scores: Scores) -> Iterator[SummedClusters]:
        codes = np.full(len(self.rows), -1) if self.codes is None else np.array(self.codes, dtype=np.int64)
        columns = arrays(scores.domain, self.rows) if self.rows else [np.zeros(0)] * len(scores.domain.columns)
        yield SummedClusters(scores, sum_scores(scores, columns, codes))

    def _added(self, accumulator: BlockAccumulator) -> bytes:
        if self.rows:
            accumulator.add(arrays(accumulator.domain, self.rows), len(self.rows))
        return accumulator.finish()
