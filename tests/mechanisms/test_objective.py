"""Objective perturbation: its profile recomputed from densities, an audit, and an exact minimiser."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from dpspark.core.domain import Domain, Numeric, RowNorm
from dpspark.mechanisms.regression.objective import Tilt, minimise_in_ball, tilted_delta
from dpspark.privacy.sensitivity import regression_statistics
from tests.auditing import gram_of, shown_delta
from tests.noises import SeededNoise

DOMAIN = Domain((Numeric("a", -1, 1), Numeric("y", -1, 1)), "midpoint", RowNorm("cap", 1.0, True), response="y")


def mechanism_for(epsilon: float, delta: float, replaced: bool = False, **options: object) -> Tilt:
    sensitivity = regression_statistics(DOMAIN, "replaced" if replaced else "added")
    return Tilt.for_budget(sensitivity.longest, replaced, epsilon, delta, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("epsilon", "t"), [(0.1, 0.05), (1.0, 0.3), (1.0, 0.05), (5.0, 2.0)])
def test_the_profile_is_the_expectation(epsilon: float, t: float) -> None:
    """E[(1 − e^(ε − t|Z| − t²/2))₊], by quadrature."""
    edge = max(0.0, epsilon / t - t / 2)
    found = (
        2
        * integrate.quad(
            lambda z: -math.expm1(epsilon - t * z - t * t / 2) * stats.norm.pdf(z), edge, edge + 40, epsabs=1e-14
        )[0]
    )
    assert tilted_delta(epsilon, t) == pytest.approx(found, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-6), (4.0, 1e-9)])
def test_calibration_is_tight(epsilon: float, delta: float, replaced: bool) -> None:
    mechanism = mechanism_for(epsilon, delta, replaced)
    one_epsilon, one_delta = (epsilon / 2, delta / (1 + math.exp(epsilon / 2))) if replaced else (epsilon, delta)
    assert 0.99 * one_delta <= mechanism.delta(one_epsilon) <= one_delta


Table = list[tuple[float, float]]


def delta_between(mechanism: Tilt, epsilon: float, one: Table, other: Table) -> float:
    """The exact delta between two tables of one regressor without intercept, both ways.

    θ is a monotone function of b, so its density is φ(b(θ)/σ)/σ · (S + ridge) inside the ball; its ends are atoms.
    """
    radius, sigma, worst = mechanism.radius, mechanism.sigma, 0.0
    tables = [one, other]
    squares = [sum(x * x for x, _ in table) + mechanism.ridge for table in tables]
    cross = [sum(x * v for x, v in table) for table in tables]
    theta = np.linspace(-radius, radius, 400_001)
    density = [stats.norm.pdf(c - s * theta, scale=sigma) * s for s, c in zip(squares, cross, strict=True)]
    # b = cross − squares·θ; θ = radius for every b below its value there, and so on.
    high = [stats.norm.cdf(c - s * radius, scale=sigma) for s, c in zip(squares, cross, strict=True)]
    low = [stats.norm.sf(c + s * radius, scale=sigma) for s, c in zip(squares, cross, strict=True)]
    for p, q in ((0, 1), (1, 0)):
        inside = np.maximum(density[p] - math.exp(epsilon) * density[q], 0.0)
        ends = max(0.0, high[p] - math.exp(epsilon) * high[q]) + max(0.0, low[p] - math.exp(epsilon) * low[q])
        worst = max(worst, float(integrate.trapezoid(inside, theta)) + ends)
    return worst


def one_coefficient_delta(mechanism: Tilt, epsilon: float, rows: Table) -> float:
    """The same between a table and one with one more row of full norm."""
    longest = mechanism.longest
    return max(delta_between(mechanism, epsilon, rows, [*rows, (longest, y)]) for y in (-1.0, 1.0))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-4), (3.0, 1e-6)])
def test_exact_delta_of_one_coefficient_is_within_the_claim(epsilon: float, delta: float) -> None:
    """Densities, not the proof: over tables that put θ inside the ball and at its ends.

    Kills: a tilt √3 too small, and a ridge that forgets the determinant.
    """
    mechanism = mechanism_for(epsilon, delta)
    b = mechanism.longest
    tables = [[], [(b, 1.0)] * 3, [(b, -1.0)] * 40, [(0.1, 1.0)] * 400, [(b, 0.0)] * 10, [(b, 1.0), (b, -1.0)] * 20]
    assert max(one_coefficient_delta(mechanism, epsilon, table) for table in tables) <= delta
    less = replace(mechanism, sigma=mechanism.sigma / math.sqrt(3))
    assert max(one_coefficient_delta(less, epsilon, table) for table in tables) > delta
    little = replace(mechanism, ridge=mechanism.ridge / 100)
    assert one_coefficient_delta(little, epsilon, []) > 3 * delta


def test_audit_of_the_release() -> None:
    """No row against one of full norm, through the real release, at (1, 0.02), good to ±0.02.

    Kills: a tilt that is not drawn, or drawn 5 times too small. What is √3 too small is rejected by densities, above.
    """
    good = mechanism_for(1.0, 0.02)
    bad = replace(good, sigma=good.sigma / 5)
    tables = [gram_of(DOMAIN, raw) for raw in ([], [[1.0, 1.0]])]
    direction = np.array([1.0, 1.0]) / math.sqrt(2)

    def samples(mechanism: Tilt, table: int) -> np.ndarray:
        noise = SeededNoise(table)
        return np.array([direction @ mechanism.release(tables[table], noise) for _ in range(10_000)])

    assert shown_delta(1.0, samples(good, 0), samples(good, 1)) <= 0.02 + 0.02
    assert shown_delta(1.0, samples(bad, 0), samples(bad, 1)) > 0.02 + 0.04


def test_the_theorem_has_the_papers_constants_and_more_noise() -> None:
    theorem, exact = mechanism_for(1.0, 1e-6, calibration="theorem"), mechanism_for(1.0, 1e-6)
    assert theorem.ridge == pytest.approx(2 * 2.0)
    assert theorem.sigma == pytest.approx(theorem.gradient * math.sqrt(8 * math.log(2e6) + 4))
    assert theorem.sigma > 1.5 * exact.sigma
    assert theorem.delta(1.0) <= 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_minimiser_is_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(4, 4))
    matrix, linear, radius = root @ root.T + 0.1 * np.eye(4), 3 * rng.normal(size=4), [0.3, 50.0][seed % 2]
    found = minimise_in_ball(matrix, linear, radius)

    def value(theta: np.ndarray) -> float:
        return float(theta @ matrix @ theta / 2 - linear @ theta)

    other = optimize.minimize(
        value, np.zeros(4), method="SLSQP", constraints={"type": "ineq", "fun": lambda t: radius**2 - t @ t}, tol=1e-12
    )
    assert np.linalg.norm(found) <= radius * (1 + 1e-9)
    assert value(found) <= other.fun + 1e-7
    if seed % 2 == 0:
        assert np.linalg.norm(found) == pytest.approx(radius)


def test_releases_use_fresh_randomness() -> None:
    from dpspark.privacy.noise import OpenDPNoise

    mechanism = mechanism_for(1.0, 1e-6)
    table = gram_of(DOMAIN, [[0.5, 0.5]])
    drawn = {tuple(mechanism.release(table, OpenDPNoise())) for _ in range(20)}
    assert len(drawn) == 20
