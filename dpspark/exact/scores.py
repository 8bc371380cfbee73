"""Exact sums of clusters' scores: whole numbers, the same for any partitioning and on any machine.

The score of a row is x·clip(r, ±R), x its intercept and regressors and r its residual; a cluster's is the sum over its rows, t.
It is shortened to a bound C, s, and what is released is made of Σ s·sᵀ over clusters. A row's score is rounded by itself, to
steps of R over SCORE_STEPS; sums are exact; a cluster's shortened score is rounded by itself, to steps of C over SCORE_STEPS.
So one row changes the numbers of its cluster and of no other, whatever else is in its batch.

Beside the scores, clip(r, ±R)² is added up: how much of Σ r² is beyond the clips can be told by it. Several regressions have
their numbers one below the other, in one sum for each cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from dpspark.core.domain import SCORE_STEPS, Domain
from dpspark.exact.bounds import shorten
from dpspark.exact.fixed_point import Wide
from dpspark.exact.residuals import BlockAccumulator, Residual

# The bounds that there can be, in steps of a row's score: four for each octave, from R/256 to 2^21·R; and nothing.
LOWEST_BIT, HIGHEST_BIT, OCTAVE_EDGES = 12, 41, 4
EDGES = np.array(
    [0]
    + [(OCTAVE_EDGES + i) << bit - 2 for bit in range(LOWEST_BIT, HIGHEST_BIT) for i in range(OCTAVE_EDGES)]
    + [1 << HIGHEST_BIT],
    dtype=np.int64,
)
BLOCK_CLUSTERS = 8192  # their products add up to 2^53 at most: float64 is exact in any order


@dataclass(frozen=True)
class Scores:
    """The regressions whose scores are added up: their residuals, and the bounds on these. Travels to the tasks."""

    domain: Domain
    residuals: tuple[Residual, ...]
    clips: tuple[float, ...] = field(repr=False)  # private until they are published

    @property
    def width(self) -> int:
        """The numbers of one cluster: for each regression its scores and Σ clip(r)²."""
        return sum(width + 1 for width in self.widths)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(residual.regressors) for residual in self.residuals)

    @property
    def triangles(self) -> tuple[int, ...]:
        """The entries of each regression's matrix."""
        return tuple(width * (width + 1) // 2 for width in self.widths)

    def parts(self, sums: np.ndarray) -> list[np.ndarray]:
        """Cut clusters' sums into those of each regression, the squares last."""
        return np.split(sums, np.cumsum([width + 1 for width in self.widths])[:-1])


class RowScores(BlockAccumulator):
    """The scores of the rows that it is shown, one column each, and which rows the null policy keeps."""

    def __init__(self, scores: Scores):
        super().__init__(scores.domain, scores.domain.block_rows)
        self.scores = scores
        self._values: list[np.ndarray] = []
        self._kept: list[np.ndarray] = []

    def add_block(self, rows: np.ndarray) -> None:
        found = []
        for residual, clip in zip(self.scores.residuals, self.scores.clips, strict=True):
            size = residual.clipped(self.domain, rows, clip, SCORE_STEPS)
            # A product of two whole numbers below 2^53, over a power of two: only the rounding rounds.
            found.append(np.rint(rows[list(residual.regressors)] * size / self.domain.one))
            found.append(np.rint(size * size / SCORE_STEPS)[None] * (rows[0] != 0))
        self._values.append(np.concatenate(found))
        self._kept.append(rows[0] != 0)  # a dropped row has no intercept

    def take(self) -> tuple[np.ndarray, np.ndarray]:
        """Hand over the scores so far, and the marks."""
        values = np.concatenate([np.zeros((self.scores.width, 0)), *self._values], axis=1)
        kept = np.concatenate([np.zeros(0, dtype=bool), *self._kept])
        self._values, self._kept = [], []
        return values, kept

    def finish(self) -> bytes:
        raise NotImplementedError("scores are taken batch by batch")


def sum_by_code(values: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Add up columns of whole numbers with one code each: the codes that there are, in order, and their sums in int64."""
    if not len(codes):
        return codes, np.zeros((len(values), 0), dtype=np.int64)
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    return ordered[starts], np.add.reduceat(values[:, order], starts, axis=1).astype(np.int64)


def score_norms(sums: np.ndarray) -> np.ndarray:
    """Compute the norm of each cluster's sum in whole steps, up to the highest bound; in a fixed order, elementwise."""
    total = np.zeros(sums.shape[1])
    for row in sums.astype(float):
        total += row * row
    return np.minimum(np.rint(np.sqrt(total)), float(EDGES[-1])).astype(np.int64)


def project_scores(sums: np.ndarray, radius: int) -> np.ndarray:
    """Shorten clusters' sums to a norm of `radius` steps at most; in steps of which SCORE_STEPS are the radius, rounded."""
    scaled = sums.astype(float) * (SCORE_STEPS / radius)
    shorten("cap", float(SCORE_STEPS), scaled)
    return np.rint(scaled)


class ScoreNorms:
    """An accumulator of clusters' norms by the bounds of EDGES: for each regression their numbers, their sums, and Σ clip(r)².

    Stability: one cluster adds 1 to one count, and its norm to the sum beside it; one row adds clip(r)², in steps of R² over
    SCORE_STEPS.
    """

    def __init__(self, scores: Scores):
        self.scores = scores
        self._wide = Wide.zero(0, norm_entries(scores))

    def add(self, sums: np.ndarray) -> None:
        """Add clusters, one column each, at most BLOCK_CLUSTERS of them."""
        found = []
        for part in self.scores.parts(sums):
            norms = score_norms(part[:-1])
            cells = np.searchsorted(EDGES, norms, "right") - 1
            totals = np.zeros(len(EDGES), dtype=np.int64)
            np.add.at(totals, cells, norms)
            found += [np.bincount(cells, minlength=len(EDGES)), totals, part[-1:].sum(axis=1)]
        self._wide.add(np.concatenate(found).astype(np.int64))

    def finish(self) -> bytes:
        return self._wide.to_bytes()


def norm_entries(scores: Scores) -> int:
    """Count the numbers that ScoreNorms adds up."""
    return (2 * len(EDGES) + 1) * len(scores.widths)


class ScoreGrams:
    """An accumulator of Σ s·sᵀ over clusters, upper triangles, one regression after the other."""

    def __init__(self, scores: Scores, radii: Sequence[int]):
        self.scores, self.radii = scores, radii
        self._wide = Wide.zero(0, sum(scores.triangles))

    def add(self, sums: np.ndarray) -> None:
        """Add clusters, one column each, at most BLOCK_CLUSTERS of them."""
        found = []
        for part, radius in zip(self.scores.parts(sums), self.radii, strict=True):
            shortened = project_scores(part[:-1], radius)
            found.append((shortened @ shortened.T)[np.triu_indices(len(shortened))])
        self._wide.add(np.concatenate(found).astype(np.int64))

    def finish(self) -> bytes:
        return self._wide.to_bytes()


def merge_wide(payloads: Iterable[bytes], entries: int) -> bytes:
    """Add up payloads of so many numbers, in any order."""
    total = Wide.zero(0, entries)
    for payload in payloads:
        total.merge(Wide.from_bytes(payload))
    return total.to_bytes()


class ExactScoreNorms:
    """Exact numbers and sums of clusters' norms. Only a mechanism may look inside: no readable repr, no pickling."""

    def __init__(self, scores: Scores, found: Sequence[int]):
        parts = np.array(found, dtype=object).reshape(len(scores.widths), -1)
        self._counts, self._sums, self._squares = np.split(parts, [len(EDGES), 2 * len(EDGES)], axis=1)

    def reveal_count(self) -> int:
        """Return the number of clusters. For mechanisms and tests."""
        return int(self._counts[0].sum())

    def reveal_excess(self, regression: int) -> list[int]:
        """Return Σ max(0, ‖t‖ − edge) over clusters, for each edge of EDGES. For mechanisms and tests."""
        counts, sums = self._counts[regression], self._sums[regression]
        above, norms = np.cumsum(counts[::-1])[::-1], np.cumsum(sums[::-1])[::-1]
        return [int(total - count * int(edge)) for total, count, edge in zip(norms, above, EDGES, strict=True)]

    def reveal_squares(self, regression: int) -> int:
        """Return Σ clip(r)² over rows, of which SCORE_STEPS are R². For mechanisms and tests."""
        return int(self._squares[regression, 0])

    def __repr__(self) -> str:
        return "ExactScoreNorms(not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ExactScoreNorms is private: release it through a mechanism")


class ExactScoreGrams:
    """Exact Σ s·sᵀ of regressions, in steps of C² over SCORE_STEPS². Only a mechanism may look inside."""

    def __init__(self, scores: Scores, radii: Sequence[int], found: Sequence[int]):
        self.radii, self._found, self._ends = tuple(radii), list(found), np.cumsum(scores.triangles).tolist()

    def reveal(self, regression: int) -> list[int]:
        """Return a regression's upper triangle, row by row. For mechanisms and tests."""
        return self._found[self._ends[regression - 1] if regression else 0 : self._ends[regression]]

    def __repr__(self) -> str:
        return "ExactScoreGrams(not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ExactScoreGrams is private: release it through a mechanism")


@dataclass(frozen=True)
class SummedClusters:
    """The sums of all clusters' scores in memory, for the passes that make what is released."""

    scores: Scores
    sums: np.ndarray

    def norms(self) -> ExactScoreNorms:
        return ExactScoreNorms(self.scores, self._added(ScoreNorms(self.scores)))

    def grams(self, radii: Sequence[int]) -> ExactScoreGrams:
        return ExactScoreGrams(self.scores, radii, self._added(ScoreGrams(self.scores, radii)))

    def _added(self, total: ScoreNorms | ScoreGrams) -> list[int]:
        for start in range(0, self.sums.shape[1], BLOCK_CLUSTERS):
            total.add(self.sums[:, start : start + BLOCK_CLUSTERS])
        return Wide.from_bytes(total.finish()).to_integers()


def sum_scores(scores: Scores, columns: Sequence[Any], codes: np.ndarray) -> np.ndarray:
    """Add up the scores of rows in memory, by their clusters' numbers; a negative one is a cluster of its own."""
    of_rows = RowScores(scores)
    of_rows.add(columns, len(codes))
    values, kept = of_rows.take()
    values, codes = values[:, kept], codes[kept]
    alone = codes < 0
    _, together = sum_by_code(values[:, ~alone], codes[~alone])
    return np.concatenate([together, values[:, alone].astype(np.int64)], axis=1)
