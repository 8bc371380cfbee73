"""Exact sums of clusters' scores: whole numbers, the same for any partitioning and on any machine.

The score of a row is x·clip(r, ±R), x its place on the axes of a regression (core.scores) and r its residual; a cluster's is
the sum over its rows, t. It is weighted by public scales and shortened to a bound C, s, and what is released is made of Σ s·sᵀ
over clusters. A row's score is rounded by itself, to steps of R over SCORE_STEPS; sums are exact; a cluster's shortened score
is rounded by itself, to steps of C over SCORE_STEPS. So one row changes the numbers of its cluster and of no other, whatever
else is in its batch.

Beside the scores, clip(r, ±R)² is added up: how much of Σ r² is beyond the clips can be told by it. Several regressions have
their numbers one below the other, in one sum for each cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from dpspark.core.domain import SCORE_STEPS, Domain
from dpspark.core.scores import SHIFT_STEPS, ScoreAxes
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
    """The regressions whose scores are added up: residuals, the bounds on these, and axes. Travels to the tasks."""

    domain: Domain
    residuals: tuple[Residual, ...]
    clips: tuple[float, ...] = field(repr=False)  # private until they are published
    axes: tuple[ScoreAxes, ...] = field(repr=False)

    @property
    def width(self) -> int:
        """The numbers of one cluster: for each regression its scores and Σ clip(r)²."""
        return sum(width + 1 for width in self.widths)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(axes.width for axes in self.axes)

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
        for residual, clip, axes in zip(self.scores.residuals, self.scores.clips, self.scores.axes, strict=True):
            size = residual.clipped(self.domain, rows, clip, SCORE_STEPS)
            # Places are whole numbers; the rest is elementwise, and the same on any machine.
            places = (
                rows[list(residual.regressors)] * SHIFT_STEPS - np.array(axes.shifts, dtype=float)[:, None] * rows[0]
            )
            unit = 1 / (SHIFT_STEPS * float(self.domain.one) * np.array(axes.extents))
            found.append(np.clip(np.rint(places * size * unit[:, None]), -SCORE_STEPS, SCORE_STEPS))
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


def weigh_scores(sums: np.ndarray, scales: Sequence[int]) -> np.ndarray:
    """Write clusters' sums in units of a public scale for each axis: SCORE_STEPS of steps are one."""
    return sums.astype(float) * (SCORE_STEPS / np.array(scales, dtype=float))[:, None]


def score_norms(weighted: np.ndarray) -> np.ndarray:
    """Compute the norm of each cluster's sum in whole steps, up to the highest bound; in a fixed order, elementwise."""
    total = np.zeros(weighted.shape[1])
    for row in weighted:
        total += row * row
    return np.minimum(np.rint(np.sqrt(total)), float(EDGES[-1])).astype(np.int64)


def project_scores(weighted: np.ndarray, radius: int) -> np.ndarray:
    """Shorten clusters' sums to a norm of `radius` steps at most; in steps of which SCORE_STEPS are the radius, rounded."""
    scaled = weighted * (SCORE_STEPS / radius)
    shorten("cap", float(SCORE_STEPS), scaled)
    return np.rint(scaled)


class ScoreTotals:
    """An accumulator of the number of clusters, and for each regression of Σ |t_j| over clusters, axis by axis, and Σ clip(r)².

    Stability: one cluster adds 1, and the sizes of its sums; one row adds clip(r)², in steps of R² over SCORE_STEPS.
    """

    def __init__(self, scores: Scores):
        self.scores = scores
        self._wide = Wide.zero(0, 1 + scores.width)

    def add(self, sums: np.ndarray) -> None:
        """Add clusters, one column each, at most BLOCK_CLUSTERS of them."""
        self._wide.add(np.concatenate([[sums.shape[1]], np.abs(sums).sum(axis=1)]).astype(np.int64))

    def finish(self) -> bytes:
        return self._wide.to_bytes()


class ScoreNorms:
    """An accumulator of clusters' weighted norms by the bounds of EDGES: for each regression their numbers, then their sums.

    Stability: one cluster adds 1 to one count, and its norm to the sum beside it.
    """

    def __init__(self, scores: Scores, scales: Sequence[Sequence[int]]):
        self.scores, self.scales = scores, scales
        self._wide = Wide.zero(0, 2 * len(EDGES) * len(scores.widths))

    def add(self, sums: np.ndarray) -> None:
        """Add clusters, one column each, at most BLOCK_CLUSTERS of them."""
        found = []
        for part, scales in zip(self.scores.parts(sums), self.scales, strict=True):
            norms = score_norms(weigh_scores(part[:-1], scales))
            cells = np.searchsorted(EDGES, norms, "right") - 1
            totals = np.zeros(len(EDGES), dtype=np.int64)
            np.add.at(totals, cells, norms)
            found += [np.bincount(cells, minlength=len(EDGES)), totals]
        self._wide.add(np.concatenate(found).astype(np.int64))

    def finish(self) -> bytes:
        return self._wide.to_bytes()


class ScoreGrams:
    """An accumulator of Σ s·sᵀ over clusters, upper triangles, one regression after the other."""

    def __init__(self, scores: Scores, scales: Sequence[Sequence[int]], radii: Sequence[int]):
        self.scores, self.scales, self.radii = scores, scales, radii
        self._wide = Wide.zero(0, sum(scores.triangles))

    def add(self, sums: np.ndarray) -> None:
        """Add clusters, one column each, at most BLOCK_CLUSTERS of them."""
        found = []
        for part, scales, radius in zip(self.scores.parts(sums), self.scales, self.radii, strict=True):
            shortened = project_scores(weigh_scores(part[:-1], scales), radius)
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


class ExactScoreTotals:
    """The exact number of clusters, and sums of sizes and squares. Only a mechanism may look inside: no repr, no pickling."""

    def __init__(self, scores: Scores, found: Sequence[int]):
        self._scores, self._found = scores, list(found)

    def reveal_count(self) -> int:
        """Return the number of clusters. For mechanisms and tests."""
        return self._found[0]

    def reveal(self, regression: int) -> tuple[list[int], int]:
        """Return Σ |t_j| for each axis, and Σ clip(r)², of which SCORE_STEPS are R². For mechanisms and tests."""
        start = 1 + sum(width + 1 for width in self._scores.widths[:regression])
        end = start + self._scores.widths[regression]
        return self._found[start:end], self._found[end]

    def __repr__(self) -> str:
        return "ExactScoreTotals(not shown)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ExactScoreTotals is private: release it through a mechanism")


class ExactScoreNorms:
    """Exact numbers and sums of clusters' norms. Only a mechanism may look inside: no readable repr, no pickling."""

    def __init__(self, scores: Scores, found: Sequence[int]):
        parts = np.array(found, dtype=object).reshape(len(scores.widths), -1)
        self._counts, self._sums = np.split(parts, 2, axis=1)

    def reveal_excess(self, regression: int) -> list[int]:
        """Return Σ max(0, ‖t‖ − edge) over clusters, for each edge of EDGES. For mechanisms and tests."""
        counts, sums = self._counts[regression], self._sums[regression]
        above, norms = np.cumsum(counts[::-1])[::-1], np.cumsum(sums[::-1])[::-1]
        return [int(total - count * int(edge)) for total, count, edge in zip(norms, above, EDGES, strict=True)]

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

    def totals(self) -> ExactScoreTotals:
        return ExactScoreTotals(self.scores, self._added(ScoreTotals(self.scores)))

    def norms(self, scales: Sequence[Sequence[int]]) -> ExactScoreNorms:
        return ExactScoreNorms(self.scores, self._added(ScoreNorms(self.scores, scales)))

    def grams(self, scales: Sequence[Sequence[int]], radii: Sequence[int]) -> ExactScoreGrams:
        return ExactScoreGrams(self.scores, radii, self._added(ScoreGrams(self.scores, scales, radii)))

    def _added(self, total: ScoreTotals | ScoreNorms | ScoreGrams) -> list[int]:
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
