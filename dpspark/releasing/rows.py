"""The source's rows, as mechanisms ask for them; and what a kind of release makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.core.domain import Clip, Domain
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.gradient import ExactGradient
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import ExactSums, Residual
from dpspark.exact.scores import ExactScoreGrams, ExactScoreNorms, ExactScoreTotals, Scores
from dpspark.mechanisms.counts.rows import NoisyCount
from dpspark.mechanisms.regression.base import ClusterPasses
from dpspark.spark.clusters import SparkClusters, clustered
from dpspark.spark.exact_sums import (
    exact_gradient,
    exact_gram,
    exact_residual_grams,
    exact_residual_histograms,
    exact_residual_sums,
)
from dpspark.spark.frames import FrameSource
from dpspark.spark.row_source import RowSource

Report = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """The part that may be published: tables, and what the manifest says of the mechanism now that it has drawn."""

    tables: dict[str, pa.Table]
    found: dict[str, Any]
    count: NoisyCount | None = None
    drawn: tuple[float, ...] = ()  # quantiles of a whole table, in the order of the targets


class Overtaken(Exception):
    """Another driver of this release staged its result while this one was reading: no second noise is drawn."""


@dataclass
class SparkRows:
    """The source's rows, for mechanisms that ask for exact sums of them."""

    spark: Any
    source: RowSource
    overtaken: Callable[[], bool]
    count_clipped: bool = False
    last_gram: ExactGram | None = None
    keyed: RowSource | None = None  # the same rows with the key of each row's cluster, last

    def kept(self, passes: int) -> AbstractContextManager[None]:
        """Keep what Spark computes for so many passes, where that is faster than to compute it again."""
        return self.source.kept(passes)

    def gram(self, domain: Domain) -> ExactGram:
        self.last_gram = exact_gram(self.spark, self.source, domain, self.count_clipped)
        self.check()
        return self.last_gram

    def other_gram(self, domain: Domain) -> ExactGram:
        """A further matrix of the same rows, without counts."""
        found = exact_gram(self.spark, self.source, domain)
        self.check()
        return found

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        found = exact_gradient(self.spark, self.source, domain, theta, clip)
        self.check()
        return found

    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram:
        found = exact_residual_histograms(self.spark, self.source, domain, residuals)
        self.check()
        return found

    def residual_sums(self, domain: Domain, residual: Residual, clip: float) -> ExactSums:
        found = exact_residual_sums(self.spark, self.source, domain, residual, clip)
        self.check()
        return found

    def residual_grams(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]) -> ExactSums:
        found = exact_residual_grams(self.spark, self.source, domain, residuals, clips)
        self.check()
        return found

    def clusters(self, scores: Scores) -> AbstractContextManager[ClusterPasses]:
        """Add up the scores of each cluster, for the passes of a block."""
        return self._clusters(scores)

    @contextmanager
    def _clusters(self, scores: Scores) -> Iterator[ClusterPasses]:
        assert self.keyed is not None
        with clustered(self.spark, self.keyed, scores, len(scores.domain.read_columns)) as found:
            yield _Checked(found, self.check)

    def check(self) -> None:
        """Stop before noise is drawn if another driver came first, or if the source changed under this one."""
        self.source.check_unchanged()
        if self.overtaken():
            raise Overtaken


@dataclass(frozen=True)
class _Checked:
    """Passes over clusters, after each of which the source is checked."""

    found: SparkClusters
    check: Callable[[], None]

    def totals(self) -> ExactScoreTotals:
        totals = self.found.totals()
        self.check()
        return totals

    def norms(self, scales: Sequence[Sequence[int]]) -> ExactScoreNorms:
        norms = self.found.norms(scales)
        self.check()
        return norms

    def grams(self, scales: Sequence[Sequence[int]], radii: Sequence[int]) -> ExactScoreGrams:
        grams = self.found.grams(scales, radii)
        self.check()
        return grams


def with_clusters(rows: SparkRows, columns: int) -> SparkRows:
    """Let passes that need no key of clusters read none, where tasks read the files: the key comes after so many columns.

    What Spark reads it may keep, with the key, for all passes.
    """
    plain = rows.source if isinstance(rows.source, FrameSource) else rows.source.take(range(columns))
    return replace(rows, source=plain, keyed=rows.source)
