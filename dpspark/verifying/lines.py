"""What a manifest of lines or quantiles asked its mechanism for, read from its spec."""

from __future__ import annotations

from dpspark.core.domain import Domain
from dpspark.core.facts import Facts, Garbled
from dpspark.core.records import Records
from dpspark.mechanisms.lines.base import LineProblem
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism
from dpspark.mechanisms.quantiles.exponential import QuantileProblem
from dpspark.mechanisms.registry import BOUNDS, bounds_method, line_of_kernel
from dpspark.privacy.budget import Budget
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


def bounds_finder(spec: Facts, domain: Domain, records: Records, facts: Facts, claimed: Budget) -> BoundsMechanism:
    """Read back the mechanism that private bounds were found by. Where no method is said it is the one of version 0.2."""
    asked = spec.part("bounds")
    method = bounds_method(asked.text("method", *BOUNDS) if asked.has("method") else None)
    private = [column.name for column in domain.numeric if column.private]
    axes = tuple(search_axis(name, spec.part("columns").part(name)) for name in private)
    return method.from_facts(method.problem_of(domain, records, axes, asked), facts, claimed)
