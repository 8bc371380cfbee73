"""Scores of clusters on Spark: the rows are read once, their sums meet once, and passes over these make what is released.

Clusters are not listed: their keys are found where the rows are, and stay there. What is sent to executors (coefficients,
bounds on residuals and on scores) is private until it is published, and travels inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpspark.exact.fixed_point import Wide
from dpspark.exact.scores import (
    EDGES,
    ExactScoreGrams,
    ExactScoreNorms,
    ExactScoreTotals,
    ScoreGrams,
    ScoreNorms,
    Scores,
    ScoreTotals,
    merge_wide,
)
from dpspark.spark.cluster_tasks import accumulate_clusters, meet_clusters, send_scores
from dpspark.spark.failures import explain_failure
from dpspark.spark.groups import TASKS_PER_CORE
from dpspark.spark.parallelism import default_parallelism
from dpspark.spark.row_source import RowSource
from dpspark.spark.tree import fan_in_for, send_to_parts, tree_reduce

MET_BYTES = 256 << 20  # of sums that meet in one task, at most, where the number of rows is known


@dataclass(frozen=True)
class SparkClusters:
    """The sums of all clusters' scores, which stay on the executors."""

    spark: Any
    scores: Scores
    frame: Any  # payload binary: sums of some clusters
    parts: int

    def totals(self) -> ExactScoreTotals:
        """Count clusters, and add up the sizes of their sums."""
        return ExactScoreTotals(self.scores, self._run(partial(ScoreTotals, self.scores), 1 + self.scores.width))

    def norms(self, scales: Sequence[Sequence[int]]) -> ExactScoreNorms:
        """Count clusters by the norms of their sums, in units of these scales of each axis."""
        entries = 2 * len(EDGES) * len(self.scores.widths)
        return ExactScoreNorms(self.scores, self._run(partial(ScoreNorms, self.scores, scales), entries))

    def grams(self, scales: Sequence[Sequence[int]], radii: Sequence[int]) -> ExactScoreGrams:
        """Add up Σ s·sᵀ of scores that are shortened to these bounds."""
        found = self._run(partial(ScoreGrams, self.scores, scales, radii), sum(self.scores.triangles))
        return ExactScoreGrams(self.scores, radii, found)

    def _run(self, start: Callable[[], Any], entries: int) -> list[int]:
        merge = partial(merge_wide, entries=entries)
        partials = self.frame.mapInArrow(accumulate_clusters(self.scores.width, start), "payload binary")
        try:
            return Wide.from_bytes(
                merge(tree_reduce(partials, self.parts, merge, fan_in_for(16 * entries)))
            ).to_integers()
        except Exception as error:
            failed = explain_failure(error)
        raise failed


@contextmanager
def clustered(spark: Any, source: RowSource, scores: Scores, at: int) -> Iterator[SparkClusters]:
    """Add up the scores of each cluster, whose key is in column `at` of the source, for the passes of this block."""
    parts = max(TASKS_PER_CORE * default_parallelism(spark), -(-_most_bytes(source, scores) // MET_BYTES))
    sent = source.map_in_arrow(spark, send_scores(scores, at, parts), "part int, payload binary")
    met = send_to_parts(sent, parts).mapInArrow(meet_clusters(scores), "payload binary")
    met.persist()
    try:
        yield SparkClusters(spark, scores, met, parts)
    finally:
        met.unpersist()


def _most_bytes(source: RowSource, scores: Scores) -> int:
    """Bound the size of all sums, as if each row were a cluster. What a frame reads is not known."""
    files = getattr(source, "files", None)
    return 0 if files is None else 8 * scores.width * sum(part.rows for part in files.parts)
