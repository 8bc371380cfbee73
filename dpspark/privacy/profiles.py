"""Exact privacy profiles of Sheffet's samplers: the smallest delta at an epsilon for one row added or removed.

The likelihood ratio of each depends on the data through one number that is largest for a row of full norm B, where the
profile is computed: adding more of the same noise is post-processing, so a shorter row is no worse.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import chdtr  # of a chi-squared: scipy.stats has the same, and takes half a second to import

from dpspark.errors import ConfError
from dpspark.privacy.budget import NODES, WEIGHTS

LARGEST_POWER = 700.0  # of e in floating point
MOST_DEGREES = 10**15  # far more than can be drawn; beyond 10^60 doubles end
# Normal numbers come from 53 bits and end at 8.2 standard deviations: a delta below their tail cannot be promised.
SMALLEST_DELTA = 1e-14
LARGEST_EPSILON = 500.0
ERROR = 1e-9  # far past that of the integrals, relative
FARTHEST = 700.0  # e to minus that is nothing, and so is
TINY = 1e-300
NEGLIGIBLE = 50.0  # e to minus that, of the largest term
PANELS = 48


def gaussian_pair_delta(epsilon: float, degrees: float, s: float) -> float:
    """Compute delta between N(0, 1)^r and N(0, 1 − s)^r, in the worse direction; s = B² / (ridge + B²).

    The case of a Johnson-Lindenstrauss projection to r rows, and of an inverse-Wishart draw with r degrees of freedom.
    The log-likelihood ratio is s·‖x‖²/(2(1 − s)) + (r/2)·ln(1 − s), and ‖x‖² is chi-squared, or 1 − s times that: linear.
    """
    if not s < 1:
        return 1.0
    if s <= 0:
        return 0.0
    # Where the loss is epsilon, as a share of the degrees, less 1: by series where that is a small difference.
    if s > 0.01:
        wide, narrow = -(1 - s) * math.log1p(-s) / s - 1, -math.log1p(-s) / s - 1
    else:
        wide = -math.fsum(s**k / (k * k + k) for k in range(1, 9))
        narrow = math.fsum(s**k / (k + 1) for k in range(1, 9))
    moved = 2 * epsilon / degrees / s
    return max(
        _past_edge(degrees, (1 - s) * moved + wide, upwards=True, rate=s / (2 * (1 - s))),
        _past_edge(degrees, narrow - moved, upwards=False, rate=s / 2),
    )


def _past_edge(degrees: float, edge: float, upwards: bool, rate: float) -> float:
    """Compute the delta of a loss that grows by `rate` times the way from the edge, degrees·(1 + edge)."""
    if edge <= -1:
        return 1.0 if upwards else 0.0
    at, sign = math.log1p(edge), 1 if upwards else -1
    steep = rate * degrees * (1 + edge)
    return _expectation(
        degrees,
        at,
        upwards,
        lambda d: at + sign * d,
        lambda d: steep * np.abs(np.expm1(sign * d)),
        lambda d: np.zeros_like(d),
    )


def wishart_delta(epsilon: float, effective: float, a: float) -> float:
    """Compute delta of adding Wishart(σ²I, k) to a d × d matrix, in the worse direction; effective = k − d + 1, a = B² / σ².

    The ratio is that of G and G + a, where G is chi-squared with `effective` degrees of freedom.
    """
    half = (effective - 2) / 2
    if half <= 0 or (a / 2 - epsilon) / half > LARGEST_POWER:  # far too few for such a row
        return 1.0
    return max(_with_row(epsilon, effective, a, half), _without_row(epsilon, effective, a, half))


def _with_row(epsilon: float, degrees: float, a: float, half: float) -> float:
    """Compute delta in one direction: the loss a/2 − half·ln(1 + a/G) is epsilon at the edge, and grows with G."""
    if a / 2 <= epsilon:
        return 0.0
    edge = a / math.expm1((a / 2 - epsilon) / half)
    at = math.log(edge / degrees)

    def loss(d: np.ndarray) -> np.ndarray:
        return half * np.log1p(a * np.expm1(d) / (edge * np.exp(d) + a))

    return _expectation(degrees, at, True, lambda d: at + d, loss, lambda d: np.zeros_like(d))


def _without_row(epsilon: float, degrees: float, a: float, half: float) -> float:
    """Compute delta in the other direction.

    The loss −a/2 − half·ln(1 − a/G) is epsilon at the edge, and grows until G = a; below, the neighbour cannot be at all.
    """
    power = -(epsilon + a / 2) / half
    edge, share = a / -math.expm1(power), -math.exp(power)  # share: −(1 − a/edge)
    at = math.log(edge / degrees)

    def place(d: np.ndarray) -> np.ndarray:
        """Find the place where G − a is e^−d of what it is at the edge."""
        return at + np.log1p(share * -np.expm1(-d))

    def step(d: np.ndarray) -> np.ndarray:
        return power - d + at - place(d)

    found = 0.0
    if share:
        found = _expectation(degrees, at, False, place, lambda d: half * np.log1p(a / edge * np.expm1(d)), step, share)
    return min(1.0, found + float(chdtr(degrees, a)))


Function = Callable[[np.ndarray], np.ndarray]


def _expectation(
    degrees: float, at: float, upwards: bool, place: Function, loss: Function, step: Function, share: float = 0.0
) -> float:
    """Compute E[1 − e^−loss] past the edge, over the distance d from it, by Gauss's rule on panels: all terms are positive.

    `place`: ln(G / degrees) at d; `loss`: what is above epsilon there; `step`: the logarithm of d place / d d.
    """
    half = degrees / 2
    low, high = _reach(half)
    start, stop = (low - at, high - at) if upwards else (at - high, at - low)
    if share:  # there d is another distance
        start, stop = (_to_distance(end, share) for end in (start, stop))
    start = max(0.0, start)
    if not start < stop:
        return 0.0

    def heights(d: np.ndarray) -> np.ndarray:
        w = place(d)
        return half * (w - np.expm1(w)) + step(d) + np.log(-np.expm1(-np.maximum(loss(d), TINY)))

    looked = np.linspace(start, stop, 2001)
    found = heights(looked)
    (seen,) = np.nonzero(found > found.max() - NEGLIGIBLE)
    first, last = looked[max(0, seen[0] - 1)], looked[min(2000, seen[-1] + 1)]
    d, weights = _panels(first, last)
    total = float(weights @ np.exp(heights(d) + _constant(half)))
    return min(1.0, total)


def _panels(first: float, last: float) -> tuple[np.ndarray, np.ndarray]:
    """Make nodes and weights: even panels, the first halved again and again, as a loss may be steep at its edge."""
    even = np.linspace(first, last, PANELS + 1)
    halved = first + (even[1] - first) * 2.0 ** -np.arange(50, 0, -1)
    ends = np.concatenate([[first], halved, even[1:]])
    width = np.diff(ends)[:, None]
    return (ends[:-1, None] + width * NODES).ravel(), (width * WEIGHTS).ravel()


def _reach(half: float) -> tuple[float, float]:
    """Find between which ends ln(G / degrees) is, but for a probability below any double.

    half·(e^w − 1 − w) is FARTHEST at both.
    """
    ends = []
    for sign in (-1, 1):
        inner, outer = 0.0, 1.0
        while half * (math.expm1(sign * outer) - sign * outer) < FARTHEST:
            outer *= 2
        for _ in range(60):
            middle = (inner + outer) / 2
            beyond = half * (math.expm1(sign * middle) - sign * middle) >= FARTHEST
            inner, outer = (inner, middle) if beyond else (middle, outer)
        ends.append(sign * outer)
    return ends[0], ends[1]


def _to_distance(below: float, share: float) -> float:
    """Compute the distance d of a place that far below the edge, as a logarithm: G − a = e^−d·(edge − a)."""
    part = -math.expm1(-below) / -share if below > 0 else 0.0
    return -math.log1p(-part) if part < 1 else FARTHEST


def _constant(half: float) -> float:
    """Compute the constant of the density of ln(G / degrees): half·ln(half) − half − ln Γ(half).

    By Stirling's series where that is a difference.
    """
    if half < 50:
        return half * math.log(half) - half - math.lgamma(half)
    return 0.5 * math.log(half / (2 * math.pi)) - 1 / (12 * half) + 1 / (360 * half**3) - 1 / (1260 * half**5)


def for_one_row(epsilon: float, delta: float, replaced: bool) -> tuple[float, float]:
    """Compute the (epsilon, delta) that one added row must meet. A replaced row is two of them: group privacy."""
    if not (epsilon <= LARGEST_EPSILON and delta >= SMALLEST_DELTA):
        raise ConfError(
            f"epsilon={epsilon:g}, delta={delta:g}: this mechanism is drawn in floating point, which is good for epsilon up to "
            f"{LARGEST_EPSILON:g} and delta from {SMALLEST_DELTA:g} up.\nUse mechanism gaussian or gram_ridge."
        )
    return (epsilon / 2, delta / (1 + math.exp(epsilon / 2))) if replaced else (epsilon, delta)


def _down(delta: float, degrees: float) -> float:
    """Lower delta by more than the error of the profiles: an edge's place, as a share of the degrees, is good for 16 digits."""
    return delta * (1 - ERROR - 1e-14 * math.sqrt(degrees))


def ridge_for(epsilon: float, delta: float, degrees: float, squared_norm: float) -> float:
    """Find the least ridge (w² of Johnson-Lindenstrauss, ψ of inverse-Wishart), rounded up, that meets (epsilon, delta)."""
    delta = _down(delta, degrees)
    low, high = 0.0, 1.0  # s: no privacy at 1, all of it at 0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_pair_delta(epsilon, degrees, middle) <= delta else (low, middle)
        if high - low <= 1e-12 * low:
            break
    s = low * (1 - 1e-9)
    return squared_norm * (1 - s) / s


def wishart_degrees(epsilon: float, delta: float, width: int, a: float) -> int:
    """Find the least k of Wishart(σ²I, k) with σ² = B²/a that meets (epsilon, delta); beyond MOST_DEGREES, some k above it."""
    high = 4
    while wishart_delta(epsilon, high, a) > _down(delta, high):
        high *= 2
        if high > MOST_DEGREES:
            return high + width
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wishart_delta(epsilon, middle, a) > _down(delta, middle) else (low, middle)
    return high + width - 1
