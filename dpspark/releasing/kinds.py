"""What each kind of release makes of the rows: its tables. The flow around it is in pipeline.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.fit import RegressionFit, seed_of
from dpspark.core.domain import Clip, Domain
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.gradient import ExactGradient
from dpspark.mechanisms.counts.rows import NoisyCount
from dpspark.mechanisms.lines.exponential import ExponentialTheilSen
from dpspark.mechanisms.lines.grouped import GroupedLines, composition
from dpspark.mechanisms.lines.interval import LineWithInterval
from dpspark.mechanisms.lines.kernel import Kernel
from dpspark.mechanisms.lines.plane import SimpleFit
from dpspark.mechanisms.quantiles.exponential import QuantileRelease
from dpspark.mechanisms.quantiles.published import SURE
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.privacy.keyed import KeyedRandom
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.manifest import gram_facts
from dpspark.releasing.tables import (
    coefficients_table,
    diagnostics_table,
    grouped_table,
    predictions_table,
    quantiles_table,
    scaled_table,
    second_moment_table,
    statistics_table,
)
from dpspark.source.parquet import ParquetSource
from dpspark.spark.buckets import bucketed_fit, bucketed_sums
from dpspark.spark.exact_sums import exact_count, exact_gradient, exact_gram, exact_histogram
from dpspark.spark.frames import FrameSource
from dpspark.spark.group_gram import exact_grams
from dpspark.spark.group_quantiles import grouped_quantiles
from dpspark.spark.groups import LABEL, GroupList, grouped_fits
from dpspark.spec.choose import GramMechanism, Mechanism
from dpspark.spec.extras import clipped_counts, counted_rows, squared_weights
from dpspark.spec.spec import Spec

Report = Callable[[str], None]


@dataclass(frozen=True)
class Made:
    """What may be published: tables, and what the manifest says of the mechanism now that it has drawn."""

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
    source: ParquetSource | FrameSource
    overtaken: Callable[[], bool]
    count_clipped: bool = False
    last_gram: ExactGram | None = None

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

    def check(self) -> None:
        """Before noise is drawn: stop if another driver came first, or if the source changed under this one."""
        self.source.check_unchanged()
        if self.overtaken():
            raise Overtaken


@contextmanager
def kept_for_many_passes(source: ParquetSource | FrameSource, passes: int) -> Iterator[None]:
    """A frame is kept by Spark between passes. Files are read again: that is faster than Spark's cache."""
    if not (isinstance(source, FrameSource) and passes > 1):
        yield
        return
    source.frame.persist()
    try:
        yield
    finally:
        source.frame.unpersist()


def make(spec: Spec, mechanism: Mechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    """Read, add noise once, and lay out what may be published."""
    made = _make(spec, mechanism, rows, noise, report)
    if spec.count is None:
        return made
    made = replace(made, count=_count(spec, mechanism, made, rows, noise, report))
    return with_count(spec, mechanism, made) if isinstance(mechanism, QuantileRelease) else made


def with_count(spec: Spec, mechanism: QuantileRelease, made: Made) -> Made:
    """Of a whole table, the number of its rows says how good its quantiles are. Post-processing: no cost."""
    if spec.release.group_by is not None or made.count is None:
        return made
    fewest = max(0.0, made.count.rows - SURE * made.count.noise_std)
    table = quantiles_table(mechanism.shown(made.drawn, fewest, counted=True))
    return replace(made, tables={**made.tables, "quantiles": table})


def _count(
    spec: Spec, mechanism: Mechanism, made: Made, rows: SparkRows, noise: NoiseSource, report: Report
) -> NoisyCount:
    if spec.tells_its_rows:
        table = made.tables["second_moment" if spec.release.kind == "gram" else "statistics"]
        return NoisyCount(round(table["value"][0].as_py()), table["noise_std"][0].as_py())
    report("counting rows")
    exact = exact_count(rows.spark, rows.source, mechanism.domain, by_value=spec.release.kind == "quantiles")
    rows.check()
    return counted_rows(spec).release(exact, noise)


def _make(spec: Spec, mechanism: Mechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    if isinstance(mechanism, QuantileRelease):
        return _make_quantiles(spec, mechanism, rows, noise, report)
    if isinstance(mechanism, GroupedLines):
        return _make_lines(spec, mechanism, rows, noise, report)
    if isinstance(mechanism, GramMechanism):
        made = _make_gram(spec, mechanism, rows, noise, report)
    else:
        made = _make_regression(spec, mechanism, rows, noise, report)
    if rows.count_clipped:
        assert rows.last_gram is not None
        first = made.tables["second_moment" if spec.release.kind == "gram" else "statistics"]["value"][0].as_py()
        shares = clipped_counts(spec, mechanism.domain).release(rows.last_gram, first, noise)
        made.tables["diagnostics"] = diagnostics_table(shares)
    return made


def _make_grams(spec: Spec, mechanism: GramMechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    """A matrix for each listed group, those without rows too. A row is in one: they cost the budget once."""
    assert isinstance(rows.source, FrameSource)
    groups = rows.source.groups
    found = exact_grams(rows.spark, rows.source, mechanism.domain, GroupList(groups.texts))
    rows.check()
    report(f"adding noise to {len(groups.values):,} groups")
    empty = ExactGram.from_partials(mechanism.domain, [])
    noisy = [mechanism.release(found.get(code, empty), noise) for code in range(len(groups.values))]
    tables = {
        "second_moment": grouped_table(groups, [second_moment_table(one) for one in noisy]),
        "scaled": grouped_table(groups, [scaled_table(one) for one in noisy]),
    }
    facts = gram_facts(spec, noisy[0])
    return Made(tables, {**facts, "composition": composition(spec.records.moves, spec.records.rows)})


def _make_gram(spec: Spec, mechanism: GramMechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    if spec.release.group_by is not None:
        return _make_grams(spec, mechanism, rows, noise, report)
    gram = rows.gram(mechanism.domain)
    report("adding noise")
    noisy = mechanism.release(gram, noise)
    tables = {"second_moment": second_moment_table(noisy), "scaled": scaled_table(noisy)}
    if "squared weights" in spec.shares:
        squared = squared_weights(spec, mechanism.domain)
        report("reading squared weights")
        tables["squared_weights"] = second_moment_table(squared.release(rows.other_gram(squared.domain), noise))
    return Made(tables, gram_facts(spec, noisy))


def _make_quantiles(
    spec: Spec, mechanism: QuantileRelease, rows: SparkRows, noise: NoiseSource, report: Report
) -> Made:
    if spec.release.group_by is None:
        histogram = exact_histogram(rows.spark, rows.source, mechanism.domain.read_columns, mechanism.axes)
        rows.check()
        report("drawing quantiles")
        drawn = mechanism.release(histogram, noise)
        table = quantiles_table(mechanism.shown(drawn, spec.release.expected_rows))
        return Made({"quantiles": table}, {}, drawn=tuple(drawn))
    kernel, random = mechanism.kernel, KeyedRandom(noise.secret())
    assert isinstance(rows.source, FrameSource)
    groups = rows.source.groups
    found = grouped_quantiles(rows.spark, rows.source, mechanism.domain, GroupList(groups.texts), kernel, random)
    rows.check()
    nothing = {column.name: np.zeros(0) for column in mechanism.domain.columns}
    tables = []
    for code in range(len(groups.values)):
        drawn = found[code] if code in found else kernel.fit(nothing, random, LABEL, code)
        tables.append(quantiles_table(mechanism.shown(drawn, spec.release.expected_rows)))
    made = grouped_table(groups, tables)
    return Made({"quantiles": made}, {"composition": composition(spec.records.moves, spec.records.rows)})


def _make_lines(spec: Spec, mechanism: GroupedLines, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
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


@dataclass(frozen=True)
class OneGram:
    """A group's matrix, for a mechanism that asks for one."""

    exact: ExactGram

    def gram(self, domain: Domain) -> ExactGram:
        return self.exact

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        raise NotImplementedError("regressions by group have one pass")


def _make_regressions(
    spec: Spec, mechanism: RegressionMechanism, rows: SparkRows, noise: NoiseSource, report: Report
) -> Made:
    """A regression for each listed group, those without rows too. A row is in one: they cost the budget once."""
    assert isinstance(rows.source, FrameSource)
    groups, terms = rows.source.groups, mechanism.domain.terms
    found = exact_grams(rows.spark, rows.source, mechanism.domain, GroupList(groups.texts))
    rows.check()
    report(f"adding noise to {len(groups.values):,} groups")
    facts = {"name": spec.mechanism_name, **mechanism.facts()}
    empty = ExactGram.from_partials(mechanism.domain, [])
    coefficients, statistics = [], []
    for code in range(len(groups.values)):
        noisy = mechanism.release(OneGram(found.get(code, empty)), noise, lambda step: None)
        assert noisy.statistics is not None
        fit = RegressionFit(mechanism.domain, facts, noisy.theta, noisy.statistics, seed_of(spec.hash))
        coefficients.append(coefficients_table(fit))
        statistics.append(statistics_table(terms, noisy.statistics))
    tables = {
        "coefficients": grouped_table(groups, coefficients),
        "statistics": grouped_table(groups, statistics),
    }
    return Made(tables, {"composition": composition(spec.records.moves, spec.records.rows)})


def _make_regression(
    spec: Spec, mechanism: RegressionMechanism, rows: SparkRows, noise: NoiseSource, report: Report
) -> Made:
    if spec.release.group_by is not None:
        return _make_regressions(spec, mechanism, rows, noise, report)
    with kept_for_many_passes(rows.source, mechanism.passes):
        noisy = mechanism.release(rows, noise, report)
    facts = {"name": spec.mechanism_name, **mechanism.facts()}
    fit = RegressionFit(mechanism.domain, facts, noisy.theta, noisy.statistics, seed_of(spec.hash))
    tables = {"coefficients": coefficients_table(fit)}
    if noisy.statistics is not None:
        tables["statistics"] = statistics_table(mechanism.domain.terms, noisy.statistics)
    return Made(tables, {})
