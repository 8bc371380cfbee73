"""Pure differential privacy: one joint scale, attacked through the real bounding code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpspark.core.domain import Domain, RowNorm
from dpspark.core.records import Change, Records
from dpspark.errors import ConfError
from dpspark.exact.fixed_point import ExactGram
from dpspark.mechanisms.base import Problem
from dpspark.mechanisms.gram.laplace import LaplaceGram
from dpspark.privacy.budget import Budget
from dpspark.privacy.noise import OpenDPNoise
from dpspark.privacy.sensitivity import second_moment_l1
from tests.noises import RecordedNoise
from tests.privacy.test_sensitivity import DOMAINS, all_rows, numeric


def l1_norms(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    changes = after[:, :, None] * after[:, None, :] - before[:, :, None] * before[:, None, :]
    return np.abs(changes)[:, np.triu(np.ones(changes.shape[1:], dtype=bool))].sum(axis=1)


def attack(rows: np.ndarray, change: Change) -> float:
    found = 0.0
    if change in ("added", "either"):
        found = float(l1_norms(np.zeros_like(rows), rows).max())
    if change in ("replaced", "either"):
        found = max(found, *(float(l1_norms(np.repeat(row[None], len(rows), 0), rows).max()) for row in rows))
    return found


@pytest.mark.parametrize("change", ["added", "replaced", "either"])
@pytest.mark.parametrize("name", DOMAINS)
def test_box(name: str, change: Change) -> None:
    """Kills: s(s + 1)/2 − 1 for a replaced row, which interior points exceed; any smaller constant for added rows."""
    claim = second_moment_l1(DOMAINS[name], change)
    found = attack(all_rows(DOMAINS[name]), change)
    assert found <= claim
    if change == "added":
        assert found >= claim * 0.999


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_replaced_numbers_are_tight(count: int) -> None:
    """The proved maximum has every |z_i − z'_i|/2 equal: (1, 1, ...) against (1, q, ...) reaches it."""
    domain = Domain(numeric(count), "midpoint")
    one = np.ones((1, count + 1))
    found = 0.0
    for q in np.linspace(-1, 1, 2001):
        other = np.full((1, count + 1), q)
        other[0, 0] = 1.0
        found = max(found, float(l1_norms(one, other)[0]))
    claim = second_moment_l1(domain, "replaced")
    assert found <= claim
    assert found >= claim * 0.9999
    assert found > (count + 1) * (count + 2) / 2 - 1  # what vertices and midpoints alone would suggest


@pytest.mark.parametrize("change", ["added", "replaced"])
@pytest.mark.parametrize(("mode", "radius"), [("cap", 0.5), ("cap", 1.3), ("project", 2.5)])
def test_ball(mode: str, radius: float, change: Change) -> None:
    domain = Domain(numeric(3), "midpoint", RowNorm(mode, radius))  # type: ignore[arg-type]
    rng = np.random.default_rng(5)
    u = np.vstack([rng.normal(size=(500, 3)), rng.choice([-1.0, 1.0], (60, 3))])
    u *= radius / np.linalg.norm(u, axis=1, keepdims=True)
    if mode == "cap":
        u = np.clip(u, -1, 1)
    rows = np.hstack([np.ones((len(u), 1)), u])
    claim = second_moment_l1(domain, change)
    found = attack(rows, change)
    assert found <= claim
    assert found >= claim * (0.9 if change == "added" else 0.5)


@pytest.mark.parametrize("change", ["added", "replaced"])
def test_the_scale_drawn_meets_epsilon(change: Change) -> None:
    """Kills: the full epsilon for each entry."""
    domain = DOMAINS["two numbers"]
    mechanism = LaplaceGram.for_budget(Problem(domain, Records(change)), Budget(0.7))
    noise = RecordedNoise()
    mechanism.release(ExactGram.from_partials(mechanism.domain, []), noise)
    [(law, scale, _)] = noise.asked
    assert law == "laplace"
    spent = attack(all_rows(domain), change) / (scale / 4.0**mechanism.domain.bits)
    assert spent <= 0.7
    assert spent >= 0.7 * 0.99


def test_draws_are_laplace_of_the_stated_scale() -> None:
    """Kills: noise at 0.7 or 1.3 times its scale. False alarm 1e-6."""
    mechanism = LaplaceGram.for_budget(Problem(DOMAINS["two numbers"], Records("added")), Budget(1.0))
    empty = ExactGram.from_partials(mechanism.domain, [])
    draws = np.array([mechanism.release(empty, OpenDPNoise()).upper for _ in range(800)], dtype=float).ravel()
    draws /= 4.0**mechanism.domain.bits * mechanism.scale
    assert stats.kstest(draws, "laplace").pvalue > 1e-6
    assert stats.kstest(draws / 0.7, "laplace").pvalue < 1e-6
    assert stats.kstest(draws / 1.3, "laplace").pvalue < 1e-6
    assert np.std(draws) * mechanism.scale == pytest.approx(mechanism.noise.diagonal_std, rel=0.1)


def test_public_count_and_extreme_budgets() -> None:
    mechanism = LaplaceGram.for_budget(Problem(DOMAINS["two numbers"], Records("replaced")), Budget(1.0))
    exact = ExactGram(mechanism.domain, [7 * 4**20, 1, 2, 3, 4, 5])
    assert mechanism.release(exact, OpenDPNoise()).upper[0] == 7 * 4**20
    assert LaplaceGram.for_budget(Problem(DOMAINS["two numbers"], Records("added")), Budget(1e-9)).domain.bits < 20
    with pytest.raises(ConfError):
        LaplaceGram.for_budget(Problem(DOMAINS["two numbers"], Records("added")), Budget(1e-300))
