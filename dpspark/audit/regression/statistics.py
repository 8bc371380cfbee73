"""The attack on noisy statistics, which gram_ridge, ssp, adassp and objective publish."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpspark.audit.attacks import Case, Finding
from dpspark.audit.cases import additive_case
from dpspark.audit.likelihood import exact_statistics, statistics_std, statistics_vector
from dpspark.audit.neighbours import neighbour_tables
from dpspark.audit.sensitivity_attack import statistics_finding
from dpspark.audit.tables import Raw, TableRows
from dpspark.core.domain import Domain
from dpspark.mechanisms.regression.base import StatisticsMechanism
from dpspark.privacy.noise import NoiseSource
from dpspark.spec.choose import choose_regression
from dpspark.spec.spec import Spec

Released = Callable[[int, NoiseSource], tuple[np.ndarray, np.ndarray]]


def chosen(spec: Spec) -> StatisticsMechanism:
    """Calibrate what a spec asks for."""
    mechanism = choose_regression(spec)
    assert isinstance(mechanism, StatisticsMechanism)
    return mechanism


def ends_of(spec: Spec, mechanism: StatisticsMechanism) -> list[Raw]:
    """The rows of a record that moves the regressors' squares farthest, and says the opposite where it is replaced."""
    domain = mechanism.domain
    before, after = neighbour_tables(domain.regressors, spec.records.change, spec.records.rows, "l2")
    response = domain.numeric[-1]
    return [[(*row, end) for row in rows] for rows, end in ((before, response.lower), (after, response.upper))]


def tables_of(mechanism: StatisticsMechanism, ends: Sequence[Raw], rest: Raw) -> list[TableRows]:
    """The neighbours: some rows that both have, and the record's."""
    return [TableRows.of(mechanism.domain, [*rest, *rows]) for rows in ends]


def exact_of(mechanism: StatisticsMechanism, tables: Sequence[TableRows]) -> list[np.ndarray]:
    return [exact_statistics(table.exact, mechanism.statistics.noise) for table in tables]


def std_of(mechanism: StatisticsMechanism) -> np.ndarray:
    return statistics_std(mechanism.statistics.noise, mechanism.domain.width - 1)


def releases_of(maker: StatisticsMechanism, tables: Sequence[TableRows]) -> Released:
    """Make releases of either neighbour: the coefficients, and everything that the statistics tell."""

    def released(side: int, noise: NoiseSource) -> tuple[np.ndarray, np.ndarray]:
        found = maker.release(tables[side], noise, lambda step: None)
        assert found.statistics is not None
        return found.theta, statistics_vector(found.statistics)

    return released


def statistics_case(spec: Spec, mechanism: StatisticsMechanism, drawn: StatisticsMechanism, rest: Raw = ()) -> Case:
    """Tell released statistics apart, all at once. `drawn` makes the releases: the mechanism as claimed, or a broken copy."""
    tables = tables_of(mechanism, ends_of(spec, mechanism), rest)
    released = releases_of(drawn, tables)
    return additive_case(
        spec,
        spec.release_budget,
        "gaussian",
        std_of(mechanism),
        exact_of(mechanism, tables),
        lambda side, noise: released(side, noise)[1],
    )


def noise_free(target: str, neighbours: str, domains: dict[str, Domain]) -> list[Finding]:
    return [statistics_finding(target, neighbours)]
