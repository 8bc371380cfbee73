"""Exact privacy profiles of Sheffet's samplers: the smallest delta at an epsilon for one row added or removed.

The likelihood ratio of each depends on the data through one number that is largest for a row of full norm B, where the
profile is computed: adding more of the same noise is post-processing, so a shorter row is no worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import chdtr, chdtrc  # of a chi-squared: scipy.stats has the same, and takes half a second to import

from dpspark.errors import ConfError

# From here on scipy's chi-squared tails lose the digits that matter, and the profiles are integrated instead.
LARGEST_POWER = 700.0  # of e in floating point
MANY_DEGREES = 1e4
# Normal numbers come from 53 bits and end at 8.2 standard deviations: a delta below their tail cannot be promised.
SMALLEST_DELTA = 1e-14
LARGEST_EPSILON = 500.0
REACH = 14.0  # standard deviations past the edge, where the rest is below 1e-43


def gaussian_pair_delta(epsilon: float, degrees: float, s: float) -> float:
    """delta between N(0, 1)^r and N(0, 1 − s)^r, in the worse direction; s = B² / (ridge + B²).

    The case of a Johnson-Lindenstrauss projection to r rows, and of an inverse-Wishart draw with r degrees of freedom.
    The log-likelihood ratio is s·‖x‖²/(2(1 − s)) + (r/2)·ln(1 − s), and ‖x‖² is chi-squared.
    """
    if degrees > MANY_DEGREES:
        return _many_gaussian_pairs(epsilon, degrees, s)
    log_ratio = degrees * math.log1p(-s)
    wide = (2 * epsilon - log_ratio) / s
    first = _difference(chdtrc(degrees, (1 - s) * wide), epsilon, chdtrc(degrees, wide))
    narrow = (-log_ratio - 2 * epsilon) / s
    second = _difference(chdtr(degrees, narrow), epsilon, chdtr(degrees, (1 - s) * narrow)) if narrow > 0 else 0.0
    return max(0.0, first, second)


def wishart_delta(epsilon: float, effective: float, a: float) -> float:
    """delta of adding Wishart(σ²I, k) to a d × d matrix, in the worse direction; effective = k − d + 1, a = B² / σ².

    The ratio is that of G and G + a, where G is chi-squared with `effective` degrees of freedom.
    """
    half = (effective - 2) / 2
    if half <= 0 or (a / 2 - epsilon) / half > LARGEST_POWER:  # far too few for such a row
        return 1.0
    if effective > MANY_DEGREES:
        return _many_wishart(epsilon, effective, a)
    with_row = 0.0
    if a / 2 > epsilon:
        edge = a / math.expm1((a / 2 - epsilon) / half)
        with_row = _difference(chdtrc(effective, edge), epsilon, chdtrc(effective, edge + a))
    edge = a / -math.expm1(-(epsilon + a / 2) / half)
    without_row = _difference(chdtr(effective, edge), epsilon, chdtr(effective, edge - a))
    return max(0.0, with_row, without_row)


def _many_gaussian_pairs(epsilon: float, degrees: float, s: float) -> float:
    """The same with ‖x‖² = degrees·(1 + u): the loss is linear in u. Its constants are differences, so by their series."""
    if s <= 0:
        return 0.0
    if s > 0.01:
        wide, narrow = s / (1 - s) + math.log1p(-s), -(s + math.log1p(-s))
    else:
        wide, narrow = sum(s**k * (1 - 1 / k) for k in range(2, 12)), sum(s**k / k for k in range(2, 12))
    first = _integrated(
        epsilon,
        degrees,
        lambda u: degrees / 2 * (s * u / (1 - s) + wide),
        (2 * epsilon / degrees - wide) * (1 - s) / s,
        upwards=True,
    )
    second = _integrated(
        epsilon,
        degrees,
        lambda u: degrees / 2 * (narrow - s * u),
        (narrow - 2 * epsilon / degrees) / s,
        upwards=False,
    )
    return max(first, second)


def _many_wishart(epsilon: float, effective: float, a: float) -> float:
    """The same with G = effective·(1 + u)."""
    half = (effective - 2) / 2

    def with_row(u: np.ndarray) -> np.ndarray:
        return a / 2 - half * np.log1p(a / (effective * (1 + u)))

    def without_row(u: np.ndarray) -> np.ndarray:
        return -a / 2 - half * np.log1p(-a / (effective * (1 + u)))

    first = 0.0
    if a / 2 > epsilon:
        edge = a / math.expm1((a / 2 - epsilon) / half)
        first = _integrated(epsilon, effective, with_row, (edge - effective) / effective, upwards=True)
    edge = a / -math.expm1(-(epsilon + a / 2) / half)
    second = _integrated(epsilon, effective, without_row, (edge - effective) / effective, upwards=False)
    # Where the neighbour cannot be at all (G <= a) is as good as impossible with so many degrees.
    return max(first, second)


def _integrated(
    epsilon: float, degrees: float, loss: Callable[[np.ndarray], np.ndarray], edge: float, upwards: bool
) -> float:
    """E[1 − e^(epsilon − loss)] past the edge where the loss is epsilon; degrees·(1 + u) is chi-squared."""
    std = math.sqrt(2 / degrees)
    at = edge / std
    start, stop = (max(at, -REACH), max(at, 0.0) + REACH) if upwards else (min(at, 0.0) - REACH, min(at, REACH))
    start = max(start, -0.9 / std)  # far below, and a logarithm of zero further on
    if stop <= start:
        return 0.0
    u = np.linspace(start, stop, 4001) * std
    # Stirling's series for the density's constant; the exponent is a small difference, which log1p keeps exact.
    constant = 0.5 * math.log(degrees / (4 * math.pi)) - 1 / (6 * degrees)
    log_density = constant + degrees / 2 * (np.log1p(u) - u) - np.log1p(u)
    excess = -np.expm1(np.minimum(epsilon - loss(u), 0.0))
    heights = np.exp(log_density) * excess
    # Simpson's rule, as scipy.integrate has it.
    found = float(heights[0] + heights[-1] + 4 * heights[1::2].sum() + 2 * heights[2:-1:2].sum()) * (u[1] - u[0]) / 3
    return max(0.0, found) * (1 + 1e-8) if math.isfinite(found) else 1.0  # past the rule's own error


def _difference(probability: float, epsilon: float, other: float) -> float:
    """probability − e^epsilon · other, without overflow."""
    return float(probability) - (math.exp(min(0.0, epsilon + math.log(other))) if other > 0 else 0.0)


def for_one_row(epsilon: float, delta: float, replaced: bool) -> tuple[float, float]:
    """The (epsilon, delta) that one added row must meet. A replaced row is two of them: group privacy."""
    if not (epsilon <= LARGEST_EPSILON and delta >= SMALLEST_DELTA):
        raise ConfError(
            f"epsilon={epsilon:g}, delta={delta:g}: this mechanism is drawn in floating point, which is good for epsilon up to "
            f"{LARGEST_EPSILON:g} and delta from {SMALLEST_DELTA:g} up.\nUse mechanism gaussian or gram_ridge."
        )
    return (epsilon / 2, delta / (1 + math.exp(epsilon / 2))) if replaced else (epsilon, delta)


def ridge_for(epsilon: float, delta: float, degrees: float, squared_norm: float) -> float:
    """The least ridge (w² of Johnson-Lindenstrauss, ψ of inverse-Wishart), rounded up, that meets (epsilon, delta)."""
    low, high = 0.0, 1.0  # s: no privacy at 1, all of it at 0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_pair_delta(epsilon, degrees, middle) <= delta else (low, middle)
        if high - low <= 1e-12 * low:
            break
    s = low * (1 - 1e-9)
    return squared_norm * (1 - s) / s


def wishart_degrees(epsilon: float, delta: float, width: int, a: float) -> int:
    """The least k of Wishart(σ²I, k) with σ² = B²/a that meets (epsilon, delta)."""
    high = 4
    while wishart_delta(epsilon, high, a) > delta:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wishart_delta(epsilon, middle, a) > delta else (low, middle)
    return high + width - 1
