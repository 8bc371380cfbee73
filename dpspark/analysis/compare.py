"""The same regression from two releases: the difference of each coefficient, with its interval. Post-processing: no cost.

The privacy noise of two releases is independent. Their sampling errors are so where no person is in both; where people may
be, as in two years of one register, the errors may be alike or opposite, and the largest variance that they can have
together is that of errors that are opposite: (s_a + s_b)² in place of s_a² + s_b².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import special

from dpspark.analysis.beside import differences_in_kind
from dpspark.analysis.regression import OK, Regression
from dpspark.analysis.result import Answer, without_nan
from dpspark.analysis.summary import decimals_of, p_text
from dpspark.errors import ConfError
from dpspark.show.tables import Grid, Part

Overlap = Literal["none", "unknown"]
OVERLAPS: tuple[Overlap, ...] = ("none", "unknown")
ASSUMED = {
    "none": "Assumed: no person is in the data of both. If people are, these intervals may be too wide or too narrow: "
    "see --overlap unknown.",
    "unknown": "People may be in the data of both: intervals are wide enough whatever that does to the difference.",
}


@dataclass(frozen=True)
class Comparison(Answer):
    """The coefficients of two regressions side by side, and b − a."""

    first: Regression
    second: Regression
    overlap: Overlap
    level: float

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms that both have, in the order of the first."""
        return tuple(term for term in self.first.terms if term in self.second.terms)

    def rows(self) -> list[dict[str, Any]]:
        """A row for each term: term, a, b, difference, std_error, ci_low, ci_high, p_value."""
        return [self._row(term) for term in self.terms]

    def to_dict(self) -> dict[str, Any]:
        return without_nan(
            {
                "formula": str(self.first.formula),
                "a": self.first.title,
                "b": self.second.title,
                "overlap": self.overlap,
                "level": self.level,
                "status": {"a": self.first.status, "b": self.second.status},
                "terms": self.rows(),
                "notes": self._notes(),
            }
        )

    def to_frame(self) -> Any:
        """The rows as a pandas table."""
        import pandas as pd

        return pd.DataFrame(self.rows()).set_index("term")

    def parts(self) -> list[Part]:
        cells = [["", "a", "b", "b - a", "Std. Error", "Pr(>|t|)", f"{100 * self.level:g}% interval", ""]]
        for row in self.rows():
            digits = decimals_of(row["std_error"])
            numbers = [f"{row[key]:.{digits}f}" for key in ("a", "b", "difference", "std_error")]
            interval = [f"{row[key]:.{digits}f}" for key in ("ci_low", "ci_high")]
            cells.append([row["term"], *numbers, p_text(row["p_value"]), *interval])
        unanswered = [
            f"{name}: {fit.reason}" for name, fit in (("a", self.first), ("b", self.second)) if fit.status != OK
        ]
        return [
            str(self.first.formula),
            f"a: {self.first.title}",
            f"b: {self.second.title}",
            "",
            Grid(cells),
            "---",
            *unanswered,
            *self._notes(),
            "Privacy noise of both is in every Std. Error.",
            ASSUMED[self.overlap],
        ]

    def _notes(self) -> list[str]:
        return differences_in_kind({"a": self.first, "b": self.second})

    def _row(self, term: str) -> dict[str, Any]:
        a, b = self.first.params[term], self.second.params[term]
        error, df = self._spread(term)
        t = (b - a) / error if error else math.nan
        reach = float(special.stdtrit(df, (1 + self.level) / 2)) * error
        return {
            "term": term,
            "a": a,
            "b": b,
            "difference": b - a,
            "std_error": error,
            "ci_low": b - a - reach,
            "ci_high": b - a + reach,
            "p_value": float(2 * special.stdtr(df, -abs(t))),
        }

    def _spread(self, term: str) -> tuple[float, float]:
        """The standard error of a difference, and its degrees of freedom (Welch & Satterthwaite)."""
        fits = (self.first, self.second)
        whole = np.array([fit.std_errors[term] ** 2 for fit in fits])
        privacy = np.array([fit.privacy_std_errors[term] ** 2 for fit in fits])
        sampling = np.sqrt(np.maximum(whole - privacy, 0.0))
        alike = float(sampling.sum() ** 2) if self.overlap == "unknown" else float((sampling**2).sum())
        freedom = np.array([fit.degrees_of_freedom()[fit.terms.index(term)] for fit in fits])
        return math.sqrt(alike + float(privacy.sum())), float(whole.sum() ** 2 / (whole**2 / freedom).sum())


def compare_fits(first: Regression, second: Regression, overlap: str, level: float) -> Comparison:
    """Compare two regressions of the same response."""
    if overlap not in OVERLAPS:
        raise ConfError(f"overlap={overlap!r}; expected one of {', '.join(OVERLAPS)}.")
    if first.response != second.response:
        raise ConfError(
            f"compare: one release explains {first.response}, the other {second.response}. Compare like with like."
        )
    if set(first.terms) != set(second.terms):
        other = sorted(set(first.terms) ^ set(second.terms))
        raise ConfError(
            f"compare: only one of the releases has {', '.join(other)}. Coefficients mean the same only beside the same ones."
        )
    for fit in (first, second):
        if getattr(fit, "repaired", False):
            raise ConfError("compare: a repaired matrix gives predictions, which have no standard errors.")
    return Comparison(first, second, overlap, level)
