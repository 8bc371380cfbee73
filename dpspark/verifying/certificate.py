"""Every paid part of a release, recomputed, and whether they add up to what is claimed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from dpspark.bundle.files import HIERARCHY
from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Records
from dpspark.errors import ConfError
from dpspark.mechanisms.base import Mechanism, Problem
from dpspark.mechanisms.counts.groups import GroupCounts
from dpspark.mechanisms.errors.clip import ResidualBounds
from dpspark.mechanisms.errors.score_bounds import ScoreBounds
from dpspark.mechanisms.lines.interval import PaidInterval
from dpspark.mechanisms.registry import EXTRAS
from dpspark.privacy.budget import Budget
from dpspark.privacy.cost import ROUNDING, PaidPart
from dpspark.spec.guarantee import protected, sentence
from dpspark.verifying.errors import errors_of
from dpspark.verifying.lines import bounds_finder, line_problem, needs_interval_share, quantile_problem
from dpspark.verifying.rows import class_of, domain_of, records_of, squared_weights_domain, unit_of, unlike_spec

# What each part may publish, beside what the manifest says.
TABLES = {
    "squared weights": ("squared_weights.parquet",),
    "diagnostics": ("diagnostics.parquet",),
    "group_counts": ("group_counts.parquet", "line_cells.parquet"),
    ResidualBounds.name: ("meat.parquet", "scaled_meat.parquet"),  # with noise that the release itself pays for
    "gram": ("second_moment.parquet", "scaled.parquet"),
    "regression": ("coefficients.parquet", "statistics.parquet"),
    "theil_sen": ("predictions.parquet",),
    "quantiles": ("quantiles.parquet",),
}
# A manifest is whatever a stranger wrote: what cannot be computed with is garbled, and nothing worse.
ARITHMETIC = (ArithmeticError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, ConfError)


@dataclass(frozen=True)
class Certificate:
    """The guarantee by a manifest's own numbers."""

    claimed: Budget
    parts: tuple[PaidPart, ...]
    problems: tuple[str, ...]  # where the manifest contradicts itself

    @property
    def holds(self) -> bool:
        return not self.problems and all(part.holds and not part.differs for part in self.parts)


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
        problems.append("privacy.spending: other parts than the spec asks for")
        return Certificate(claimed, (), tuple(problems))
    if not _adds_up(claimed, [budget_of(each) for each in spending]):
        problems.append("privacy.spending: the parts add up to more than is claimed")
    problems += _said(manifest, claimed, domain, records)
    paid = {table for name in names for table in TABLES.get(name, ())}
    if asked.has("hierarchy"):
        paid.add(f"{HIERARCHY}.parquet")  # public keys: nothing pays for them
    if manifest.has("files") and not set(manifest.part("files").names()) <= paid:
        problems.append("files: a table that nothing pays for")
    free = records.change == "replaced" or _tells_its_rows(manifest.part("spec"), domain)
    if manifest.has("monitoring") and not (free or "count" in names):
        problems.append("monitoring: a number of rows that nothing pays for")
    parts = tuple(
        _recomputed(name, each, manifest, domain, records, budget_of(each))
        for name, each in zip(names, spending, strict=True)
    )
    return Certificate(claimed, parts, tuple(problems))


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
    if spec.part("release").has("group_counts"):
        yield "group_counts"
    if spec.part("release").has("errors"):
        yield ResidualBounds.name
    if spec.part("release").has_part("errors"):
        yield ScoreBounds.name
    if spec.part("release").has("interval") and needs_interval_share(manifest.part("mechanism")):
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
    release, neighbours = spec.part("release"), privacy.text("neighbours")
    stays = neighbours == "replace_one" and not records.moves and release.has("group_by")
    kept = tuple(sorted(release.texts("group_by"))) if stays else ()
    said = [sentence(claimed, neighbours, unit, public, kept)]
    if not stated.has("judged_by"):  # releases before 0.3 left out what a record keeps
        said.append(sentence(claimed, neighbours, unit, public))
    if manifest.text("guarantee") not in said:
        yield "guarantee: not the sentence for these numbers and this unit"
    if not stated.part("unit").equals(Facts(protected(unit, records.rows), "unit")):
        yield "privacy.unit: not as in the spec"


def _recomputed(
    name: str, facts: Facts, manifest: Facts, domain: Domain, records: Records, claimed: Budget
) -> PaidPart:
    """Recompute one entry of the spending: an extra's, or the release's own, whose facts are the mechanism's."""
    spec, mechanism = manifest.part("spec"), manifest.part("mechanism")
    named = mechanism.text("name")
    if named != spec.part("mechanism").text("name"):
        raise Garbled("mechanism.name is not the spec's")
    problem = _problem(name, spec, domain, records)
    if name in EXTRAS:
        found = EXTRAS[name].from_facts(problem, facts, claimed)
        return part_of(name, found, claimed, found.differences(facts))
    if name == "squared weights":
        return _squared_weights(named, facts, domain, records, claimed)
    if name == "bounds":
        found = bounds_finder(spec, domain, records, facts, claimed)
        return part_of(name, found, claimed, found.differences(facts))
    found = class_of(name, named).from_facts(problem, mechanism, claimed)
    return part_of(name, found, claimed, found.differences(mechanism))


def _problem(name: str, spec: Facts, domain: Domain, records: Records) -> Problem:
    """Read what the mechanism of a part was asked for."""
    if name in ("theil_sen", PaidInterval.name, GroupCounts.name):
        return line_problem(spec, domain, records)
    if name == "quantiles":
        return quantile_problem(spec, domain, records)
    robust = (ResidualBounds.name, ScoreBounds.name, "gram", "regression")
    errors = errors_of(spec, domain, records) if name in robust else None
    return Problem(domain, records, errors=errors)


def part_of(name: str, mechanism: Mechanism, claimed: Budget, differs: tuple[str, ...]) -> PaidPart:
    """Lay out what a mechanism that was read back from a manifest costs."""
    sensitivity, norm = mechanism.sensitivity_in_words()
    return PaidPart(name, sensitivity, norm, mechanism.cost(), claimed, differs, mechanism.trusted)


def _squared_weights(named: str, facts: Facts, domain: Domain, records: Records, claimed: Budget) -> PaidPart:
    problem = Problem(squared_weights_domain(domain, facts.whole("grid_bits", 0)), records)
    found = class_of("gram", named).from_facts(problem, facts, claimed)
    # In the entry of an extra, rho is its budget's: there is none of the mechanism to compare.
    budget = {field.name for field in fields(Budget)}
    stated = facts.overlaid({key: value for key, value in found.facts().items() if key in budget})
    return part_of("squared weights", found, claimed, found.differences(stated))


def _tells_its_rows(spec: Facts, domain: Domain) -> bool:
    """Tell whether the release's own first entry is the number of its rows."""
    release = spec.part("release")
    counts = class_of(release.text("kind"), spec.part("mechanism").text("name")).tells_rows
    return counts and not release.has("group_by") and domain.weight is None and domain.first_entry_counts
