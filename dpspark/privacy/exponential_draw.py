"""One exact draw from an exponential mechanism whose scores are whole numbers.

Candidate i has a loss T_i >= 0 (a whole number) and stands for `size_i` equally good points; a point is drawn with probability
proportional to exp(−γ·T). Only differences of losses matter, so the best loss is subtracted first.

How, exactly and without a weight for each of many losses: losses are put into levels of `width` each, the last one open. A
level has the envelope weight 2^512·exp(−γ·width·level), a whole number; a level is drawn by a uniform whole number below the
sum of all envelopes, a point in it uniformly, and kept with probability exp(−γ·(T − width·level)); else all is drawn again.
What is kept has exactly the law above, whatever the width. A level spans at most SPAN in the exponent: four of five are kept.

Precision: an envelope is at least 2^−41 of the best and cut off at 2^−512, a hundred times over at most, so that every
probability is right within a factor 1 ± 2^−460; the exponents that calibration hands out are smaller than the budget allows by
2^−40 of themselves.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from dpspark.privacy.keyed import Stream
from dpspark.privacy.weights import BITS, exp_minus

SPAN = 0.5
FAINTEST = Fraction(40 * math.log(2))  # grids have 2^24 points at most: what is fainter is hardly ever looked at

LARGEST = (1 << 63) - 1


def draw(
    losses: np.ndarray,
    exponent: float,
    stream: Stream,
    sizes: np.ndarray | None = None,
    exact: Callable[[int], int] | None = None,
) -> tuple[int, int]:
    """Draw a candidate, and one of its points (0 if it has one). `sizes` below 2^53 in sum.

    With `exact`, losses of candidates in the last level may be too small, as long as they are in it; `exact` has them.
    """
    width, gamma, envelopes = levels(exponent)
    last = len(envelopes) - 1
    best = (losses if sizes is None else losses[sizes > 0]).min()
    excess = np.maximum(losses - best, 0)  # a run without points may have less than the best
    level = np.minimum(excess // min(width, LARGEST), last)
    counts = np.bincount(level, weights=sizes).tolist()
    sums = list(accumulate(int(count) * weight for count, weight in zip(counts, envelopes, strict=False)))
    while True:
        ticket = stream.below(sums[-1])
        drawn = bisect_right(sums, ticket)
        rank = (ticket - (sums[drawn - 1] if drawn else 0)) // envelopes[drawn]
        members = np.flatnonzero(level == drawn)
        if sizes is None:
            member, offset = int(members[rank]), 0
        else:
            ends = np.cumsum(sizes[members])
            at = int(np.searchsorted(ends, rank, "right"))
            member, offset = int(members[at]), rank - (int(ends[at - 1]) if at else 0)
        above = int(excess[member]) if exact is None else exact(member) - int(best)
        if stream.bernoulli_exp(gamma * above - FAINTEST if drawn == last else gamma * (above - width * drawn)):
            return member, offset


def last_level(exponent: float) -> int:
    """Find where the last level begins: a loss above the best."""
    width, _, envelopes = levels(exponent)
    return width * (len(envelopes) - 1)


@lru_cache(maxsize=1024)
def levels(exponent: float) -> tuple[int, Fraction, list[int]]:
    """Compute the width of a level in whole losses, γ, and the levels' envelopes 2^512·e^(−min(γ·width·level, FAINTEST)).

    Public, and the same for every group with the same exponent. Each is the one before times e^(−γ·width).
    """
    if not (0 < exponent < math.inf):
        raise ValueError(f"exponent={exponent}; expected a number > 0")
    width = max(1, math.floor(SPAN / exponent))
    gamma = Fraction(exponent)
    step = gamma * width
    envelopes, factor = [1 << BITS], exp_minus(step)
    while len(envelopes) * step < FAINTEST:
        envelopes.append(envelopes[-1] * factor >> BITS)
    return width, gamma, [*envelopes, exp_minus(FAINTEST)]
