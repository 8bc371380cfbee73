"""Predicted regressions, for people: what is significant, what could be seen, how many rows it takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import stdtrit

from dpspark.mechanisms.gram.identification import ENOUGH
from dpspark.planning.predict import Prediction

MOST_ROWS = 1e13
Predictor = Callable[[float], Prediction]  # at a number of rows


@dataclass(frozen=True)
class FitPlan:
    """`rows_needed` is where a coefficient of the guess becomes significant; NaN: nowhere, or it is 0."""

    prediction: Prediction
    level: float
    rows_needed: np.ndarray
    rows_identified: float  # where the noise no longer drowns the regressors

    @property
    def detectable(self) -> np.ndarray:
        """The least coefficient that would be significant."""
        return _critical(self.prediction, self.level) * self.prediction.std_errors

    def to_dict(self) -> dict[str, Any]:
        found = self.prediction
        columns = {
            "coefficient": found.coefficients,
            "std_error": found.std_errors,
            "sampling": found.sampling,
            "privacy": found.privacy,
            "detectable": self.detectable,
            "rows_needed": self.rows_needed,
        }
        return {
            "formula": found.formula,
            "status": found.status,
            "reason": found.reason,
            "kappa": number(found.kappa),
            "kappa_w": number(found.kappa_w),
            "probability_identified": found.chance,
            "rows_identified": number(self.rows_identified),
            "level": self.level,
            "terms": [
                {"term": term, **{key: number(values[i]) for key, values in columns.items()}}
                for i, term in enumerate(found.terms)
            ],
        }


def plan_fit(predictor: Predictor, rows: float, level: float, additive: bool) -> FitPlan:
    """`additive`: the noise does not depend on the data, so that its share of a variance falls with the rows squared."""
    found = predictor(rows)
    identified = _rows_identified(predictor, found, rows, additive)
    seen = found if found.ok else predictor(1.5 * identified) if math.isfinite(identified) else found
    at = rows if found.ok else 1.5 * identified
    needed = np.full(len(found.terms), math.nan)
    if seen.ok and seen.sampling.all():
        for i in range(len(needed)):
            if additive:
                needed[i] = _by_shares(seen, i, at, level)
            else:
                needed[i] = least_rows(partial(_significant, predictor, i, level))
        needed = np.maximum(needed, identified)
    return FitPlan(found, level, needed, identified)


def _rows_identified(predictor: Predictor, found: Prediction, rows: float, additive: bool) -> float:
    if math.isnan(found.kappa_w):
        return math.nan
    if additive:  # kappa_w is in proportion to the rows
        return rows * ENOUGH / found.kappa_w if found.kappa_w > 0 else math.nan
    return least_rows(lambda n: predictor(n).ok)


def _by_shares(found: Prediction, i: int, rows: float, level: float) -> float:
    """Sampling variance a/n, privacy variance b/n²: n with t²·(a/n + b/n²) = coefficient²."""
    t2 = _critical(found, level) ** 2
    coefficient, sampling, privacy = found.coefficients[i] ** 2, found.sampling[i] ** 2, found.privacy[i] ** 2
    if abs(found.coefficients[i]) <= 1e-9 * math.sqrt(sampling * rows):  # no correlation, no effect
        return math.nan
    ratio = t2 * (sampling + math.sqrt(sampling**2 + 4 * privacy * coefficient / t2)) / (2 * coefficient)
    return max(float(len(found.terms) + 2), rows * ratio)


def _significant(predictor: Predictor, i: int, level: float, rows: float) -> bool:
    found = predictor(rows)
    return found.ok and abs(found.coefficients[i]) >= _critical(found, level) * found.std_errors[i]


def least_rows(holds: Callable[[float], bool]) -> float:
    """The least number of rows at which something holds, to 1%; NaN: no number will do."""
    if not holds(MOST_ROWS):
        return math.nan
    low, high = math.log(3.0), math.log(MOST_ROWS)
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(math.exp(middle)) else (middle, high)
    return math.exp(high)


def _critical(found: Prediction, level: float) -> float:
    return float(stdtrit(max(found.df, 1.0), (1 + level) / 2))


def number(value: float) -> float | None:
    """Return the number for JSON: None where it is not finite."""
    return float(value) if math.isfinite(value) else None
