"""The privacy part of a variance at noisy coefficients: what their noise adds to it is taken off, and never too much."""

from __future__ import annotations

import numpy as np
import pytest

from dpspark.analysis.ols import Moments, directions, fit_scaled, identification, solve
from dpspark.analysis.second_order import at_truth
from dpspark.core.formula import Formula
from dpspark.mechanisms.gram.noisy import AdditiveNoise

TERMS = ("(intercept)", "a", "b", "y")
FORMULA = Formula("y", ("a", "b"), True)


def test_the_excess_is_taken_off_on_average() -> None:
    """Over 3000 draws at kappa_w about 6, seed 1: Ω at the estimates is too large by 2% or more, and within 1% after.

    The seed is fixed; with others the mean moves by some 0.3%. Kills: nothing taken off, or twice as much.
    """
    rng = np.random.default_rng(1)
    noise = AdditiveNoise(30.0, 30.0)
    exact = 1000 * np.array([[1, 0.1, 0, 0.1], [0.1, 0.33, 0.05, 0.1], [0, 0.05, 0.33, 0.05], [0.1, 0.1, 0.05, 0.4]])
    moments = Moments(TERMS, exact, np.eye(4)[0], 1 - np.eye(4)[0], noise)
    x, y, _, _ = directions(moments, FORMULA)
    assert 4 < identification(moments, x).kappa_w < 8
    gamma = np.linalg.solve(x.T @ exact @ x, x.T @ exact @ y)
    truth = np.diag(x.T @ noise.along(y - x @ gamma, exact) @ x)
    plain, corrected = [], []
    for drawn in noise.draw(exact, rng, 3000):
        noisy = Moments(TERMS, exact + drawn, moments.middle, moments.half, noise)
        _, inverse, omega, _ = fit_scaled(noisy, x, y)
        less = at_truth(omega, inverse, lambda f, noisy=noisy: x.T @ noise.spread(x @ f, noisy.scaled) @ x)
        plain.append(np.diag(omega))
        corrected.append(np.diag(less))
    assert (np.mean(plain, axis=0) > 1.02 * truth).all()
    assert np.mean(corrected, axis=0) == pytest.approx(truth, rel=0.01)


def test_no_direction_loses_more_than_half() -> None:
    omega, inverse = np.array([[2.0, 0.5], [0.5, 1.0]]), np.eye(2)
    for size in (0.1, 10.0, 1e6):
        less = at_truth(omega, inverse, lambda f, size=size: size * np.diag([1.0, 0.1]))
        assert np.linalg.eigvalsh(less - omega / 2)[0] >= -1e-12
    assert at_truth(np.zeros((2, 2)), inverse, lambda f: f @ f.T) == pytest.approx(np.zeros((2, 2)))


def test_a_guess_has_no_noise_to_take_off() -> None:
    """Kills: plans whose errors are smaller than those that releases state."""
    exact = 1000 * np.array([[1, 0.1, 0, 0.1], [0.1, 0.33, 0.05, 0.1], [0, 0.05, 0.33, 0.05], [0.1, 0.1, 0.05, 0.4]])
    moments = Moments(TERMS, exact, np.eye(4)[0], 1 - np.eye(4)[0], AdditiveNoise(30.0, 30.0))
    planned, released = (np.diag(solve(moments, FORMULA, guessed=guessed).privacy) for guessed in (True, False))
    assert (released < 0.98 * planned).all()
