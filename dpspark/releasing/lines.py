"""Releases of kind theil_sen: a line for each group, or one of a whole table."""

from __future__ import annotations

import numpy as np

from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.grouped import GroupedLines
from dpspark.mechanisms.lines.interval import LineWithInterval
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import SimpleFit
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.rows import Made, Report, SparkRows, kept_for_many_passes
from dpspark.releasing.tables import predictions_table
from dpspark.spark.buckets import bucketed_fit, bucketed_sums
from dpspark.spark.frames import FrameSource
from dpspark.spark.groups import LABEL, GroupList, grouped_fits
from dpspark.spec.spec import Spec


def make_lines(spec: Spec, mechanism: GroupedLines, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    kernel, random = mechanism.line.kernel, KeyedRandom(noise.secret())
    assert isinstance(rows.source, FrameSource)
    groups = rows.source.groups
    if mechanism.buckets > 1:
        line = _bucketed_line(mechanism, kernel, rows, random)
        return Made({"predictions": predictions_table(groups, [line])}, {})
    found = grouped_fits(
        rows.spark,
        rows.source,
        mechanism.domain,
        GroupList(groups.texts) if groups.names else None,
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


def _bucketed_line(mechanism: GroupedLines, kernel: Kernel, rows: SparkRows, random: KeyedRandom) -> SimpleFit:
    """A large table's line; one more pass for its interval."""
    whole = kernel if isinstance(kernel, LineWithInterval) else None
    alone = kernel if whole is None else whole.kernel
    assert isinstance(alone, ExponentialTheilSen)
    assert isinstance(rows.source, FrameSource)
    with kept_for_many_passes(rows.source, 1 if whole is None else 2):
        line = bucketed_fit(rows.source, mechanism.domain, mechanism.buckets, alone, random)
        rows.check()
        if whole is None:
            return line
        sums = bucketed_sums(rows.source, mechanism.domain, whole.sums, line, random)
    rows.check()
    return whole.with_interval(line, sums)
