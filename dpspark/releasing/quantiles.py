"""Releases of kind quantiles: of a whole table, or of each group."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpspark.mechanisms.quantiles.exponential import ExponentialQuantiles
from dpspark.mechanisms.quantiles.published import SURE
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.rows import Made, Report, SparkRows
from dpspark.releasing.tables import grouped_table, quantiles_table
from dpspark.spark.exact_sums import exact_histogram
from dpspark.spark.group_quantiles import draw_group_quantiles
from dpspark.spark.groups import LABEL, GroupList
from dpspark.spec.spec import Spec


def make_quantiles(
    spec: Spec, mechanism: ExponentialQuantiles, rows: SparkRows, noise: NoiseSource, report: Report
) -> Made:
    if spec.release.group_by is None:
        histogram = exact_histogram(rows.spark, rows.source, mechanism.domain.read_columns, mechanism.axes)
        rows.check()
        report("drawing quantiles")
        drawn = mechanism.release(histogram, noise)
        table = quantiles_table(mechanism.shown(drawn, spec.release.expected_rows))
        return Made({"quantiles": table}, {}, drawn=tuple(drawn))
    kernel, random = mechanism.kernel, KeyedRandom(noise.secret())
    groups = rows.source.groups
    found = draw_group_quantiles(rows.spark, rows.source, mechanism.domain, GroupList.of(groups), kernel, random)
    rows.check()
    nothing = {column.name: np.zeros(0) for column in mechanism.domain.columns}
    tables = []
    for code in range(len(groups.values)):
        drawn = found[code] if code in found else kernel.fit(nothing, random, LABEL, code)
        tables.append(quantiles_table(mechanism.shown(drawn, spec.release.expected_rows)))
    made = grouped_table(groups, tables)
    return Made({"quantiles": made}, {"composition": spec.records.composition})


def with_count(spec: Spec, mechanism: ExponentialQuantiles, made: Made) -> Made:
    """Add how good a whole table's quantiles are, by the number of its rows. Post-processing: no cost."""
    if spec.release.group_by is not None or made.count is None:
        return made
    fewest = max(0.0, made.count.rows - SURE * made.count.noise_std)
    table = quantiles_table(mechanism.shown(made.drawn, fewest, counted=True))
    return replace(made, tables={**made.tables, "quantiles": table})
