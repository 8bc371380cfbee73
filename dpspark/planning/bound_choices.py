"""What a bound of a response costs in all, before data: clipping and noise together, for a guess of its tail.

Clipping moves a coefficient by s·√n·(e/σ) of its sampling errors (analysis.clipping has the argument), with the share s beyond
and the mean excess e of the guessed tail; noise is predicted as everywhere in a plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dpspark.core.domain import Domain, Numeric, Side
from dpspark.mechanisms.quantiles.bounds import BoundsMechanism
from dpspark.planning.guess import Guess
from dpspark.planning.predict import Prediction
from dpspark.planning.tails import Tail

SHARES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)  # beyond: the bounds that are compared
DROWNED = 3.0  # sampling errors: noise that is more at every bound is no reason to choose one


@dataclass(frozen=True)
class BoundChoice:
    """Bounds of a response and what they cost, in standard errors that the sample has anyway."""

    column: str
    formula: str
    side: Side
    bound: float
    of_conf: bool  # as the conf has it, or as its method would find it
    rows_beyond: float
    clipping: float
    privacy: float  # of the slope that the noise is worst for, without those that it drowns at every bound
    best: bool = False

    @property
    def total(self) -> float:
        return math.sqrt(1 + self.clipping**2 + self.privacy**2)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "total": self.total}


def found_column(
    finder: BoundsMechanism, column: Numeric, guess: tuple[float, float], rows: float, index: Any
) -> Numeric:
    """The column with its private bounds where they would be found, for a guess of its mean and standard deviation."""
    tails = {side: Tail.of(column, side, *guess, index) for side in column.private_sides}
    ends = {side: tail.value_at(finder.share_beyond(side, rows)) for side, tail in tails.items()}
    room = finder.room - 1
    lower, upper = ends.get("lower", column.lower), ends.get("upper", column.upper)
    width = max(0.0, upper - lower)
    if "lower" in ends:
        lower = max(column.lower, lower - room * width)
    if "upper" in ends:
        upper = min(column.upper, upper + room * width)
    return column if not lower < upper else replace(column, lower=lower, upper=upper)


def compare_bounds(
    column: Numeric, before: Domain, domain: Domain, guess: Guess, predictions: Any, formulas: Any
) -> Iterator[list[BoundChoice]]:
    """Compare bounds of a column for each regression of which it is the response: on each of its sides that has a tail.

    `before` has the search ranges, `domain` the bounds of the conf; `predictions` predicts for other bounds.
    """
    mean, sd = guess.column(domain, column.name)
    searched = next(c for c in before.numeric if c.name == column.name)
    sides: tuple[Side, ...] = searched.private_sides or ("upper",)
    for at, formula in enumerate(formulas):
        if formula.response != column.name:
            continue
        for side in sides:
            tail = Tail.of(searched, side, mean, sd, guess.tails.get(column.name))
            own = column.upper if side == "upper" else column.lower
            others = [tail.value_at(share) for share in SHARES if share * guess.rows >= 1]
            pairs = [
                pair
                for bound in [own, *(each for each in others if _inside(each, side, column, searched))]
                if (pair := _choice(column, side, bound, bound == own, domain, guess, predictions, at, tail))
                is not None
            ]
            if pairs:
                found = _without_drowned(pairs)
                least = min(found, key=lambda each: each.total)
                yield [replace(each, best=each is least) for each in sorted(found, key=lambda each: each.bound)]


def _inside(bound: float, side: Side, column: Numeric, searched: Numeric) -> bool:
    """Tell whether a bound is in the search range, on the right side of the other one, and not next to the conf's own."""
    far = searched.upper if searched.private else math.inf
    near = searched.lower if searched.private else -math.inf
    own = column.upper if side == "upper" else column.lower
    other = column.lower if side == "upper" else column.upper
    right = other < bound <= far if side == "upper" else near <= bound < other
    return right and abs(bound - own) > 0.05 * abs(own - other)


def _choice(
    column: Numeric,
    side: Side,
    bound: float,
    of_conf: bool,
    domain: Domain,
    guess: Guess,
    predictions: Any,
    at: int,
    tail: Tail,
) -> tuple[BoundChoice, np.ndarray] | None:
    """Say what a bound costs, and the noise of each slope in its sampling errors."""
    moved = replace(column, upper=bound) if side == "upper" else replace(column, lower=bound)
    other = replace(domain, columns=tuple(moved if c.name == column.name else c for c in domain.columns))
    seen = guess.in_domain(domain, other)
    found: Prediction = predictions(other, seen)[at]
    sigma = residual_sd(domain, guess, column.name, found)
    share = tail.share_beyond(bound)
    slopes = [i for i in range(len(found.terms)) if (i or len(found.terms) == 1) and found.sampling[i] > 0]
    if not (found.ok and sigma > 0 and slopes):
        return None
    privacy = np.array([found.privacy[i] / found.sampling[i] for i in slopes])
    choice = BoundChoice(
        column.name,
        found.formula,
        side,
        bound,
        of_conf,
        share * guess.rows,
        share * math.sqrt(guess.effective_rows) * tail.excess(bound) / sigma,
        float(privacy.max()),
    )
    return choice, privacy


def _without_drowned(pairs: list[tuple[BoundChoice, np.ndarray]]) -> list[BoundChoice]:
    """Leave out slopes that the noise drowns at every bound, such as a rare category's: others would be clipped for them."""
    kept = np.min([privacy for _, privacy in pairs], axis=0) <= DROWNED
    return [replace(one, privacy=float(privacy[kept].max())) if kept.any() else one for one, privacy in pairs]


def residual_sd(domain: Domain, guess: Guess, response: str, found: Prediction) -> float:
    """The spread of a response that its regressors leave, as the guess has it."""
    if response in guess.residual_sds:
        return float(guess.residual_sds[response])
    half = next(c.half for c in domain.numeric if c.name == response)
    at = [guess.terms.index(term) - 1 for term in found.terms if term in guess.terms[1:]]
    y = guess.terms.index(response) - 1
    cross = guess.covariance[at, y]
    explained = float(cross @ np.linalg.lstsq(guess.covariance[np.ix_(at, at)], cross, rcond=None)[0])
    return half * math.sqrt(max(0.0, float(guess.covariance[y, y]) - explained))
