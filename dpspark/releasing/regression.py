"""Releases of kind regression: coefficients, and the statistics that their errors come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dpspark.analysis.content.meats import read_meats
from dpspark.analysis.fit import RegressionFit, seed_of
from dpspark.analysis.sandwich import ReleasedMeat
from dpspark.bundle.statistics import statistics_table
from dpspark.core.domain import Clip, Domain
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.gradient import ExactGradient
from dpspark.exact.histogram import ExactHistogram
from dpspark.exact.residuals import ExactSums, Residual
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.errors import ERROR_PASSES, Fitted, make_meats
from dpspark.releasing.rows import Made, Report, SparkRows
from dpspark.releasing.tables import coefficients_table, grouped_table
from dpspark.spark.group_gram import exact_grams
from dpspark.spark.groups import GroupList
from dpspark.spec.spec import Spec

ONE_PASS = "regressions by group have one pass"


@dataclass(frozen=True)
class OneGram:
    """A group's matrix, for a mechanism that asks for one."""

    exact: ExactGram

    def gram(self, domain: Domain) -> ExactGram:
        return self.exact

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        raise NotImplementedError(ONE_PASS)

    def residual_histograms(self, domain: Domain, residuals: Mapping[str, Residual]) -> ExactHistogram:
        raise NotImplementedError(ONE_PASS)

    def residual_sums(self, domain: Domain, residual: Residual, clip: float) -> ExactSums:
        raise NotImplementedError(ONE_PASS)

    def residual_grams(self, domain: Domain, residuals: Sequence[Residual], clips: Sequence[float]) -> ExactSums:
        raise NotImplementedError(ONE_PASS)


def _make_many(spec: Spec, mechanism: RegressionMechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    """A regression for each listed group, those without rows too. A row is in one: they cost the budget once."""
    groups, terms = rows.source.groups, mechanism.domain.terms
    found = exact_grams(rows.spark, rows.source, mechanism.domain, GroupList.of(groups))
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
    return Made(tables, {"composition": spec.records.composition})


def make_regression(
    spec: Spec, mechanism: RegressionMechanism, rows: SparkRows, noise: NoiseSource, report: Report
) -> Made:
    if spec.release.group_by is not None:
        return _make_many(spec, mechanism, rows, noise, report)
    meats = mechanism.paid_meats()
    facts = {"name": spec.mechanism_name, **mechanism.facts()}
    tables: dict[str, pa.Table] = {}
    found: dict[str, Any] = {}
    read: tuple[ReleasedMeat, ...] = ()
    with rows.kept(mechanism.passes + (0 if meats is None else ERROR_PASSES)):
        noisy = mechanism.release(rows, noise, report)
        if meats is not None and noisy.statistics is not None:
            squares, law = noisy.statistics.squares, noisy.statistics.noise.squares
            plain = RegressionFit(mechanism.domain, facts, noisy.theta, noisy.statistics, seed_of(spec.hash))
            fitted = Fitted(noisy.theta, squares, plain.quiet_clip(noisy.statistics, meats.law_of(0)))
            tables, found = make_meats(spec, meats, [fitted], law, rows, noise, report)
            read = read_meats({**facts, **found}, tables, mechanism.domain, squares)
    seed, meat = seed_of(spec.hash), next(iter(read), None)
    fit = RegressionFit(mechanism.domain, facts, noisy.theta, noisy.statistics, seed, meat=meat)
    tables["coefficients"] = coefficients_table(fit)
    if noisy.statistics is not None:
        tables["statistics"] = statistics_table(mechanism.domain.terms, noisy.statistics)
    return Made(tables, found)
