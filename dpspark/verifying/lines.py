"""What a manifest of lines or quantiles asked its mechanism for, read from its spec."""

from __future__ import annotations

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Records
from dpspark.mechanisms.lines.base import LineProblem
from dpspark.mechanisms.quantiles.exponential import QuantileProblem, Quantiles
from dpspark.mechanisms.registry import line_of_kernel
from dpspark.verifying.rows import search_axis


def line_problem(spec: Facts, domain: Domain, records: Records) -> LineProblem:
    """Read the plane and the size of a table without groups. Guesses and what `auto` aimed at cost no privacy."""
    release = spec.part("release")
    candidates = release.numbers("candidates") if release.has("candidates") else None
    if candidates is not None and len(candidates) != 2:
        raise Garbled("release.candidates is not two numbers")
    return LineProblem.of(
        domain,
        records,
        by_group=release.has("group_by"),
        cuts=release.numbers("cuts") if release.has("cuts") else (),
        candidates=candidates,
        expected_rows=release.whole("expected_rows") if release.has("expected_rows") else None,
    )


def needs_interval_share(mechanism: Facts) -> bool:
    """Tell whether a line's interval is made of sums that are paid for: some lines publish all that it needs."""
    line = line_of_kernel(mechanism.text("kernel"))
    return line is None or not line.own_interval


def quantile_problem(spec: Facts, domain: Domain, records: Records) -> QuantileProblem:
    return QuantileProblem(domain, records, probabilities=spec.part("release").numbers("probabilities"))


def bound_quantiles(spec: Facts, domain: Domain, records: Records, facts: Facts) -> Quantiles:
    """Read back the quantiles that private bounds were found by."""
    asked = spec.part("bounds")
    both = (asked.number("lower_probability"), asked.number("upper_probability"))
    private = [column.name for column in domain.numeric if column.private]
    axes = [search_axis(name, spec.part("columns").part(name)) for name in private]
    return Quantiles.from_facts([(axis, chance) for axis in axes for chance in both], records, facts)
