"""Every stage of a release, recomputed, and whether they add up to what is claimed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.registry import mechanism_named, mechanisms_of
from dpspark.privacy.budget import Budget
from dpspark.privacy.calibration import distance_from_rounded
from dpspark.privacy.cost import ROUNDING, Stage, gaussian_cost, pure_cost, same
from dpspark.privacy.sensitivity import clipped_l1, clipped_l2, row_count
from dpspark.spec.guarantee import protected, sentence
from dpspark.verifying.lines import interval, lines, quantiles
from dpspark.verifying.matrices import matrix
from dpspark.verifying.rows import domain_of, records_of, search_axis, squared_weights_domain, unit_of, unlike_spec

# What each stage may publish, beside what the manifest says.
TABLES = {
    "squared weights": ("squared_weights.parquet",),
    "diagnostics": ("diagnostics.parquet",),
    "gram": ("second_moment.parquet", "scaled.parquet"),
    "regression": ("coefficients.parquet", "statistics.parquet"),
    "theil_sen": ("predictions.parquet",),
    "quantiles": ("quantiles.parquet",),
}
# A manifest is whatever a stranger wrote: what cannot be computed with is garbled, and nothing worse.
ARITHMETIC = (ArithmeticError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, ConfError)


@dataclass(frozen=True)
class Certificate:
    """What a manifest's own numbers say."""

    claimed: Budget
    stages: tuple[Stage, ...]
    problems: tuple[str, ...]  # where the manifest contradicts itself

    @property
    def holds(self) -> bool:
        return not self.problems and all(stage.holds and not stage.differs for stage in self.stages)


def recompute(manifest: dict[str, Any]) -> Certificate:
    """The guarantee from bounds and scales alone. Raises Garbled if there is something that cannot be computed with."""
    try:
        return _recompute(Facts(manifest, ""))
    except ARITHMETIC as error:
        raise Garbled(f"its numbers cannot be computed with ({type(error).__name__})") from None


def _recompute(manifest: Facts) -> Certificate:
    records, domain = records_of(manifest), domain_of(manifest)
    claimed = budget_of(manifest.part("privacy"))
    problems = [f"not as in the spec: {what}" for what in unlike_spec(manifest, domain)]
    if budget_of(manifest.part("spec").part("privacy")) != claimed:
        problems.append("not as in the spec: the budget")
    named, asked = manifest.part("release"), manifest.part("spec").part("release")
    for key in ("name", "version", "response", "x", "y"):
        if (named.text(key) if named.has(key) else None) != (asked.text(key) if asked.has(key) else None):
            problems.append(f"not as in the spec: release.{key}")
    if tuple(domain.terms) != manifest.texts("terms"):
        problems.append("terms: not those of the columns")
    spending = manifest.part("privacy").parts("spending")
    names = [each.text("stage") for each in spending]
    if names != list(_expected(manifest, domain, records)):
        problems.append("privacy.spending: other stages than the spec asks for")
        return Certificate(claimed, (), tuple(problems))
    if not _adds_up(claimed, [budget_of(each) for each in spending]):
        problems.append("privacy.spending: the stages add up to more than is claimed")
    problems += _said(manifest, claimed, domain, records)
    paid = {table for name in names for table in TABLES.get(name, ())}
    if manifest.has("files") and not set(manifest.part("files").names()) <= paid:
        problems.append("files: a table that no stage pays for")
    free = records.change == "replaced" or _tells_its_rows(manifest.part("spec"), domain)
    if manifest.has("monitoring") and not (free or "count" in names):
        problems.append("monitoring: a number of rows that no stage pays for")
    stages = tuple(
        _stage(name, each, manifest, domain, records, budget_of(each))
        for name, each in zip(names, spending, strict=True)
    )
    return Certificate(claimed, stages, tuple(problems))


def budget_of(facts: Facts) -> Budget:
    """(epsilon, delta) or rho; no delta is 0."""
    if facts.has("rho"):
        if facts.has("epsilon"):
            raise Garbled("a budget has both epsilon and rho")
        return Budget(rho=facts.positive("rho"))
    delta = facts.number("delta") if facts.has("delta") else 0.0
    if not 0 <= delta < 1:
        raise Garbled("a delta is not from 0 to 1")
    return Budget(facts.positive("epsilon"), delta)


def _expected(manifest: Facts, domain: Domain, records: Records) -> Iterator[str]:
    spec = manifest.part("spec")
    if any(column.private for column in domain.numeric):
        yield "bounds"
    if spec.has("weight") and spec.part("weight").has("squares_share"):
        yield "squared weights"
    if spec.has("diagnostics"):
        yield "diagnostics"
    if spec.has("count") and not _tells_its_rows(spec, domain) and records.change != "replaced":
        yield "count"
    if spec.part("release").has("interval") and spec.part("mechanism").text("name") != "gram":
        yield "interval"
    yield manifest.part("release").text("kind")


def _adds_up(claimed: Budget, parts: list[Budget]) -> bool:
    for key in ("epsilon", "delta", "rho"):
        total = sum((Fraction(getattr(part, key) or 0) for part in parts), Fraction(0))
        if total > Fraction(getattr(claimed, key) or 0) * Fraction(1 + ROUNDING):
            return False
    return True


def _said(manifest: Facts, claimed: Budget, domain: Domain, records: Records) -> Iterator[str]:
    """The words a reader goes by: they are of the numbers that are checked, and of those whom these protect."""
    spec, stated = manifest.part("spec"), manifest.part("privacy")
    privacy, exact = spec.part("privacy"), stated.flag("count_is_exact")
    unit = unit_of(privacy)
    if exact and (records.change != "replaced" or records.moves):
        yield "privacy.count_is_exact: a record can change the number of rows"
    noise = manifest.part("mechanism")
    if noise.has_part("noise") and noise.part("noise").flag("count_is_exact") != exact:
        yield "privacy.count_is_exact: not as the noise has it"
    public = exact or (spec.has("count") and not _tells_its_rows(spec, domain) and records.change == "replaced")
    if manifest.text("guarantee") != sentence(claimed, privacy.text("neighbours"), unit, public):
        yield "guarantee: not the sentence for these numbers and this unit"
    if not stated.part("unit").equals(Facts(protected(unit, records.rows), "unit")):
        yield "privacy.unit: not as in the spec"


def _stage(name: str, facts: Facts, manifest: Facts, domain: Domain, records: Records, claimed: Budget) -> Stage:
    spec, mechanism = manifest.part("spec"), manifest.part("mechanism")
    named = mechanism.text("name")
    if named != spec.part("mechanism").text("name"):
        raise Garbled("mechanism.name is not the spec's")
    if name == "bounds":
        return _bounds(facts, spec, domain, records, claimed)
    if name == "count":
        return _count(facts, records, claimed)
    if name == "interval":
        return interval(facts, spec, records, claimed)
    if name == "diagnostics":
        return _diagnostics(facts, domain, records, claimed)
    if name == "squared weights":
        squared = squared_weights_domain(domain, facts.whole("grid_bits", 0))
        return matrix(named, facts, squared, records, claimed, name)
    if name == "gram":
        return matrix(named, mechanism, domain, records, claimed, name)
    if name == "regression":
        return _read_back("regression", named, Problem(domain, records), mechanism, claimed)
    if name == "theil_sen":
        return lines(mechanism, spec, domain, records, claimed, name)
    if name == "quantiles":
        asked = spec.part("release").numbers("probabilities")
        wanted = [(column.name, probability) for column in domain.numeric for probability in asked]
        ranges = {column.name: (column.lower, column.upper) for column in domain.numeric}
        return quantiles(mechanism, wanted, records, claimed, name, ranges)
    raise Garbled("release.kind is none that is known here")


def _read_back(kind: str, named: str, problem: Problem, facts: Facts, claimed: Budget) -> Stage:
    """Recompute what a release's own mechanism costs."""
    if all(named != mechanism.name for mechanism in mechanisms_of(kind)):
        raise Garbled(f"mechanism.name is of no {kind} that is known here")
    found = mechanism_named(kind, named).from_facts(problem, facts, claimed)
    sensitivity, norm = found.sensitivity_in_words()
    return Stage(kind, sensitivity, norm, found.cost(), claimed, found.differences(facts), found.trusted)


def _bounds(facts: Facts, spec: Facts, domain: Domain, records: Records, claimed: Budget) -> Stage:
    asked = spec.part("bounds")
    both = (asked.number("lower_probability"), asked.number("upper_probability"))
    private = [column.name for column in domain.numeric if column.private]
    axes = [search_axis(name, spec.part("columns").part(name)) for name in private]
    wanted = [(axis.name, probability) for axis in axes for probability in both]
    ranges = {axis.name: (axis.lowest, axis.highest) for axis in axes}
    return quantiles(facts, wanted, records, claimed, "bounds", ranges)


def _tells_its_rows(spec: Facts, domain: Domain) -> bool:
    """Whether the release's own first entry is the number of its rows."""
    release = spec.part("release")
    named = spec.part("mechanism").text("name")
    regression = release.text("kind") == "regression" and mechanism_named("regression", named).tells_rows
    counts = release.text("kind") == "gram" or regression
    return counts and not release.has("group_by") and domain.weight is None and domain.first_entry_counts


def _count(facts: Facts, records: Records, claimed: Budget) -> Stage:
    sensitivity, scale = row_count(records.change, records.rows), facts.positive("scale")
    loss = sensitivity / scale
    cost = pure_cost([loss]) if claimed.rho is None else gaussian_cost(loss, distance_from_rounded(1, scale))
    differs = () if facts.part("sensitivity").number("value") == sensitivity else ("sensitivity",)
    return Stage("count", sensitivity, "number of rows", cost, claimed, differs)


def _diagnostics(facts: Facts, domain: Domain, records: Records, claimed: Budget) -> Stage:
    scale, stated = facts.positive("scale"), facts.part("sensitivity")
    if stated.text("norm").startswith("l1"):
        sensitivity = clipped_l1(domain, records.change, records.rows)
        cost = pure_cost([sensitivity / scale])
    else:
        sensitivity = clipped_l2(domain, records.change, records.rows)
        distance = distance_from_rounded(domain.clip_counts, scale * facts.positive("grid_steps_per_row"))
        cost = gaussian_cost(sensitivity / scale, distance)
    differs = () if same(stated.number("value"), sensitivity) else ("sensitivity",)
    return Stage("diagnostics", sensitivity, stated.text("norm"), cost, claimed, differs)
