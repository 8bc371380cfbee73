"""Which bounds and columns cost the most noise, and what tighter ones would save."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpspark.core.domain import Domain, Numeric
from dpspark.mechanisms.gram.coordinates import congruence_of
from dpspark.mechanisms.gram.noise_model import NoiseModel
from dpspark.planning.guess import Guess
from dpspark.planning.predict import Prediction, short_formula

FAR = 4.0  # standard deviations from the mean: few values are further out
WORTH_SAYING = 1.25  # times narrower


@dataclass(frozen=True)
class Tighter:
    """One column: its bounds, the noise of its sum of squares, and what bounds of mean ± 4 sd would make of it."""

    column: str
    lower: float
    upper: float
    filled: float  # its standard deviation in units of half its bounds; evenly spread values have 0.58
    noise_std: float  # of Σ x², original units
    new_lower: float
    new_upper: float
    entry_cut: float = 1.0  # times less noise on Σ x²
    fit_cuts: tuple[tuple[str, float], ...] = ()  # formula, times less privacy error on its worst coefficient

    @property
    def helps(self) -> bool:
        return self.entry_cut > WORTH_SAYING

    def to_dict(self) -> dict[str, Any]:
        return {
            **{key: getattr(self, key) for key in ("column", "lower", "upper", "filled", "noise_std")},
            "tighter": {
                "lower": self.new_lower,
                "upper": self.new_upper,
                "times_less_noise": self.entry_cut,
                "times_less_privacy_error": dict(self.fit_cuts),
            }
            if self.helps
            else None,
        }

    def __str__(self) -> str:
        sides = [
            f"{side} bound from {before:,.10g} to {after:,.10g}"
            for side, before, after in (("lower", self.lower, self.new_lower), ("upper", self.upper, self.new_upper))
            if before != after
        ]
        fits = "".join(
            f", the privacy error of {short_formula(formula)} {_times(cut)}"
            for formula, cut in self.fit_cuts
            if cut >= 1.05
        )
        return f"tightening {self.column}'s {' and '.join(sides)} cuts its noise {_times(self.entry_cut)}{fits}"


def _times(cut: float) -> str:
    return f"{cut:.0f}×" if cut >= 10 else f"{cut:.1f}×"


def advise(
    noise: NoiseModel,
    domain: Domain,
    guess: Guess,
    predict: Callable[[Domain, Guess], list[Prediction]],
) -> list[Tighter]:
    """Advise on every numeric column, the one that would save most first."""
    before = [found for found in predict(domain, guess) if found.ok]
    stds = _squares(noise, domain, guess)
    advice = [
        _column(noise, domain, guess, column, float(stds[domain.terms.index(column.name)]), before, predict)
        for column in domain.numeric
    ]
    return sorted(advice, key=lambda found: -found.entry_cut)


def _column(
    noise: NoiseModel,
    domain: Domain,
    guess: Guess,
    column: Numeric,
    std: float,
    before: list[Prediction],
    predict: Callable[[Domain, Guess], list[Prediction]],
) -> Tighter:
    mean, sd = guess.column(domain, column.name)
    lower, upper = (column.lower, column.upper) if column.private else _bounds_for(column, mean, sd)
    found = Tighter(column.name, column.lower, column.upper, sd / column.half, std, lower, upper)
    if upper - lower > 2 * column.half / WORTH_SAYING:
        return replace(found, new_lower=column.lower, new_upper=column.upper)
    narrow = replace(
        domain,
        columns=tuple(replace(c, lower=lower, upper=upper) if c is column else c for c in domain.columns),
    )
    seen = guess.in_domain(domain, narrow)
    after = {p.formula: p for p in predict(narrow, seen) if p.ok}
    cuts = tuple((p.formula, _cut(p, after[p.formula])) for p in before if p.formula in after)
    after_std = float(_squares(noise, narrow, seen)[domain.terms.index(column.name)])
    return replace(found, entry_cut=std / after_std, fit_cuts=cuts)


def _cut(before: Prediction, after: Prediction) -> float:
    """Compute how much the error falls of the coefficient with the largest share of privacy error."""
    worst = int(np.argmax(before.privacy / before.std_errors))
    return float(before.privacy[worst] / after.privacy[worst]) if after.privacy[worst] > 0 else 1.0


def _squares(noise: NoiseModel, domain: Domain, guess: Guess) -> np.ndarray:
    """The noise of every Σ x², in original units."""
    back = congruence_of(domain)
    return np.diag(noise.entry_std(domain, back @ guess.matrix @ back.T))


def _bounds_for(column: Numeric, mean: float, sd: float) -> tuple[float, float]:
    """mean ± 4 sd, rounded outwards to a plain number, never beyond the bounds."""
    step = 10.0 ** math.floor(math.log10(2 * FAR * sd)) / 2
    lower, upper = math.floor((mean - FAR * sd) / step) * step, math.ceil((mean + FAR * sd) / step) * step
    return max(column.lower, lower), min(column.upper, upper)
