"""What a release makes of the rows: its tables. One file for each kind beside this one; the flow around it is in run.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpspark.bundle.files import HIERARCHY
from dpspark.mechanisms.counts.rows import NoisyCount
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.gram import make_gram
from dpspark.releasing.lines import make_lines
from dpspark.releasing.quantiles import make_quantiles, with_count
from dpspark.releasing.regression import make_regression
from dpspark.releasing.rows import Made, Report, SparkRows
from dpspark.releasing.tables import diagnostics_table, hierarchy_table
from dpspark.spark.exact_sums import exact_count
from dpspark.spec.choose import Mechanism
from dpspark.spec.extras import clipped_counts, counted_rows
from dpspark.spec.spec import Spec

MAKERS: dict[str, Callable[..., Made]] = {
    "gram": make_gram,
    "regression": make_regression,
    "theil_sen": make_lines,
    "quantiles": make_quantiles,
}
# What a number of rows that was paid for says of the rest.
COUNTED: dict[str, Callable[[Spec, Any, Made], Made]] = {"quantiles": with_count}
# Where the first entry is the number of rows.
FIRST_ENTRY = {"gram": "second_moment", "regression": "statistics"}


def make(spec: Spec, mechanism: Mechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    """Read, add noise once, and lay out what may be published."""
    kind = spec.release.kind
    made = MAKERS[kind](spec, mechanism, rows, noise, report)
    if spec.release.levels is not None:
        made.tables[HIERARCHY] = hierarchy_table(spec.release.levels, rows.source.groups)
    if rows.count_clipped:
        assert rows.last_gram is not None
        first = made.tables[FIRST_ENTRY[kind]]["value"][0].as_py()
        shares = clipped_counts(spec, mechanism.domain).release(rows.last_gram, first, noise)
        made.tables["diagnostics"] = diagnostics_table(shares)
    if spec.count is None:
        return made
    made = replace(made, count=_count(spec, mechanism, made, rows, noise, report))
    return COUNTED[kind](spec, mechanism, made) if kind in COUNTED else made


def released_rows(spec: Spec, made: Made) -> float | None:
    """The number of rows as the release itself tells it, with its noise; None where it does not."""
    if made.count is not None:
        return float(made.count.rows)
    return float(made.tables[FIRST_ENTRY[spec.release.kind]]["value"][0].as_py()) if spec.tells_its_rows else None


def _count(
    spec: Spec, mechanism: Mechanism, made: Made, rows: SparkRows, noise: NoiseSource, report: Report
) -> NoisyCount:
    if spec.tells_its_rows:
        table = made.tables[FIRST_ENTRY[spec.release.kind]]
        return NoisyCount(round(table["value"][0].as_py()), table["noise_std"][0].as_py())
    report("counting rows")
    exact = exact_count(rows.spark, rows.source, mechanism.domain, by_value=spec.release.kind == "quantiles")
    rows.check()
    return counted_rows(spec).release(exact, noise)
