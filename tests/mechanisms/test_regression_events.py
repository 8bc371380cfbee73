"""What regressions are charged with, by other routes: real neighbours, the scales that a sampler was asked for, exact laws."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest

from dpspark.core.domain import Clip, Domain, Numeric, RowNorm
from dpspark.core.facts import Facts
from dpspark.core.records import Change, Records
from dpspark.exact.fixed_point import ExactGram
from dpspark.exact.gradient import GRADIENT_BITS, ExactGradient
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.registry import mechanisms_of, regression_named
from dpspark.mechanisms.regression.base import RegressionMechanism
from dpspark.mechanisms.regression.objective import ObjectivePerturbation
from dpspark.privacy.budget import Budget
from dpspark.privacy.events import Approximate, Gaussian, Pure
from tests.auditing import gram_of
from tests.mechanisms.test_descent import gradient_of
from tests.mechanisms.test_objective import delta_between
from tests.mechanisms.test_regression_statistics import DOMAINS, changes, rows_of, squares
from tests.noises import Draw, RecordedZeros

BUDGET = Budget(1.0, 1e-6)
STATISTICS = [
    ("gram_ridge", {}),
    ("ssp", {}),
    *(("adassp", {"constants": each}) for each in ("joint", "wang", "kalaja")),
]
GRID = 2.0**GRADIENT_BITS


def made(name: str, domain: Domain, change: Change, budget: Budget = BUDGET, **options: Any) -> RegressionMechanism:
    mechanism = regression_named(name)
    return mechanism.for_budget(Problem(domain, Records(change)), budget, mechanism.Options(**options))


class Empty:
    """No rows."""

    def gram(self, domain: Domain) -> ExactGram:
        return gram_of(domain, [])

    def gradient(self, domain: Domain, theta: np.ndarray, clip: Clip) -> ExactGradient:
        return ExactGradient([0] * (domain.width - 1))


def asked_of(mechanism: RegressionMechanism) -> list[Draw]:
    noise = RecordedZeros()
    mechanism.release(Empty(), noise, lambda step: None)
    return noise.asked


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Balle & Wang's curve with 50 digits."""
    with mpmath.workdps(50):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        high, low = mpmath.ncdf(mu / 2 - epsilon / mu), mpmath.ncdf(-mu / 2 - epsilon / mu)
        return float(high - mpmath.exp(epsilon) * low)


def largest_loss(mechanism: RegressionMechanism, domain: Domain, change: Change) -> float:
    """mu of the worst real neighbours, every statistic over the noise that was drawn for it."""
    unit, width = mechanism.domain.steps_per_row, domain.width - 1
    (_, diagonal, _), (_, off, _), (_, cross, _), *rest = asked_of(mechanism)
    before, after = changes(rows_of(domain), change)
    moved = squares(after) - squares(before)
    std = np.full((width, width), off / unit)
    np.fill_diagonal(std, diagonal / unit)
    total = (np.triu(moved / std) ** 2).sum(axis=(1, 2))
    total += (((after[:, :-1] * after[:, -1:] - before[:, :-1] * before[:, -1:]) * unit / cross) ** 2).sum(axis=1)
    noise = mechanism.statistics_noise
    assert noise is not None
    if noise.response_std is not None:
        total += ((after[:, -1] ** 2 - before[:, -1] ** 2) * unit / rest.pop(0).scale) ** 2
    if (
        noise.least_eigenvalue_std is not None
    ):  # by Weyl's inequality, no farther than the largest eigenvalue of the change
        total += (np.abs(np.linalg.eigvalsh(moved)).max(axis=1) * 2.0**20 / rest.pop(0).scale) ** 2
    assert not rest
    return math.sqrt(float(total.max()))


@pytest.mark.parametrize(("name", "options"), STATISTICS, ids=lambda each: str(each))
@pytest.mark.parametrize("change", ["added", "replaced", "either"])
@pytest.mark.parametrize("domain", ["two numbers", "cap all", "number and pair"])
def test_noise_on_statistics_is_charged_as_it_is_drawn(
    name: str, options: dict[str, str], change: Change, domain: str
) -> None:
    """Kills: an event that forgets a statistic, or has another mu than the noise; a price below the exact law's."""
    mechanism = made(name, DOMAINS[domain], change, **options)
    (event,) = mechanism.events()
    assert isinstance(event, Gaussian)
    real = largest_loss(mechanism, DOMAINS[domain], change)
    assert real <= event.mu
    if change == "added":
        assert real >= 0.94 * event.mu
    entries = sum(count * 0.0202 / sigma**2 for _, sigma, count in asked_of(mechanism))
    assert event.sampler_distance >= entries
    exact = gaussian_delta(event.mu, 1.0) + (1 + math.e) * event.sampler_distance
    assert gaussian_delta(real, 1.0) <= mechanism.cost().delta_at(1.0) <= BUDGET.delta  # type: ignore[operator]
    assert mechanism.cost().delta_at(1.0) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("budget", [BUDGET, Budget(rho=0.1), Budget(1.0, 0.0)], ids=str)
def test_noise_in_gradients_is_charged_as_it_is_drawn(budget: Budget, change: Change) -> None:
    """Every step's worst pair of rows, through the real clipping. Kills: an event of one step, or with fewer of them."""
    domain = DOMAINS["number and three"]
    mechanism = made("gradient_descent", domain, change, budget, steps=7, clip=0.25)
    asked = asked_of(mechanism)
    assert len(asked) == 7
    pure = budget.delta == 0
    clip = Clip("box" if pure else "ball", 0.25)
    raw: list[tuple[object, ...]] = [(a, s, y) for a in (-1.0, 0.3, 1.0) for s in "abc" for y in (-1.0, 0.9, 1.0)]
    worst = 0.0
    for theta in (np.zeros(4), np.array([3.0, -2.0, 5.0, 1.0]), np.array([-9.0, 9.0, -9.0, 9.0])):
        each = np.array([gradient_of([row], theta, clip, domain) for row in raw])
        moved = each if change == "added" else (each[:, None] - each[None]).reshape(-1, 4)
        worst = max(worst, float((abs(moved).sum(axis=1) if pure else np.linalg.norm(moved, axis=1)).max()))
    losses = [worst * GRID / scale for _, scale, _ in asked]
    (event,) = mechanism.events()
    if pure:
        assert isinstance(event, Pure)
        assert (
            0.5 * event.epsilon * event.count <= sum(losses) <= event.epsilon * event.count
        )  # no row is at every corner
        assert mechanism.cost().pure == pytest.approx(1.0, rel=1e-9)
        return
    assert isinstance(event, Gaussian)
    real = math.sqrt(sum(loss**2 for loss in losses))
    assert 0.98 * event.mu <= real <= event.mu
    assert event.sampler_distance >= sum(count * 0.0202 / scale**2 for _, scale, count in asked)
    if budget.rho is not None:
        assert mechanism.cost().rho == pytest.approx(0.1, rel=1e-9)
    else:
        assert gaussian_delta(real, 1.0) <= mechanism.cost().delta_at(1.0) <= 1e-6


@pytest.mark.parametrize("change", ["added", "replaced"])
def test_a_tilt_is_charged_as_it_is_drawn(change: Change) -> None:
    """By densities, over tables with the coefficient inside the ball and at its ends. Kills: less than the tilt's own part."""
    domain = Domain((Numeric("a", -1, 1), Numeric("y", -1, 1)), "midpoint", RowNorm("cap", 1.0, True), response="y")
    budget = Budget(1.0, 1e-3)
    mechanism = made("objective", domain, change, budget)
    assert isinstance(mechanism, ObjectivePerturbation)
    statistics, tilt = mechanism.events()
    assert isinstance(statistics, Gaussian)
    assert isinstance(tilt, Approximate)
    assert largest_loss(mechanism, domain, change) <= statistics.mu
    b = mechanism.tilt.longest

    def worst_of(of: ObjectivePerturbation) -> float:
        found = 0.0
        for rest in ([], [(b, 1.0)] * 3, [(b, -1.0)] * 40, [(0.1, 1.0)] * 400, [(b, 1.0), (b, -1.0)] * 20):
            for y in (-1.0, 1.0):
                other = rest if change == "added" else [*rest, (b, -y)]
                found = max(found, delta_between(of.tilt, tilt.epsilon, other, [*rest, (b, y)]))
        return found

    worst = worst_of(mechanism)
    assert worst <= tilt.delta
    if change == "added":  # two rows' group privacy is not tight
        assert worst_of(mechanism.quieter(2.0)) > tilt.delta
    both = gaussian_delta(statistics.mu, 0.2) + (1 + math.exp(0.2)) * statistics.sampler_distance
    assert worst + both <= mechanism.cost().delta_at(1.0) * (1 + 1e-6) <= 1e-3 * (1 + 1e-6)


@pytest.mark.parametrize("records", [Records("added"), Records("replaced"), Records("either", 1, True, True)], ids=str)
@pytest.mark.parametrize("mechanism", mechanisms_of("regression"), ids=lambda mechanism: mechanism.name)
def test_a_manifest_is_priced_as_what_was_charged(mechanism: Any, records: Records) -> None:
    """Kills: scales that are not read back, or another price for them: the facts are all that the certificate has."""
    if records.grouped and not mechanism.by_group:
        return
    problem = Problem(DOMAINS["two numbers"], records)
    charged = mechanism.for_budget(problem, BUDGET, mechanism.Options())
    facts = Facts(json.loads(json.dumps(charged.facts())), "mechanism")
    found = mechanism.from_facts(replace(problem, domain=charged.domain), facts, BUDGET)
    assert found.differences(facts) == ()
    assert found.facts().keys() == charged.facts().keys()
    for ours, theirs in zip(found.events(), charged.events(), strict=True):
        assert type(ours) is type(theirs)
        assert vars(ours) == pytest.approx(vars(theirs), rel=1e-9)
    for epsilon in (0.3, 1.0, 2.0):
        assert found.cost().delta_at(epsilon) == pytest.approx(charged.cost().delta_at(epsilon), rel=1e-6)
    assert found.cost().within(BUDGET)
    quieter = charged.quieter(1.05)
    lying = Facts(json.loads(json.dumps(quieter.facts())), "mechanism")
    assert not mechanism.from_facts(replace(problem, domain=charged.domain), lying, BUDGET).cost().within(BUDGET)
