"""Rows in memory, summed by the code that executors run: for mechanisms that ask for sums more than once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpspark.core.domain import Clip, Domain
from dpspark.exact.fixed_point import ExactGram, GramAccumulator, Wide
from dpspark.exact.gradient import ExactGradient
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import (
    ExactSums,
    Residual,
    ResidualGrams,
    ResidualHistograms,
    ResidualSums,
    octave_axis,
    triangle,
)


class _Adding(Protocol):
    def add(self, columns: Sequence[np.ndarray], rows: int) -> None: ...
    def finish(self) -> bytes: ...


@dataclass(frozen=True)
class ArrayRows:
    """Columns of numbers, in the order of a domain's; the first `n` rows of as many repetitions as that takes."""

    columns: tuple[np.ndarray, ...]
    n: int

    @property
    def parts(self) -> list[tuple[tuple[np.ndarray, ...], int]]:
        """Columns, and how often they count."""
        times, rest = divmod(self.n, len(self.columns[0]))
        return [(self.columns, times), (tuple(column[:rest] for column in self.columns), 1)]

    def gram(self, domain: Domain) -> ExactGram:
        entries = domain.width * (domain.width + 1) // 2
        return ExactGram(domain, self._sums([GramAccumulator(domain) for _ in self.parts], entries))

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        raise NotImplementedError("no experiment asks for it")

    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram:
        axes = [octave_axis(name) for name in residuals]
        totals = [np.zeros(axis.cells, dtype=np.int64) for axis in axes]
        for columns, times in self.parts:
            counted = ResidualHistograms(domain, tuple(residuals.values()))
            counted.add(columns, len(columns[0]))
            found = ExactHistogram.from_partials(axes, [counted.finish()])
            for total, axis in zip(totals, axes, strict=True):
                cells, counts = found.reveal(axis.name)
                total[cells] += times * counts
        return ExactHistogram(axes, totals)

    def residual_sums(self, domain: Domain, residual: Residual, clip: float) -> ExactSums:
        adding = [ResidualSums(domain, residual, clip) for _ in self.parts]
        return ExactSums(self._sums(adding, len(residual.regressors) + 1))

    def residual_grams(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]) -> ExactSums:
        adding = [ResidualGrams(domain, residuals, clips) for _ in self.parts]
        return ExactSums(self._sums(adding, sum(map(triangle, residuals))))

    def _sums(self, adding: Sequence[_Adding], entries: int) -> list[int]:
        total = [0] * entries
        for accumulator, (columns, times) in zip(adding, self.parts, strict=True):
            accumulator.add(columns, len(columns[0]))
            found = Wide.from_bytes(accumulator.finish()).to_integers()
            total = [before + times * more for before, more in zip(total, found, strict=True)]
        return total
