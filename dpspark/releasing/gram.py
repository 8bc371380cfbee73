"""Releases of kind gram: a noisy matrix, or one for each group."""

from __future__ import annotations

from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.errors.meat import Meats
from dpspark.mechanisms.gram.noisy import AdditiveNoise
from dpspark.privacy.noise import NoiseSource
from dpspark.releasing.errors import ERROR_PASSES, fitted_of, make_meats
from dpspark.releasing.manifest import gram_facts
from dpspark.releasing.rows import Made, Report, SparkRows
from dpspark.releasing.tables import grouped_table, scaled_matrix_of, scaled_table, second_moment_table
from dpspark.spark.group_gram import exact_grams
from dpspark.spark.groups import GroupList
from dpspark.spec.choose import GramMechanism
from dpspark.spec.extras import squared_weights
from dpspark.spec.spec import Spec


def _make_many(spec: Spec, mechanism: GramMechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    """A matrix for each listed group, those without rows too. A row is in one: they cost the budget once."""
    groups = rows.source.groups
    found = exact_grams(rows.spark, rows.source, mechanism.domain, GroupList.of(groups))
    rows.check()
    report(f"adding noise to {len(groups.values):,} groups")
    empty = ExactGram.from_partials(mechanism.domain, [])
    noisy = [mechanism.release(found.get(code, empty), noise) for code in range(len(groups.values))]
    tables = {
        "second_moment": grouped_table(groups, [second_moment_table(one) for one in noisy]),
        "scaled": grouped_table(groups, [scaled_table(one) for one in noisy]),
    }
    facts = gram_facts(spec, noisy[0])
    return Made(tables, {**facts, "composition": spec.records.composition})


def make_gram(spec: Spec, mechanism: GramMechanism, rows: SparkRows, noise: NoiseSource, report: Report) -> Made:
    if spec.release.group_by is not None:
        return _make_many(spec, mechanism, rows, noise, report)
    meats = mechanism.paid_meats()
    with rows.kept(1 if meats is None else 1 + ERROR_PASSES):
        return _make_one(spec, mechanism, meats, rows, noise, report)


def _make_one(
    spec: Spec, mechanism: GramMechanism, meats: Meats | None, rows: SparkRows, noise: NoiseSource, report: Report
) -> Made:
    gram = rows.gram(mechanism.domain)
    report("adding noise")
    noisy = mechanism.release(gram, noise)
    tables = {"second_moment": second_moment_table(noisy), "scaled": scaled_table(noisy)}
    facts = gram_facts(spec, noisy)
    if "squared weights" in spec.shares:
        squared = squared_weights(spec, mechanism.domain)
        report("reading squared weights")
        tables["squared_weights"] = second_moment_table(squared.release(rows.other_gram(squared.domain), noise))
    if meats is not None:
        assert isinstance(noisy.noise, AdditiveNoise)
        fitted = fitted_of(meats, scaled_matrix_of(noisy), noisy.noise)
        more, found = make_meats(spec, meats, fitted, noisy.noise, rows, noise, report)
        tables, facts = {**tables, **more}, {**facts, **found}
    return Made(tables, facts)
