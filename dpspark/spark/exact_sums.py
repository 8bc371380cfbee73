"""Exact sums of a source's rows, on Spark: matrices, gradients, histograms, counts. One pass each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpspark.core.domain import Clip, Domain, Numeric
from dpspark.exact.fixed_point import ExactGram, GramAccumulator, merge_partials, partial_bytes
from dpspark.exact.gradient import ExactGradient, GradientAccumulator, merge_gradients
from dpspark.exact.histogram import Axis, ExactHistogram, HistogramAccumulator, merge_histograms, most_bytes, numeric_of
from dpspark.exact.residuals import (
    ExactSums,
    Residual,
    ResidualGrams,
    ResidualHistograms,
    ResidualSums,
    octave_axis,
    triangle,
)
from dpspark.exact.row_count import ExactCount, RowCounter, merge_counts
from dpspark.source.parquet import Column, ParquetSource
from dpspark.spark.passes import run_pass
from dpspark.spark.row_source import RowSource
from dpspark.spark.tree import fan_in_for


def exact_gram(
    spark: Any,
    source: ParquetSource | RowSource,
    domain: Domain,
    count_clipped: bool = False,
    fan_in: int | None = None,
) -> ExactGram:
    """Add up the Gram matrix in one pass: bounded rows, block products, a tree of integer sums; also clipped values."""
    more = domain.clip_counts if count_clipped else 0
    merge = partial(merge_partials, width=domain.width, more=more)
    start = partial(GramAccumulator, domain, count_clipped)
    fan_in = fan_in or fan_in_for(partial_bytes(domain.width, more))
    payloads = run_pass(spark, source, domain.read_columns, start, merge, fan_in)
    return ExactGram.from_partials(domain, payloads, count_clipped)


def exact_gradient(
    spark: Any, source: ParquetSource | RowSource, domain: Domain, theta: np.ndarray, clip: Clip
) -> ExactGradient:
    """Add up clipped gradients in one pass. `theta` travels inside the function: it is private until it is published."""
    width = domain.width - 1
    merge = partial(merge_gradients, width=width)
    payloads = run_pass(spark, source, domain.read_columns, partial(GradientAccumulator, domain, theta, clip), merge)
    return ExactGradient(np.frombuffer(merge(payloads), dtype="<i8").tolist())


def exact_histogram(
    spark: Any,
    source: ParquetSource | RowSource,
    columns: Sequence[Column],
    axes: Sequence[Axis],
    fan_in: int | None = None,
) -> ExactHistogram:
    """Count the values of some columns in one pass. `columns` are all that the source reads."""
    at = {column.name: i for i, column in enumerate(columns) if isinstance(column, Numeric)}
    if not isinstance(source, ParquetSource):
        source = source.take([at[axis.name] for axis in axes])
    merge = partial(merge_histograms, axes=axes)
    start = partial(HistogramAccumulator, axes)
    fan_in = fan_in or fan_in_for(most_bytes(axes))
    payloads = run_pass(spark, source, list(map(numeric_of, axes)), start, merge, fan_in)
    return ExactHistogram.from_partials(axes, payloads)


def exact_residual_histograms(
    spark: Any, source: ParquetSource | RowSource, domain: Domain, residuals: Mapping[str, Residual]
) -> ExactHistogram:
    """Count absolute residuals by octaves in one pass, under their names. Coefficients travel inside the function."""
    axes = [octave_axis(name) for name in residuals]
    start = partial(ResidualHistograms, domain, tuple(residuals.values()))
    payloads = run_pass(spark, source, domain.columns, start, partial(merge_histograms, axes=axes))
    return ExactHistogram.from_partials(axes, payloads)


def exact_residual_sums(
    spark: Any, source: ParquetSource | RowSource, domain: Domain, residual: Residual, clip: float
) -> ExactSums:
    """Add up Σ x·clip(r) and Σ clip(r)² in one pass. Coefficients and clip travel inside the function."""
    entries = len(residual.regressors) + 1
    merge = partial(merge_partials, width=0, more=entries)
    payloads = run_pass(spark, source, domain.columns, partial(ResidualSums, domain, residual, clip), merge)
    return ExactSums.from_partials(payloads, entries)


def exact_residual_grams(
    spark: Any,
    source: ParquetSource | RowSource,
    domain: Domain,
    residuals: Sequence[Residual],
    clips: Sequence[float],
) -> ExactSums:
    """Add up Σ (clip(r)² − clip²/2)·x xᵀ of some regressions in one pass. Coefficients and clips travel inside the function."""
    entries = sum(map(triangle, residuals))
    merge = partial(merge_partials, width=0, more=entries)
    start = partial(ResidualGrams, domain, tuple(residuals), tuple(clips))
    payloads = run_pass(spark, source, domain.columns, start, merge, fan_in_for(partial_bytes(0, entries)))
    return ExactSums.from_partials(payloads, entries)


def exact_count(spark: Any, source: ParquetSource | RowSource, domain: Domain, by_value: bool) -> ExactCount:
    """Count the rows in one more pass. `by_value`: a null costs its row one value, not the row."""
    drop_nulls = domain.nulls == "drop_row" and not by_value
    columns = domain.columns if drop_nulls else domain.columns[:1]
    if not isinstance(source, ParquetSource):
        source = source.take(range(len(columns)))
    payloads = run_pass(spark, source, columns, partial(RowCounter, columns, drop_nulls), merge_counts)
    return ExactCount(int(np.frombuffer(merge_counts(payloads), "<i8")[0]))
