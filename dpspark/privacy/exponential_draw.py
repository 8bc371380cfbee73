"""One exact draw from an exponential mechanism whose scores are whole numbers.

Candidate i has a loss T_i >= 0 (a whole number) and stands for `size_i` equally good points; a point is drawn with probability
proportional to exp(−γ·T). Only differences of losses matter, so the best loss is subtracted first.

How, exactly and without a weight for each of many losses: losses are put into levels of `width` each, the last one open. A
level has the envelope weight 2^512·exp(−γ·width·level), a whole number; a level is drawn by a uniform whole number below the
sum of all envelopes, a point in it uniformly, and kept with probability exp(−γ·(T − width·level)); else all is drawn again.
What is kept has exactly the law above, whatever the width. A level spans at most SPAN in the exponent: four of five are kept.

Where losses are costly, few of them are needed: the random bits say which level is drawn as soon as the better levels are
known, with bounds of the others' weight that settle the sum of all envelopes. `draw_near` asks for as much as that takes, and
draws what `draw` draws from all losses with the same bits. How far it has to look depends on the data: that is timing.

Precision: an envelope is at least 2^−41 of the best and cut off at 2^−512, a hundred times over at most, so that every
probability is right within a factor 1 ± 2^−460; the exponents that calibration hands out are smaller than the budget allows by
2^−40 of themselves.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from dpspark.privacy.keyed import Stream
from dpspark.privacy.weights import BITS, exp_minus

SPAN = 0.5
FAINTEST = Fraction(40 * math.log(2))  # grids have 2^24 points at most: what is fainter is hardly ever looked at

LARGEST = (1 << 63) - 1
REACHES = (
    8,
    16,
)  # in the exponent, how far to look first: what is drawn is farther once in 140 times, for two numbers


def draw(
    losses: np.ndarray,
    exponent: float,
    stream: Stream,
    sizes: np.ndarray | None = None,
) -> tuple[int, int]:
    """Draw a candidate, and one of its points (0 if it has one). `sizes` below 2^53 in sum."""
    width, _, envelopes = levels(exponent)
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
        if stream.bernoulli_exp(_surplus(exponent, int(excess[member]), drawn)):
            return member, offset


def _surplus(exponent: float, above: int, level: int) -> Fraction:
    """Compute how far a loss is above its level's beginning, in the exponent."""
    width, gamma, envelopes = levels(exponent)
    return gamma * above - FAINTEST if level == len(envelopes) - 1 else gamma * (above - width * level)


@dataclass(frozen=True)
class Near:
    """What is known of all candidates' losses, each candidate once: some losses, the best among them, and bounds.

    `counts` candidates of the others have losses of at least `bounds`. The order of what is known does not matter.
    """

    candidates: np.ndarray
    losses: np.ndarray
    bounds: np.ndarray
    counts: np.ndarray


def draw_near(find: Callable[[int | None], Near], exponent: float, open_stream: Callable[[], Stream]) -> int:
    """Draw the candidate that `draw` draws from all losses, bit by bit.

    `find` looks for all candidates less than so much above the best, or for all there are (None). `open_stream` opens the same
    stream again: what was not settled is drawn anew with the same bits and more losses.
    """
    width, gamma, envelopes = levels(exponent)
    last = len(envelopes) - 1
    for known in sorted({min(math.ceil(reach / (gamma * width)), last) for reach in REACHES}):
        drawn = _draw_known(find(min(width * known, LARGEST)), known, exponent, open_stream())
        if drawn is not None:
            return drawn
    drawn = _draw_known(find(None), last + 1, exponent, open_stream())
    assert drawn is not None  # nothing is left out
    return drawn


def _draw_known(near: Near, known: int, exponent: float, stream: Stream) -> int | None:
    """Draw a candidate, or None if the bits do not settle it: so many levels are known in full."""
    width, _, envelopes = levels(exponent)
    size = len(envelopes)
    excess = near.losses - near.losses.min()
    level = np.minimum(excess // min(width, LARGEST), size - 1)
    counts = np.bincount(level, minlength=size).tolist()
    if len(near.counts):
        beyond = np.clip((near.bounds - near.losses.min()) // min(width, LARGEST), known, size - 1)
        others = np.bincount(beyond, weights=near.counts, minlength=size).tolist()
    else:
        known, others = size, []
    sums = list(accumulate(count * weight for count, weight in zip(counts, envelopes, strict=True)))
    # All but the last envelope fall; that one could be the cut-off above the one before.
    most = sums[-1] + sum(int(n) * max(weight, envelopes[-1]) for n, weight in zip(others, envelopes, strict=False))
    while (ticket := stream.below_between(sums[-1], most)) is not None and ticket < sums[known - 1]:
        drawn = bisect_right(sums, ticket)
        rank = (ticket - (sums[drawn - 1] if drawn else 0)) // envelopes[drawn]
        members = np.flatnonzero(level == drawn)
        member = members[np.argpartition(near.candidates[members], rank)[rank]]
        if stream.bernoulli_exp(_surplus(exponent, int(excess[member]), drawn)):
            return int(near.candidates[member])
    return None


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
