"""The noise as it is really drawn, against what the claim needs: sharp where a black box sees nothing.

A distinguishing attack needs millions of releases to see noise that is a fifth too small. Here the attacker knows the exact
numbers, measures the noise, and asks which epsilon noise of that size gives for the change that one record makes.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import norm

from dpspark.audit.attacks import SHOWN, Case, Finding
from dpspark.privacy.laws import LAWS
from dpspark.privacy.noise import NoiseSource

MOST = 2000  # releases: the size of the noise is then known to about 1%


def measure_noise(case: Case, trials: int, noise: NoiseSource, risk: float) -> Finding:
    view, trials = case.view, min(trials, MOST)
    assert view is not None
    drawn = np.concatenate([view.residuals(noise) for _ in range(trials)])
    shown, sure = (
        implied_epsilon(view.law, view.shift / largest_std(drawn, level), case.delta) for level in (SHOWN, 1 - risk)
    )
    return Finding(
        "white box",
        case.target,
        case.neighbours,
        "epsilon",
        case.epsilon,
        shown,
        trials,
        sure > case.epsilon,
        case.delta,
        note=f"noise measured at {math.sqrt(float((drawn**2).mean())):.3f} of its claim",
    )


def largest_std(drawn: np.ndarray, confidence: float) -> float:
    """An upper bound of the standard deviation of centred noise, by the spread of its squares."""
    squares = drawn**2
    return math.sqrt(float(squares.mean() + norm.ppf(confidence) * squares.std() / math.sqrt(len(squares))))


def implied_epsilon(law: str, shift: np.ndarray, delta: float) -> float:
    """Say which epsilon noise with standard deviation 1 on each number gives at delta."""
    return LAWS[law].epsilon_of(shift, delta)
