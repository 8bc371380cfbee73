"""Releases of kind theil_sen: a line for each group, or one of a whole table."""

from __future__ import annotations

from typing import cast

import numpy as np

from dpspark.mechanisms.lines.base import LineMechanism
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.plane import SimpleFit
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.rows import Made, Report, SparkRows
from dpspark.releasing.tables import predictions_table
from dpspark.spark.buckets import draw_spread_sums, fit_in_buckets
from dpspark.spark.groups import LABEL, GroupList, fit_all_groups
from dpspark.spec.spec import Spec


def make_lines(spec: Spec, mechanism: LineMechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    kernel, random = mechanism.kernel, KeyedRandom(noise.secret())
    groups = rows.source.groups
    if mechanism.problem.buckets > 1:
        line = _bucketed_line(mechanism, rows, random)
        return Made({"predictions": predictions_table(groups, [line])}, {})
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
    return Made({"predictions": predictions_table(groups, fits)}, {})


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
