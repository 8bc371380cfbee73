"""Releases of kind theil_sen: a line for each group, or one of a whole table."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa

from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.plane import SimpleFit
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.rows import Made, Report, SparkRows
from dpspark.releasing.tables import group_counts_table, line_cells_table, predictions_table
from dpspark.spark.buckets import draw_spread_sums, fit_in_buckets
from dpspark.spark.group_counts import count_groups, scaled_lines
from dpspark.spark.groups import LABEL, GroupList, fit_all_groups
from dpspark.spec.extras import counted_groups
from dpspark.spec.spec import Spec


def make_lines(spec: Spec, mechanism: LineMechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    kernel, random = mechanism.kernel, KeyedRandom(noise.secret())
    groups = rows.source.groups
    if mechanism.problem.buckets > 1:
        line = _bucketed_line(mechanism, rows, random)
        return Made({"predictions": predictions_table(groups, [line])}, {})
    counts = spec.release.group_counts is not None
    with rows.kept(2 if counts else 1):
        found = fit_all_groups(
            rows.spark,
            rows.source,
            mechanism.domain,
            GroupList.of(groups) if groups.names else None,
            mechanism.plane.wanted,
            kernel,
            random,
        )
        rows.check()
        report("fitting groups without rows")
        nothing = np.zeros(0)
        fits = [
            found[code] if code in found else kernel.fit(nothing, nothing, random, LABEL, code)
            for code in range(len(groups.values))
        ]
        tables = {"predictions": predictions_table(groups, fits)}
        return Made({**tables, **(_counted(spec, mechanism, rows, noise, fits, report) if counts else {})}, {})


def _counted(
    spec: Spec, mechanism: LineMechanism, rows: SparkRows, noise: NoiseSource, fits: list[SimpleFit], report: Report
) -> dict[str, pa.Table]:
    """Count each group's rows, and how all rows lie around the lines, in one more pass; then draw the noise."""
    report("counting the rows of groups")
    counted, groups, plane = counted_groups(spec), rows.source.groups, mechanism.plane
    exact = count_groups(
        rows.spark,
        rows.source,
        mechanism.domain,
        GroupList.of(groups),
        scaled_lines(plane, fits),
        plane,
        counted.cells,
        counted.axes(len(groups.values)),
    )
    rows.check()
    noisy = counted.release(exact, noise)
    return {"group_counts": group_counts_table(groups, noisy), "line_cells": line_cells_table(counted.cells, noisy)}


def _bucketed_line(mechanism: LineMechanism, rows: SparkRows, random: KeyedRandom) -> SimpleFit:
    """Fit a large table's line; one more pass for its interval."""
    line, interval, buckets = cast(ExponentialTheilSen, mechanism.line), mechanism.interval, mechanism.problem.buckets
    with rows.kept(1 if interval is None else 2):
        fit = fit_in_buckets(rows.spark, rows.source, mechanism.domain, buckets, line, random)
        rows.check()
        if interval is None:
            return fit
        sums = draw_spread_sums(rows.spark, rows.source, mechanism.domain, interval.sums, fit, random)
    rows.check()
    return interval.around(line).with_interval(fit, sums)
