"""The stages that are paid for beside the release itself: private bounds before it, clipped shares and a row count after it.

Each has its share of the budget; basic composition adds them up. What they find is private until the whole release is
published: it stays in memory on the driver and inside the functions sent to executors, and is staged once, at the end.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from dpspark.core.domain import Domain, Numeric
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.mechanisms.gram.noisy import AdditiveNoise, noise_to_manifest
from dpspark.mechanisms.lines.grouped import GroupedLines
from dpspark.mechanisms.quantiles.exponential import Quantiles, ordered_edges
from dpspark.privacy.noise import NoiseSource
from dpspark.source.parquet import ParquetSource
from dpspark.spark.exact_sums import exact_histogram
from dpspark.spark.frames import FrameSource
from dpspark.spec.choose import Mechanism, choose_squared_weights, with_domain
from dpspark.spec.spec import Spec


def bound_quantiles(spec: Spec) -> Quantiles:
    """The mechanism that finds the private bounds: a lower and an upper quantile of each such column."""
    stage = spec.bounds_stage
    both = (stage.lower_probability, stage.upper_probability)
    targets = [(axis, probability) for axis in spec.axes for probability in both]
    return Quantiles.for_budget(targets, spec.records.change, spec.records.rows, spec.stage_budget("bounds"))


def clipped_counts(spec: Spec, domain: Domain) -> ClippedCounts:
    budget = spec.stage_budget("diagnostics")
    return ClippedCounts.for_budget(domain, spec.records.change, spec.records.rows, budget)


def counted_rows(spec: Spec) -> RowCount:
    if "count" not in spec.shares:
        return RowCount.public()
    return RowCount.for_budget(spec.records.change, spec.records.rows, spec.stage_budget("count"))


def find_bounds(
    spec: Spec, mechanism: Mechanism, spark: Any, source: ParquetSource | FrameSource, noise: NoiseSource
) -> Mechanism:
    """The same mechanism, for the bounds found in one more pass. The sensitivity of scaled rows does not depend on them."""
    histogram = exact_histogram(spark, source, mechanism.domain.read_columns, spec.axes)
    source.check_unchanged()
    edges = iter(bound_quantiles(spec).release(histogram, noise))
    found = {axis.name: (axis, *ordered_edges(next(edges), next(edges), axis.cells)) for axis in spec.axes}
    columns = []
    for column in mechanism.domain.columns:
        if isinstance(column, Numeric) and column.name in found:
            axis, lower, upper = found[column.name]
            column = replace(column, lower=axis.edge(lower), upper=axis.edge(upper))
        columns.append(column)
    return with_domain(mechanism, replace(mechanism.domain, columns=tuple(columns)))


def spending(spec: Spec, mechanism: Mechanism) -> list[dict[str, Any]]:
    """What each stage spends, and on what, for the manifest. The mechanism of the release has its own entry there."""
    stages: list[dict[str, Any]] = []
    if spec.axes:
        stages.append({"stage": "bounds", **asdict(spec.stage_budget("bounds")), **bound_quantiles(spec).facts()})
    if "squared weights" in spec.shares:
        squared = choose_squared_weights(spec, mechanism.domain)
        facts = {**squared.facts(), "noise": noise_to_manifest(squared.noise), "grid_bits": squared.domain.bits}
        # The budget last: the mechanism's own rho is not what was given to it.
        stages.append({"stage": "squared weights", **facts, **asdict(spec.stage_budget("squared weights"))})
    if spec.diagnostics is not None:
        facts = clipped_counts(spec, mechanism.domain).facts()
        stages.append({"stage": "diagnostics", **asdict(spec.stage_budget("diagnostics")), **facts})
    if "count" in spec.shares:
        stages.append({"stage": "count", **asdict(spec.stage_budget("count")), **counted_rows(spec).facts()})
    if isinstance(mechanism, GroupedLines):
        if mechanism.line.interval is not None:
            stages.append({"stage": "interval", **asdict(spec.stage_budget("interval")), **mechanism.line.interval})
        return [*stages, {"stage": spec.release.kind, **asdict(mechanism.budget)}]
    return [*stages, {"stage": spec.release.kind, **asdict(spec.release_budget)}]


def spending_lines(spec: Spec, mechanism: Mechanism) -> list[str]:
    """The same for `dpspark check`; nothing if there is one stage alone."""
    lines = []
    if spec.axes:
        quantiles = bound_quantiles(spec)
        names = ", ".join(axis.name for axis in spec.axes)
        lines.append(
            f"{spec.stage_budget('bounds')} for the bounds of {names}: {len(quantiles.targets)} quantiles, "
            f"each with epsilon={quantiles.epsilon_each:.3g}"
        )
    if "squared weights" in spec.shares:
        assert spec.weight is not None
        noise = choose_squared_weights(spec, mechanism.domain).noise
        assert isinstance(noise, AdditiveNoise)
        rows = noise.off_diagonal_std / spec.weight.upper**2
        lines.append(
            f"{spec.stage_budget('squared weights')} for the moments of squared weights, which standard errors need: "
            f"± {rows:.4g} rows of the largest weight"
        )
    if spec.diagnostics is not None:
        std = clipped_counts(spec, mechanism.domain).noise_std
        lines.append(
            f"{spec.stage_budget('diagnostics')} to count clipped values: ± {std:.4g} "
            f"{'rows' if spec.weight is None else 'in weights'}, each column and side"
        )
    if "count" in spec.shares:
        lines.append(f"{spec.stage_budget('count')} to count the rows: ± {counted_rows(spec).noise_std:.4g} rows")
    if isinstance(mechanism, GroupedLines) and mechanism.line.interval is not None:
        facts = mechanism.line.interval
        lines.append(f"{spec.stage_budget('interval')} for intervals of level {facts['level']:g}")
    return [*lines, f"{spec.release_budget} for the release itself"] if lines else []
