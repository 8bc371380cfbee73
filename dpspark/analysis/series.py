"""The same regression from releases over time: coefficients with bands, and whether they changed. Post-processing: no cost.

With b_i the coefficients of release i and V_i their covariance, noise included, the least squares of one b for all is
b̄ = (Σ V_i⁻¹)⁻¹ Σ V_i⁻¹ b_i, and if nothing changed Σ (b_i − b̄)ᵀ V_i⁻¹ (b_i − b̄) is chi-squared with (k − 1)·p degrees of
freedom (Wald), where no person is in two releases.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from dpspark.analysis.beside import differences_in_kind
from dpspark.analysis.compare import Overlap
from dpspark.analysis.regression import OK, Regression
from dpspark.analysis.result import Answer, without_nan
from dpspark.analysis.summary import decimals_of, p_text
from dpspark.core.domain import INTERCEPT
from dpspark.show.canvas import BLUE, GREY, label, new_figure, no_math, short
from dpspark.show.tables import Grid, Part

ALL = "all but the intercept"
NO_TEST = "People may be in several releases: whether coefficients changed is not tested."
APART = "No change: Wald tests, which assume that no person is in two releases. If people are, see --overlap unknown."
TOO_FEW = "No change: not tested, as fewer than two releases have an answer."
MOST_PANELS = 12


@dataclass(frozen=True)
class Series(Answer):
    """The coefficients of one regression in releases over time."""

    fits: Mapping[str, Regression]  # by version, in order
    overlap: Overlap
    level: float
    missing: Sequence[str] = ()  # versions that are not there, though their neighbours are
    left_out: Mapping[str, str] = field(default_factory=dict)  # versions without this regression, and why

    @property
    def terms(self) -> tuple[str, ...]:
        return next(iter(self.fits.values())).terms

    def rows(self) -> list[dict[str, Any]]:
        """A row for each term and version: term, version, estimate, std_error, ci_low, ci_high, status, errors."""
        found = []
        for term in self.terms:
            for version, fit in self.fits.items():
                low, high = fit.conf_int()[term]
                numbers = {
                    "estimate": fit.params[term],
                    "std_error": fit.std_errors[term],
                    "ci_low": low,
                    "ci_high": high,
                }
                found.append({"term": term, "version": version, **numbers, "status": fit.status, "errors": fit.errors})
        return found

    def tests(self) -> list[dict[str, Any]]:
        """Test that nothing changed, for each term and for all but the intercept: term, statistic, df, p_value."""
        answered = [fit for fit in self.fits.values() if fit.status == OK]
        if self.overlap == "unknown" or len(answered) < 2:
            return []
        slopes = [term for term in self.terms if term != INTERCEPT]
        each = [_wald(answered, [term], term) for term in self.terms]
        return [*each, _wald(answered, slopes, ALL)] if len(slopes) > 1 else each

    def to_dict(self) -> dict[str, Any]:
        first = next(iter(self.fits.values()))
        return without_nan(
            {
                "formula": str(first.formula),
                "level": self.level,
                "overlap": self.overlap,
                "versions": list(self.fits),
                "missing": list(self.missing),
                "left_out": dict(self.left_out),
                "terms": self.rows(),
                "no_change": self.tests(),
                "notes": differences_in_kind(self.fits),
            }
        )

    def to_frame(self) -> Any:
        """The rows as a pandas table."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def parts(self) -> list[Part]:
        cells = [["", "version", "Estimate", "Std. Error", f"{100 * self.level:g}% interval", ""]]
        before = None
        for row in self.rows():
            digits = decimals_of(row["std_error"]) if math.isfinite(row["std_error"]) else 3
            shown = [
                f"{row[key]:.{digits}f}" if math.isfinite(row[key]) else "–"
                for key in ("estimate", "std_error", "ci_low", "ci_high")
            ]
            cells.append(["" if row["term"] == before else row["term"], row["version"], *shown])
            before = row["term"]
        return [str(next(iter(self.fits.values())).formula), "", Grid(cells, frozenset({0, 1})), "---", *self._notes()]

    def _notes(self) -> list[Part]:
        unanswered = [f"{version}: {fit.reason}" for version, fit in self.fits.items() if fit.status != OK]
        gaps = [f"Versions that are not there: {', '.join(self.missing)}."] if self.missing else []
        others = [f"Left out {version}: {why}" for version, why in self.left_out.items()]
        tests = self.tests()
        cells = [["No change", "chi-squared", "df", "Pr"]]
        cells += [[row["term"], f"{row['statistic']:.2f}", f"{row['df']}", p_text(row["p_value"])] for row in tests]
        asked = self.overlap == "unknown"
        told: list[Part] = ["", Grid(cells, frozenset({0})), APART] if tests else [NO_TEST if asked else TOO_FEW]
        seen = differences_in_kind(self.fits)
        return [*unanswered, *others, *gaps, *seen, "Privacy noise is in every Std. Error.", *told]

    def plot(self) -> Any:
        """Draw each coefficient over time with its band, as a matplotlib Figure."""
        terms = [term for term in self.terms if term != INTERCEPT][:MOST_PANELS] or list(self.terms)
        figure = new_figure((max(6.4, 1.6 + 0.45 * len(self.fits)), 0.8 + 1.9 * len(terms)), "series")
        panels = np.atleast_1d(figure.subplots(len(terms), 1, sharex=True))
        places = list(range(len(self.fits)))
        for axes, term in zip(panels, terms, strict=True):
            rows = [row for row in self.rows() if row["term"] == term]
            numbers = {
                key: np.array([row[key] for row in rows], dtype=float) for key in ("estimate", "ci_low", "ci_high")
            }
            axes.fill_between(places, numbers["ci_low"], numbers["ci_high"], color=BLUE, alpha=0.2, lw=0)
            axes.plot(places, numbers["estimate"], "o-", color=BLUE, ms=4, lw=1.4)
            axes.axhline(0, color=GREY, lw=0.8, ls="--", zorder=0)
            label(axes, "", "", short(term))
            axes.grid(True, alpha=0.3)
        formula = short(str(next(iter(self.fits.values())).formula), 60)
        label(panels[0], f"{formula}\n{100 * self.level:g}% intervals, privacy noise included", "", short(terms[0]))
        panels[-1].set_xticks(places, [short(version, 20) for version in self.fits], rotation=45, ha="right")
        no_math(panels[-1].get_xticklabels())
        return figure


def _wald(fits: Sequence[Regression], terms: Sequence[str], name: str) -> dict[str, Any]:
    """Test that these coefficients are the same in all fits."""
    values, weights = [], []
    for fit in fits:
        at = [fit.terms.index(term) for term in terms]
        values.append(np.array([fit.params[term] for term in terms]))
        weights.append(np.linalg.pinv(np.asarray(fit.vcov())[np.ix_(at, at)], hermitian=True))
    mean = np.linalg.solve(sum(weights), sum(weight @ value for weight, value in zip(weights, values, strict=True)))
    pairs = zip(weights, values, strict=True)
    statistic = float(sum((value - mean) @ weight @ (value - mean) for weight, value in pairs))
    df = (len(fits) - 1) * len(terms)
    return {"term": name, "statistic": statistic, "df": df, "p_value": float(special.chdtrc(df, statistic))}
