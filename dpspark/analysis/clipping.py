"""How far clipped values are likely to move a coefficient, from released values alone. Post-processing: no cost.

Of n rows a share s was beyond a bound of the response, by e on average. Least squares of the clipped response is that of the
response less these excesses, so a coefficient whose regressor has what the others do not explain, x̃, of standard deviation d,
moves by s·e·l/d², where l is the mean of x̃ among the clipped rows. Its sampling error is σ/(d·√n). Hence
    moved / sampling error = s·√n·(e/σ)·(l/d).
s, n and σ are released. e and l are not, and are taken as follows:
    e   half the distance of the bound from the mean: the mean excess of a tail of Pareto's index 3 that begins there. Of
        incomes it is between 1.5 (few are far beyond) and 3 (many are). Losses below a bound of 0 are as much shorter than
        the largest incomes as 0 is nearer to the mean
    l   d: clipped rows lie one standard deviation off, in the direction that raises the response

Of a regressor's own bound the same argument gives moved / coefficient = s·e·(distance of the bound from the mean)/variance,
with one standard deviation for e: regressors are rarely as skewed as responses.

What s is: counted, where diagnostics were paid for and stand out of their noise; else what the method that found private bounds
is known to leave beyond, unless a count rules it out.
Public bounds without diagnostics have none, and nothing is said.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from dpspark.core.domain import SIDES, Domain, Side
from dpspark.core.facts import Facts, Garbled
from dpspark.mechanisms.registry import bounds_method

WORTH_SAYING = 1.0  # standard errors
SURE = 3.0  # standard deviations of a count's noise: noise alone goes beyond in one count of 741


@dataclass(frozen=True)
class Beyond:
    """The share of the values that is beyond one bound, as far as it is known."""

    column: str
    side: Side
    share: float
    counted: bool  # by diagnostics; else expected of the method that found the bound


@dataclass(frozen=True)
class Moved:
    """The coefficient that clipping at one bound moves the most, and by how many of its standard errors, about."""

    term: str
    column: str
    side: Side | Literal["residual"]
    share: float
    counted: bool
    std_errors: float

    def __str__(self) -> str:
        by = f"by about {self.std_errors:.2g} standard errors, which no interval covers"
        if self.counted:
            return f"WARNING: clipping at the {self.side} bound of {self.column} is likely to move {self.term} {by}"
        return (
            f"Clipping at the {self.side} bound of {self.column}, which was found in the data, may move {self.term} {by}; "
            "diagnostics with little noise would tell"
        )


@dataclass(frozen=True)
class MovedByResiduals(Moved):
    """The same of residuals that a mechanism clipped; `column` is their response."""

    def __str__(self) -> str:
        return (
            f"Residuals of {self.column} beyond the clip, if they are on one side, may move {self.term} by about "
            f"{self.std_errors:.2g} standard errors, which no interval covers; gram_ridge clips no residuals"
        )


def moved_by_residuals(
    beyond: tuple[float, float], response: str, errors: Mapping[str, tuple[float, float, float]], rows: float
) -> list[Moved]:
    """Find the coefficient that clipped residuals may move the most, where that is by more than a standard error.

    `beyond`: the share of residuals beyond the clip, and the mean over all of what was taken off, in residual standard errors.
    By the argument above that moves a coefficient by √n times the latter, in sampling errors, if all of them are on one side
    and one standard deviation off: of residuals that are as long on both sides, or whatever the regressors, nothing moves.
    """
    share, excess = beyond
    moved = {
        term: math.sqrt(max(0.0, rows)) * excess * sampling / total
        for term, (_, sampling, total) in errors.items()
        if total > 0
    }
    worst = max(moved, key=moved.__getitem__, default="")
    if not worst or not moved[worst] > WORTH_SAYING:
        return []
    return [MovedByResiduals(worst, response, "residual", share, False, moved[worst])]


def shares_beyond(manifest: Mapping[str, Any], clipped: Iterable[Mapping[str, Any]], rows: float) -> list[Beyond]:
    """Find what is known of the values beyond each bound: counts that stand out of their noise, or what is expected.

    What is expected of private bounds stays where a count is too noisy to rule it out: else a noisy count would say less than
    none.
    """
    counted = {
        (row["column"], row["side"]): (row["clipped_share"], SURE * row["noise_std"])
        for row in clipped
        if math.isfinite(row["clipped_share"]) and row["side"] in SIDES
    }
    seen = [Beyond(*at, min(1.0, share), True) for at, (share, noise) in counted.items() if share > noise]
    known = {(one.column, one.side) for one in seen}
    for one in _expected_beyond(manifest, rows):
        at = (one.column, one.side)
        if at not in known and one.share <= sum(counted.get(at, (1.0, 0.0))):
            seen.append(one)
    return seen


def _expected_beyond(manifest: Mapping[str, Any], rows: float) -> list[Beyond]:
    try:
        spent = Facts(manifest, "").part("privacy").parts("spending")
        found = next((each for each in spent if each.text("stage") == "bounds"), None)
        if found is None or not rows > 0:
            return []
        left = bounds_method(found.text("method") if found.has("method") else None).left_beyond(found)
    except (Garbled, KeyError):  # a stranger may have written the manifest
        return []
    return [Beyond(column, side, min(1.0, share + count / rows), False) for column, side, share, count in left]


def moved_by_clipping(
    beyond: Sequence[Beyond],
    domain: Domain,
    response: str,
    errors: Mapping[str, tuple[float, float, float]],
    rows: float,
    sigma2: float,
    spread: Mapping[str, tuple[float, float]],
) -> list[Moved]:
    """List the bounds at which clipping is likely to move a coefficient by more than a standard error, the worst first.

    `errors`: the estimate, the sampling error and the standard error of each slope. `spread`: means and variances of the
    columns, the response among them, scaled to [−1, 1].
    """
    if not (rows > 0 and sigma2 > 0):
        return []
    columns = {column.name: column for column in domain.numeric}
    found = []
    for one in beyond:
        column = columns.get(one.column)
        if column is None or not errors:
            continue
        if one.column == response:
            excess = _away(one, spread.get(one.column, (0.0, 0.0))[0]) / 2 * column.half
            of = {term: _of_response(one, excess, error, rows, sigma2) for term, error in errors.items()}
        elif one.column in errors:
            of = {one.column: _of_regressor(one, errors[one.column], spread.get(one.column, (0.0, 0.0)))}
        else:
            continue
        worst = max(of, key=of.__getitem__)
        if of[worst] > WORTH_SAYING:
            found.append(Moved(worst, one.column, one.side, one.share, one.counted, of[worst]))
    return sorted(found, key=lambda each: -each.std_errors)


def _away(one: Beyond, mean: float) -> float:
    """How far a bound is from a mean, in half-ranges."""
    return max(0.0, 1 - mean if one.side == "upper" else 1 + mean)


def _of_response(one: Beyond, excess: float, error: tuple[float, float, float], rows: float, sigma2: float) -> float:
    _, sampling, total = error
    moved = one.share * math.sqrt(rows) * excess / math.sqrt(sigma2) * sampling
    return moved / total if total > 0 else 0.0


def _of_regressor(one: Beyond, error: tuple[float, float, float], spread: tuple[float, float]) -> float:
    (estimate, _, total), (mean, variance) = error, spread
    if not (variance > 0 and total > 0):
        return 0.0
    return one.share * _away(one, mean) / math.sqrt(variance) * abs(estimate) / total


def spreads_of(terms: Sequence[str], scaled: np.ndarray) -> dict[str, tuple[float, float]]:
    """Means and variances of the terms of a scaled matrix, whose first entry is the number of rows."""
    rows = float(scaled[0, 0])
    if not rows > 0:
        return {}
    means = [float(scaled[0, i]) / rows for i in range(len(terms))]
    return {term: (means[i], float(scaled[i, i]) / rows - means[i] ** 2) for i, term in enumerate(terms)}


def as_dicts(moved: Iterable[Moved]) -> list[dict[str, Any]]:
    return [asdict(each) for each in moved]
