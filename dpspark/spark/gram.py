"""The exact Gram matrix of a source, on Spark."""

from __future__ import annotations

from functools import partial
from typing import Any

from dpspark.core.domain import Domain
from dpspark.exact.fixed_point import ExactGram, GramAccumulator, merge_partials, partial_bytes
from dpspark.spark.frames import FrameSource
from dpspark.spark.passes import default_parallelism, one_pass
from dpspark.source.parquet import ParquetSource
from dpspark.spark.tree import fan_in_for

__all__ = ["default_parallelism", "exact_gram"]


def exact_gram(
    spark: Any,
    source: ParquetSource | FrameSource,
    domain: Domain,
    count_clipped: bool = False,
    fan_in: int | None = None,
) -> ExactGram:
    """One pass over the source: bounded rows, block products, tree of integer sums; clipped values counted on the way."""
    more = domain.clip_counts if count_clipped else 0
    merge = partial(merge_partials, width=domain.width, more=more)
    start = partial(GramAccumulator, domain, count_clipped)
    fan_in = fan_in or fan_in_for(partial_bytes(domain.width, more))
    payloads = one_pass(spark, source, domain.read_columns, start, merge, fan_in)
    return ExactGram.from_partials(domain, payloads, count_clipped)
