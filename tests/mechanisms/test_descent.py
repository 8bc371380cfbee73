"""Noisy gradient descent: one row's clipped gradient, the cost of all steps, and an audit."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from dpspark.core.domain import Categorical, Clip, Domain, Numeric, RowNorm
from dpspark.core.records import Change, Records
from dpspark.exact.gradient import GRADIENT_BITS, ExactGradient, GradientAccumulator, merge_gradients
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.regression.gradient_descent import DescentOptions, GradientDescent
from dpspark.privacy.budget import Budget, gaussian_delta
from dpspark.privacy.sensitivity import clipped_gradient
from tests.auditing import shown_delta
from tests.noises import RecordedZeros, SeededNoise

COLUMNS = (Numeric("a", -1, 1), Categorical("s", ("u", "v", "w"), True), Numeric("y", -1, 1))
DOMAIN = Domain(COLUMNS, "midpoint", response="y").with_bits(20)
CAPPED = replace(DOMAIN, row_norm=RowNorm("cap", 1.0, True))
RAW = list(itertools.product([-math.inf, -1.0, 0.3, 1.0, None], ["u", "v", "w", "?"], [-1.0, 0.9, 7.0, None]))


def gradient_of(rows: list[tuple[object, ...]], theta: np.ndarray, clip: Clip, domain: Domain = DOMAIN) -> np.ndarray:
    total = GradientAccumulator(domain, theta, clip)
    total.add([pa.array(list(values)) for values in zip(*rows, strict=True)], len(rows))
    return np.frombuffer(total.finish(), dtype="<i8") / 2.0**GRADIENT_BITS


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("clip", [Clip("ball", 0.37), Clip("box", 0.21), Clip("ball", 1e-5), Clip("box", 3e-7)])
@pytest.mark.parametrize("domain", [DOMAIN, CAPPED], ids=["box", "capped"])
def test_one_record_moves_the_sum_by_no_more(change: Change, clip: Clip, domain: Domain) -> None:
    """Every pair of rows, at coefficients that clip and that do not. Kills: C for a replaced row, rounding past the clip."""
    claim = clipped_gradient(clip, domain.width - 1, change)
    worst = 0.0
    for theta in ([0, 0, 0, 0], [3, -2, 5, 1], [0.1, 0.2, 0, -0.1], [-1e8, 1e8, 1e8, 1e8]):
        each = np.array([gradient_of([row], np.array(theta, dtype=float), clip, domain) for row in RAW])
        moved = each if change == "added" else (each[:, None, :] - each[None, :, :]).reshape(-1, each.shape[1])
        norms = np.linalg.norm(moved, axis=1) if clip.shape == "ball" else abs(moved).sum(axis=1)
        worst = max(worst, float(norms.max()))
    assert worst <= claim
    if clip.shape == "ball" and clip.size > 1e-3:
        assert worst >= 0.99 * claim


def test_sums_do_not_depend_on_how_rows_are_dealt_out() -> None:
    """Kills: a matrix product, whose rounding depends on the block, before the clip and the rounding to the grid."""
    rng = np.random.default_rng(3)
    n = 20_000
    domain = Domain((*(Numeric(f"x{i}", -1, 1) for i in range(7)), Numeric("y", -1, 1)), "midpoint", response="y")
    data = [rng.uniform(-1.2, 1.2, n) for _ in range(8)]
    theta, clip = rng.normal(size=8), Clip("ball", 0.4)
    found = set()
    for cuts in ([0, n], [0, 1, n], [0, 777, 8192, 8193, n], list(range(0, n + 1, 4000))):
        payloads = []
        for start, stop in itertools.pairwise(cuts):
            total = GradientAccumulator(domain, theta, clip)
            total.add([pa.array(values[start:stop]) for values in data], stop - start)
            payloads.append(total.finish())
        found.add(merge_gradients(payloads, 8))
    assert len(found) == 1


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(rho=0.1), Budget(1.0, 0.0)], ids=str)
def test_all_steps_together_meet_the_budget(budget: Budget, change: Change) -> None:
    """From the scales that the sampler was asked for, step by step. Kills: the whole budget in each step."""
    mechanism = GradientDescent.for_budget(Problem(DOMAIN, Records(change)), budget, DescentOptions(7, 0.25))
    noise = RecordedZeros()
    mechanism.descend(lambda theta, clip: ExactGradient([0] * 4), noise, lambda step: None)
    assert len(noise.asked) == 7
    times = 1 if change == "added" else 2
    if budget.delta == 0:
        spent = sum(
            times * 0.25 * 4 / (scale / 2.0**GRADIENT_BITS) for law, scale, _ in noise.asked if law == "laplace"
        )
        assert 0.999 <= spent <= 1.0
        return
    mu = math.sqrt(sum((times * 0.25 / (sigma / 2.0**GRADIENT_BITS)) ** 2 for _, sigma, _ in noise.asked))
    if budget.rho is not None:
        assert 0.0999 <= mu**2 / 2 <= 0.1
    else:
        assert 0.99e-6 <= gaussian_delta(mu, 1.0) + 4 * mechanism.gradients.distance <= 1e-6
        assert mechanism.cost().delta_at(1.0) <= 1e-6


@pytest.mark.parametrize("steps", [1, 5])
def test_audit(steps: int) -> None:
    """A record at the clip against none: noisy gradients summed, at (1, 0.02), good to ±0.02. Kills: noise √3 too small."""
    good = GradientDescent.for_budget(Problem(DOMAIN, Records("added")), Budget(1.0, 0.02), DescentOptions(steps, 0.5))
    bad = good.quieter(math.sqrt(3))
    row = gradient_of([(1.0, "u", -1.0)], np.zeros(4), good.gradients.clip)
    direction = row / np.linalg.norm(row)
    sums = [ExactGradient([0] * 4), ExactGradient(np.rint(row * 2.0**GRADIENT_BITS).astype(int).tolist())]

    def samples(mechanism: GradientDescent, table: int) -> np.ndarray:
        noise = SeededNoise(table)
        return np.array(
            [sum(direction @ mechanism.noisy(sums[table], noise) for _ in range(steps)) for _ in range(20_000)]
        )

    assert shown_delta(1.0, samples(good, 0), samples(good, 1)) <= 0.02 + 0.02
    assert shown_delta(1.0, samples(bad, 0), samples(bad, 1)) > 0.02 + 0.04


def test_it_finds_the_coefficients() -> None:
    """Without much noise, and nothing clipped: least squares to within a few percent of the response's range."""
    rng = np.random.default_rng(5)
    n = 4000
    a, b = rng.uniform(-1, 1, n), rng.uniform(-1, 1, n)
    y = 0.1 + 0.5 * a - 0.3 * b + rng.uniform(-0.1, 0.1, n)
    domain = Domain((Numeric("a", -1, 1), Numeric("b", -1, 1), Numeric("y", -1, 1)), "midpoint", response="y")
    mechanism = GradientDescent.for_budget(
        Problem(domain, Records("added")), Budget(1e3, 1e-6), DescentOptions(100, 2.0)
    )

    def gradient(theta: np.ndarray, clip: Clip) -> ExactGradient:
        total = GradientAccumulator(domain, theta, clip)
        total.add([a, b, y], n)
        return ExactGradient(np.frombuffer(total.finish(), dtype="<i8").tolist())

    found = mechanism.descend(gradient, SeededNoise(0), lambda step: None)
    assert found == pytest.approx([0.1, 0.5, -0.3], abs=0.02)
