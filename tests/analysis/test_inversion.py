"""Intervals by inversion: they hold the truth as often as they say where the noise is not small."""

from __future__ import annotations

import numpy as np
import pytest

from dpspark.analysis.inversion import Inversion
from dpspark.analysis.ols import Moments, directions, identification, solve
from dpspark.core.formula import Formula
from dpspark.mechanisms.gram.noisy import AdditiveNoise

NORMAL = 1.959964


def test_far_from_the_middle_intervals_cover() -> None:
    """Of 1500 draws at kappa_w = 6, seed 3, 93 to 97%; symmetric ones at the estimates cover less.

    Kills: the slope left out, or of the other sign. The seed is fixed; 93% is 3.5 standard deviations away.
    """
    one = np.array([[1, 0.9, 0.1], [0.9, 0.81 + 0.01 / 3, 0.1], [0.1, 0.1, 0.4]])
    noise, formula = AdditiveNoise(30.0, 30.0), Formula("y", ("a",), True)
    scale = np.array([1.0, 0, 0]), np.array([0.0, 1, 1])
    exact = Moments(("(intercept)", "a", "y"), one, *scale, noise)
    x, y, _, _ = directions(exact, formula)
    matrix = 6 / identification(exact, x).kappa_w * one
    truth = np.linalg.solve(x.T @ matrix @ x, x.T @ matrix @ y)
    hits = []
    for drawn in noise.draw(matrix, np.random.default_rng(3), 1500):
        noisy = Moments(exact.terms, matrix + drawn, *scale, noise)
        if identification(noisy, x).kappa_w < 2:
            continue
        found = solve(noisy, formula)
        assert found.inversion is not None
        low, high = found.inversion.intervals(found.estimates, 0.0, NORMAL).T
        hits.append((low <= truth) & (truth <= high))
    assert len(hits) > 1400
    assert 0.93 <= np.mean(hits) <= 0.97


def test_the_ends_are_the_roots() -> None:
    of = Inversion(np.array([2.0, 2.0]), np.array([0.3, -0.3]), np.array([0.05, 0.05]))
    for sampling in (0.0, 1.5):
        share = 2 / (2 + sampling)
        for i, ends in enumerate(of.intervals(np.array([5.0, 5.0]), sampling, 2.0)):
            for t in 5 - ends:
                variance = 2 + sampling + of.slope[i] * share * t + of.curve[i] * (share * t) ** 2
                assert t**2 == pytest.approx(4 * variance)


def test_without_curve_it_is_symmetric_and_with_too_much_it_has_no_bounds() -> None:
    of = Inversion(np.array([4.0, 4.0, 0.0]), np.zeros(3), np.array([0.0, 0.26, 0.0]))
    found = of.intervals(np.ones(3), 0.0, 2.0)
    assert found[0].tolist() == [-3, 5]
    assert found[1].tolist() == [-np.inf, np.inf]
    assert found[2].tolist() == [1, 1]
