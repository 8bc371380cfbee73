"""Events of matrices and counts, priced by another route on neighbours that went through the real bounding code.

The mechanism says what it runs; here its own scales, the change that a worst record makes to the exact sums, and the laws of
the noise as scipy and dp-accounting have them say what that costs. Neither knows privacy.sensitivity, profiles or calibration.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import integrate, stats

from dpspark.audit.neighbours import hostile_pairs, neighbour_tables
from dpspark.audit.tables import Raw, gram_of, upper_of
from dpspark.core.domain import Categorical, Domain, Numeric, RowNorm
from dpspark.core.records import Change, Records
from dpspark.exact.row_count import RowCounter
from dpspark.mechanisms.base import Mechanism, Problem
from dpspark.mechanisms.counts.clipped import ClippedCounts
from dpspark.mechanisms.counts.rows import RowCount
from dpspark.mechanisms.gram.sampling import scaled_matrix
from dpspark.mechanisms.registry import mechanism_named
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Approximate, Gaussian, Pure

DOMAINS = {
    "numbers": Domain((Numeric("a", -2.0, 5.0), Numeric("b", 0.0, 9.0)), "midpoint"),
    "a block": Domain((Numeric("a", -2.0, 5.0), Categorical("s", ("x", "y", "z"))), "midpoint"),
    "capped": Domain((Numeric("a", -2.0, 5.0), Numeric("b", 0.0, 9.0)), "midpoint", RowNorm("cap", 1.1)),
}
BOTH = Budget(1.0, 1e-5)
CHANGES: tuple[Change, ...] = ("added", "replaced")
FLOATING = {
    "wishart": {},
    "johnson_lindenstrauss": {"rows": 60},
    "inverse_wishart": {"degrees_of_freedom": 60},
}


def made(name: str, domain: Domain, change: Change, budget: Budget, per_record: int = 1, **options: Any) -> Any:
    mechanism = mechanism_named("gram", name)
    return mechanism.for_budget(Problem(domain, Records(change, per_record)), budget, mechanism.Options(**options))


def change_of(mechanism: Any, change: Change, rows: int, norm: Any) -> np.ndarray:
    """How a worst record moves each entry of the upper triangle, in units of 1.0."""
    tables = neighbour_tables(mechanism.domain, change, rows, norm)
    zero, one = (upper_of(gram_of(mechanism.domain, table)) for table in tables)
    return np.asarray(one - zero)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("domain", DOMAINS)
def test_gaussian_matrices(domain: str, change: Change, rows: int) -> None:
    """Kills: mu of another shape, of one row for three, or of noise that is smaller off the diagonal than is said."""
    mechanism = made("gaussian", DOMAINS[domain], change, BOTH, rows)
    norm = "frobenius" if mechanism.sensitivity.shape == "symmetric" else "l2"
    at = np.triu_indices(mechanism.domain.width)
    std = np.where(at[0] == at[1], mechanism.noise.diagonal_std, mechanism.noise.off_diagonal_std)
    if mechanism.noise.count_is_exact:
        std[0] = math.inf
    moved = float(np.linalg.norm(change_of(mechanism, change, rows, norm) / std))
    (event,) = mechanism.events()
    assert isinstance(event, Gaussian)
    # A capped row that is replaced may not reach the claim at the corners that are tried.
    assert 0.9 / event.noise_multiplier < moved <= 1 / event.noise_multiplier
    other = pld.from_gaussian_mechanism(event.noise_multiplier, value_discretization_interval=1e-4)
    assert 0.98 <= other.get_epsilon_for_delta(1e-5) <= 1.0001
    assert mechanism.cost().within(BOTH)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("domain", ["numbers", "a block"])
def test_laplace_matrices(domain: str, change: Change, rows: int) -> None:
    """Kills: the largest entry's change alone. Laplace's loss is the l1 norm over the scale, whatever the dimension."""
    mechanism = made("laplace", DOMAINS[domain], change, Budget(0.7), rows)
    moved = float(abs(change_of(mechanism, change, rows, "l1")).sum()) / mechanism.scale
    (event,) = mechanism.events()
    assert isinstance(event, Pure)
    assert 0.8 * event.epsilon < moved <= event.epsilon
    other = pld.from_laplace_mechanism(1 / event.epsilon, value_discretization_interval=1e-4)
    assert other.get_epsilon_for_delta(0.0) == pytest.approx(0.7, rel=1e-3)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", FLOATING)
def test_matrices_from_wishart_laws(name: str, domain: str) -> None:
    """The delta at the event's epsilon by integrating densities, at the longest row that bounding lets through.

    Kills: degrees less the width left out, a ridge or a scale for shorter rows, an event below what is run.
    """
    mechanism = made(name, DOMAINS[domain], "added", BOTH, **FLOATING[name])
    (event,) = mechanism.events()
    assert event == Approximate(1.0, 1e-5)
    _, rows = neighbour_tables(mechanism.domain, "added", 1, "frobenius")
    squared_norm = float(np.trace(scaled_matrix(gram_of(mechanism.domain, rows))))
    p, q = laws(name, mechanism, squared_norm)
    found = max(hockey_stick(p, q, event.epsilon), hockey_stick(q, p, event.epsilon))
    assert 0.95 * event.delta < found <= event.delta * (1 + 1e-6)
    assert mechanism.cost().delta_at(1.0) == pytest.approx(found, rel=1e-4)


def laws(name: str, mechanism: Any, squared_norm: float) -> tuple[Any, Any]:
    """Two laws with the likelihood ratio of matrices with and without one row of that squared norm."""
    if name == "wishart":
        effective = mechanism.degrees - mechanism.domain.width + 1
        return stats.chi2(effective), stats.chi2(effective, loc=squared_norm / mechanism.scale)
    share = squared_norm / (mechanism.ridge + squared_norm)
    return stats.chi2(mechanism.degrees), stats.chi2(mechanism.degrees, scale=1 - share)


def hockey_stick(p: Any, q: Any, epsilon: float) -> float:
    points = np.linspace(0.0, max(p.isf(1e-14), q.isf(1e-14)), 400_001)
    return float(integrate.trapezoid(np.maximum(p.pdf(points) - math.exp(epsilon) * q.pdf(points), 0.0), points))


@pytest.mark.parametrize("name", FLOATING)
def test_a_replaced_row_is_two(name: str) -> None:
    """Group privacy by hand: what one added row has at half of epsilon. Kills: a replaced row at the price of an added one."""
    mechanism = made(name, DOMAINS["numbers"], "replaced", BOTH, **FLOATING[name])
    p, q = laws(name, mechanism, 3.0)
    one = max(hockey_stick(p, q, 0.5), hockey_stick(q, p, 0.5))
    assert 0.95e-5 < one * (1 + math.exp(0.5)) <= 1.00001e-5
    assert mechanism.cost().delta_at(1.0) == pytest.approx(one * (1 + math.exp(0.5)), rel=1e-4)


def tables_of(domain: Domain, change: Change) -> list[tuple[Raw, Raw]]:
    beyond = [tuple(column.middle + sign * 9 * column.half for column in domain.numeric) for sign in (-1, 1)]
    return [([] if change == "added" else beyond[:1], beyond[1:]), *hostile_pairs(domain, change, 60)]


@pytest.mark.parametrize("budget", [Budget(0.3, 1e-6), Budget(rho=0.02), Budget(0.3)], ids=str)
@pytest.mark.parametrize("change", CHANGES)
def test_clipped_counts(change: Change, budget: Budget) -> None:
    """Kills: one side of a replaced record forgotten, or the l2 norm for Laplace noise."""
    domain = DOMAINS["numbers"]
    mechanism = ClippedCounts.for_budget(Problem(domain, Records(change)), budget)
    order = 1 if budget.rho is None and not budget.delta else 2
    moved = 0.0
    for tables in tables_of(domain, change):
        zero, one = (np.array(gram_of(domain, table, True).reveal_clipped(), dtype=float) for table in tables)
        moved = max(moved, float(np.linalg.norm(one - zero, order)))
    check(mechanism, moved / mechanism.scale, budget)


@pytest.mark.parametrize("budget", [Budget(0.3, 1e-6), Budget(rho=0.02), Budget(0.3)], ids=str)
def test_counted_rows(budget: Budget) -> None:
    domain = DOMAINS["numbers"]
    mechanism = RowCount.for_budget(Problem(domain, Records("added", 3)), budget)
    counter = RowCounter(domain.columns, drop_nulls=True)
    counter.add([pa.array([1.0, -9.0, 3.0]), pa.array([0.0, 1e9, 2.0])], 3)
    check(mechanism, counter.count / mechanism.scale, budget)


def check(mechanism: Mechanism, loss: float, budget: Budget) -> None:
    """The event is as large as what a record moves, and costs the budget by another accountant."""
    (event,) = mechanism.events()
    if isinstance(event, Pure):
        assert event.epsilon * 0.999 < loss <= event.epsilon
        assert loss == pytest.approx(budget.epsilon)
        return
    assert isinstance(event, Gaussian)
    assert 0.999 / event.noise_multiplier < loss <= 1 / event.noise_multiplier
    if budget.rho is not None:
        assert loss**2 / 2 == pytest.approx(budget.rho)
        return
    other = pld.from_gaussian_mechanism(event.noise_multiplier, value_discretization_interval=1e-4)
    assert 0.97 * budget.epsilon <= other.get_epsilon_for_delta(budget.delta) <= budget.epsilon * 1.001
