"""What is published of drawn quantiles: in order, with how far they can be off and what that means. Post-processing: no cost.

Everything here comes from the law of the draws, which is public, and from what was drawn and paid for: never from the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from dpspark.exact.histogram import Axis

LEVEL = 0.95
WEAK_SHARE = 0.1  # of the rows: a quantile that can be off by more is next to nothing
SURE = 2.0  # standard deviations that a paid-for count is taken as too large by

Status = Literal["ok", "ok_if_expected", "rows_unknown", "weakly_identified"]
MEANING: dict[str, str] = {
    "ok_if_expected": "ok if there are as many rows as release.expected_rows says; a group may have fewer, or none",
    "rows_unknown": f"how many rows there are is private: good if rank_error is below {WEAK_SHARE:.0%} of them, noise if not",
    "weakly_identified": f"the noise can be more than {WEAK_SHARE:.0%} of the rows",
}
RANK_ERROR = (
    f"rank_error: with probability {LEVEL:.0%}, a column's estimates are that many rows off its quantiles at most"
)


@dataclass(frozen=True)
class QuantileRow:
    column: str
    probability: float
    estimate: float
    status: Status
    rank_error: float


def shown_quantiles(
    targets: Sequence[tuple[Axis, float, float]], drawn: Sequence[float], rows: float | None, counted: bool = False
) -> list[QuantileRow]:
    """`targets` are axis, probability and γ; `rows` is how many there are, as far as that is public; `counted`: not a guess.

    Sorting moves no estimate farther from its rank than the one that was farthest: the error of a column is that of its worst.
    """
    found: list[QuantileRow | None] = [None] * len(targets)
    for positions in _columns(targets):
        order = sorted(positions, key=lambda i: targets[i][1])
        error = max(_rank_error(targets[i][0].cells, targets[i][2], len(order)) for i in order)
        status = _status(error, _most_rows(order, targets, drawn, error), rows, counted)
        for i, estimate in zip(order, sorted(drawn[i] for i in order), strict=True):
            found[i] = QuantileRow(targets[i][0].name, targets[i][1], estimate, status, error)
    return [row for row in found if row is not None]


def _columns(targets: Sequence[tuple[Axis, float, float]]) -> Iterator[list[int]]:
    for name in dict.fromkeys(axis.name for axis, _, _ in targets):
        yield [i for i, (axis, _, _) in enumerate(targets) if axis.name == name]


def _rank_error(cells: int, exponent: float, together: int) -> float:
    """P(distance > t) <= cells·e^(−γt), since the cell that holds the quantile is at distance 0; for all of a column at once.

    McSherry & Talwar (2007), Theorem 8.
    """
    return math.log(cells * together / (1 - LEVEL)) / exponent


def _most_rows(
    order: list[int], targets: Sequence[tuple[Axis, float, float]], drawn: Sequence[float], error: float
) -> float:
    """The most rows that there can be if draws came in the wrong order; inf if none did.

    Where the draw for p is above the one for q > p, the two are off by (q − p)·rows together, and each by `error` at most.
    """
    wrong = (targets[j][1] - targets[i][1] for i, j in combinations(order, 2) if drawn[i] > drawn[j])
    gap = max(wrong, default=0.0)
    return 2 * error / gap if gap > 0 else math.inf


def _status(error: float, most: float, rows: float | None, counted: bool) -> Status:
    if error > WEAK_SHARE * min(most, math.inf if rows is None else rows):
        return "weakly_identified"
    if rows is None:
        return "rows_unknown"
    return "ok" if counted else "ok_if_expected"
