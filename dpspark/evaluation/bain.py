"""Bain, D'Orazio, Sheffet & Vadhan, *Releasing a Differentially Private Variance-covariance Matrix*: what is shared.

Their mechanism: columns scaled to [0, 1], an intercept, iid Gaussian noise on the upper triangle of DᵀD.
"""

from __future__ import annotations

import math

import numpy as np

PAPER = "Bain, D'Orazio, Sheffet & Vadhan"
EPSILON, DELTA = 0.01, 2.0**-16  # section 3.2
METHODS = ("as printed", "corrected", "dpspark")


def noise_std(method: str, columns: int, epsilon: float, delta: float) -> float:
    """Of every entry, in rows. Printed: sensitivity √d. A row of d + 1 entries in [0, 1] moves DᵀD by up to d + 1."""
    sensitivity = math.sqrt(columns) if method == "as printed" else columns + 1
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def paper_noise(std: float, width: int, random: np.random.Generator) -> np.ndarray:
    upper = np.triu(random.normal(0, std, (width, width)))
    return upper + np.triu(upper, 1).T


def to_unit_box(matrix: np.ndarray) -> np.ndarray:
    """A matrix, or noise, of columns in [-1, 1] in terms of the same columns in [0, 1], intercept first."""
    turn = np.diag(np.full(len(matrix), 0.5))
    turn[:, 0] = 0.5
    turn[0, 0] = 1.0
    return turn @ matrix @ turn.T
