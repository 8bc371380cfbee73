"""Distinguishing by errors and by NaN: tables that differ by one hostile record must end alike.

What is compared is all that a reader sees but the noisy numbers: how it ended, the error's kind and text, warnings (one of an
overflow tells of an outlier), which tables are published, their columns, types, rows and names.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.audit.attacks import Finding
from dpspark.audit.tables import Raw, TableRows, arrays
from dpspark.core.domain import Categorical, Clip, Domain
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.gradient import ExactGradient
from dpspark.exact.histogram import ExactHistogram, HistogramAccumulator
from dpspark.exact.residuals import ExactSums, Residual
from dpspark.exact.scores import Scores
from dpspark.mechanisms.regression.base import ClusterPasses
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource, OpenDPNoise
from dpspark.releasing.make import make
from dpspark.releasing.rows import SparkRows
from dpspark.releasing.tables import predictions_table, quantiles_table
from dpspark.source.group_keys import NO_GROUPS
from dpspark.spark.groups import LABEL, row_reader
from dpspark.spec.choose import choose, choose_lines, choose_quantiles
from dpspark.spec.spec import Spec

Publish = Callable[[Spec, Raw, NoiseSource], dict[str, pa.Table]]


class MemoryRows(SparkRows):
    """The rows of a small table, summed by the code that executors run."""

    def __init__(self, domain: Domain, rows: Raw):
        super().__init__(None, None, lambda: False)  # type: ignore[arg-type]
        self.table = TableRows.of(domain, rows)

    def kept(self, passes: int) -> AbstractContextManager[None]:
        return nullcontext()

    def gram(self, domain: Domain) -> ExactGram:
        self.last_gram = self.table.gram(domain)
        return self.last_gram

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        return self.table.gradient(domain, theta, clip)

    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram:
        return self.table.residual_histograms(domain, residuals)

    def residual_sums(self, domain: Domain, residual: Residual, clip: float) -> ExactSums:
        return self.table.residual_sums(domain, residual, clip)

    def residual_grams(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]) -> ExactSums:
        return self.table.residual_grams(domain, residuals, clips)

    def clusters(self, scores: Scores) -> AbstractContextManager[ClusterPasses]:
        return self.table.clusters(scores)


def publish(spec: Spec, rows: Raw, noise: NoiseSource) -> dict[str, pa.Table]:
    """The tables that a release of these rows would have, without Spark."""
    return PUBLISHERS.get(spec.release.kind, _sums)(spec, rows, noise)


def _sums(spec: Spec, rows: Raw, noise: NoiseSource) -> dict[str, pa.Table]:
    mechanism = choose(spec)
    return make(spec, mechanism, MemoryRows(mechanism.domain, rows), noise, lambda step: None).tables


def _line(spec: Spec, rows: Raw, noise: NoiseSource) -> dict[str, pa.Table]:
    mechanism = choose_lines(spec)
    domain = mechanism.domain
    batch = pa.record_batch(arrays(domain, rows), names=[column.name for column in domain.columns])
    (kept,) = row_reader(domain, None)(iter([batch]))
    x, y = (kept.column(at).to_numpy() for at in (1, 2))
    fit = mechanism.kernel.fit(x, y, KeyedRandom(noise.secret()), LABEL, 0)
    return {"predictions": predictions_table(NO_GROUPS, [fit])}


def _quantiles(spec: Spec, rows: Raw, noise: NoiseSource) -> dict[str, pa.Table]:
    mechanism = choose_quantiles(spec)
    counted = HistogramAccumulator(mechanism.axes)
    counted.add(arrays(mechanism.domain, rows), len(rows))
    histogram = ExactHistogram.from_partials(mechanism.axes, [counted.finish()])
    return {"quantiles": quantiles_table(mechanism.shown(mechanism.release(histogram, noise), None))}


# What is drawn on executors has no exact sums to make a release of.
PUBLISHERS: dict[str, Publish] = {"theil_sen": _line, "quantiles": _quantiles}


def hostile_tables(domain: Domain) -> list[Raw]:
    """Neighbours of two tables: of none but one row, and of a plain one."""
    plain = [tuple(c.categories[0] if isinstance(c, Categorical) else c.middle for c in domain.columns)] * 12
    records: list[tuple[object, ...]] = []
    for value in (math.nan, math.inf, -math.inf, 1e308, 5e-324, None):
        records.append(tuple(None if isinstance(c, Categorical) else value for c in domain.columns))
    if domain.blocks:
        records.append(tuple(_unknown(c) if isinstance(c, Categorical) else c.middle for c in domain.columns))
    tables: list[Raw] = [[], plain[:1], plain, plain[:-1]]
    for record in records:
        tables += [[record], [*plain, record], [record] * 12]
    return tables


def _unknown(column: Categorical) -> object:
    """A value that is none of the categories, of their type: no column holds text beside whole numbers."""
    first = column.categories[0]
    if isinstance(first, str):
        return "\0unknown"
    return None if isinstance(first, bool) else max(int(each) for each in column.categories) + 1


def outcome(spec: Spec, rows: Raw, of: Publish) -> Hashable:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            tables = of(spec, rows, OpenDPNoise())
        except Exception as error:
            return type(error).__name__, str(error)
    # Which numbers are missing depends on the noise; everything else must not depend on anything.
    shape = tuple((name, str(table.schema), table.num_rows, _names(table)) for name, table in sorted(tables.items()))
    return shape, tuple(sorted({str(warning.message) for warning in warned}))


def _names(table: Any) -> tuple[Any, ...]:
    columns = [name for name in ("row", "col", "term", "column", "probability") if name in table.column_names]
    return tuple(tuple(table[name].to_pylist()) for name in columns)


def errors_finding(spec: Spec, target: str, of: Publish = publish) -> Finding:
    tables = hostile_tables(choose(spec).domain)
    seen = {outcome(spec, rows, of) for rows in tables}
    note = "kinds of outcome, over hostile tables"
    return Finding(
        "errors", target, spec.privacy.neighbours, "outcomes", 1, len(seen), len(tables), len(seen) > 1, note=note
    )
