"""The law of a line's noise: simulated with the kernel itself, on rows as they lie. Seeds are fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpspark.core.domain import Domain, Numeric
from dpspark.core.records import Records
from dpspark.exact.line_cells import LineCells
from dpspark.mechanisms.lines.base import LineProblem
from dpspark.mechanisms.lines.gram import GramLines
from dpspark.mechanisms.lines.huber import HuberLines
from dpspark.privacy.budget import Budget
from dpspark.privacy.keyed import KeyedRandom
from dpspark.smoothing.counts import likely_rows
from dpspark.smoothing.rows_law import GuessedLaw, RowsLaw, nearest_counts
from dpspark.smoothing.simulation import separate, simulate_noise

DOMAIN = Domain((Numeric("x", 0, 10), Numeric("y", -5, 5)))
LINE, SCATTER = np.array([0.4, 0.6]), np.eye(2) * 0.03**2
SEED = bytes(range(32))


def kernel_of(mechanism: Any, epsilon: float) -> tuple[Any, Any]:
    problem = LineProblem.of(DOMAIN, Records("added"), by_group=True, expected_rows=80)
    return mechanism.for_budget(problem, Budget(epsilon, 0.0), mechanism.Options()).line, problem.plane


def test_it_is_the_noise_of_the_kernel() -> None:
    """Against 150 lines of fresh groups with normal residuals. Kills: 0.7 times the noise; one in units of the release."""
    kernel, plane = kernel_of(HuberLines, 2.0)
    law = simulate_noise(kernel, plane, GuessedLaw(0.15), LINE, SCATTER, np.full(50, 90.0), SEED, draws=150)
    rng, random, errors = np.random.default_rng(3), KeyedRandom(b"r" * 32), []
    for i in range(150):
        x = rng.random(90)
        y = np.clip(0.3 + 0.4 * x + 0.15 * rng.standard_normal(90), 0, 1)
        errors.append((np.array(kernel.fit(10 * x, 10 * y - 5, random, i).estimate) + 5) / 10 - LINE)
    std = np.sqrt(np.diagonal(law.at(np.array([90.0]))[0][0]))
    assert std == pytest.approx(np.std(errors, axis=0), rel=0.25)
    assert law.target == pytest.approx(LINE, abs=0.02)
    assert law.at(np.array([0.0]))[1] == 1.0  # a group without rows says nothing
    assert law.at(np.array([90.0]))[1] < 0.05


def test_it_repeats_and_falls_with_rows() -> None:
    kernel, plane = kernel_of(GramLines, 20.0)
    laws = [
        simulate_noise(kernel, plane, GuessedLaw(0.15), LINE, SCATTER, np.full(50, 900.0), SEED, draws=60) for _ in "ab"
    ]
    assert np.array_equal(laws[0].noise, laws[1].noise)
    few, many, beyond = np.sqrt(laws[0].at(np.array([60.0, 900.0, 90_000.0]))[0][:, 0, 0])
    assert few > 1.5 * many > 10 * beyond


def test_rows_are_drawn_as_they_were_counted() -> None:
    """Skewed residuals that fan out, from exact counts. Kills: cells of x and of residuals that are mixed up."""
    rng, cells = np.random.default_rng(1), LineCells(8, 0.19)
    x = rng.random(200_000)
    residual = 0.08 * (1 + x) * (rng.exponential(1.0, len(x)) - 1)
    counts = np.bincount(cells.cell_of(x, residual), minlength=cells.count).reshape(8, -1)
    law = RowsLaw.paid(cells.x_edges, cells.residual_edges, counts.astype(float))
    assert law is not None
    drawn = [law.draw(100, rng) for _ in range(1500)]
    at, off = (np.concatenate(part) for part in zip(*drawn, strict=True))
    for low, high in ((0.0, 0.3), (0.7, 1.0)):
        there, here = (low < x) & (x < high), (low < at) & (at < high)
        assert off[here].std() == pytest.approx(residual[there].std(), rel=0.15)
        assert np.median(off[here]) < 0
        assert abs(off[here].mean()) < 0.02


def test_noise_in_cells_makes_no_tails() -> None:
    """Kills: negative counts that are left out while positive ones stay."""
    rng = np.random.default_rng(4)
    true = np.array([0.0] * 20 + [9_000.0, 20_000.0, 9_000.0] + [0.0] * 20)
    found = nearest_counts(true + rng.laplace(0, 60, true.shape))
    assert found.sum() == pytest.approx((true + np.random.default_rng(4).laplace(0, 60, true.shape)).sum())
    assert (found >= 0).all()
    assert found[20:23].sum() > 0.96 * found.sum()
    assert RowsLaw.paid(np.array([0.0, 1.0]), np.array([-np.inf, 0.0, 0.1, np.inf]), np.full((1, 3), -5.0)) is None


def test_wild_draws_are_told_apart() -> None:
    rng = np.random.default_rng(6)
    near = rng.multivariate_normal([0, 0], np.diag([0.02, 0.03]) ** 2, 700)
    covariance, wild = separate(np.concatenate([near, rng.random((300, 2)) - 0.4]), 1.0)
    assert np.sqrt(np.diagonal(covariance)) == pytest.approx([0.02, 0.03], rel=0.15)
    assert wild == pytest.approx(0.3, abs=0.05)
    assert separate(near, 1.0)[1] == 0.0


def test_likely_rows() -> None:
    """Kills: numbers of rows below 0; noise that is taken for groups."""
    rng = np.random.default_rng(7)
    rows = rng.integers(20, 200, 3000).astype(float)
    noisy = rows + rng.laplace(0, 14, 3000)
    found = likely_rows(noisy, 14 * np.sqrt(2))
    assert (found >= 0).all()
    assert ((found.mean(axis=1) - rows) ** 2).mean() < 0.95 * ((noisy - rows) ** 2).mean()
    assert likely_rows(rows, 0.0).tolist() == rows[:, None].tolist()
