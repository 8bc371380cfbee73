"""Several regressions side by side, as papers print them. Post-processing: no cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpspark.analysis.least_squares import NOT_IDENTIFIED
from dpspark.analysis.regression import OK, ROWS, Regression
from dpspark.analysis.result import Answer, without_nan
from dpspark.analysis.summary import decimals_of
from dpspark.errors import ConfError, printable
from dpspark.show.tables import Grid, Part

STARS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
LEGEND = "*** p < 0.001, ** p < 0.01, * p < 0.05"
ERRORS = "Standard errors in parentheses; the privacy noise is in them."


@dataclass(frozen=True)
class Cell:
    """One coefficient of one model, as it is printed; empty where the model does not have it."""

    estimate: str = ""
    stars: str = ""
    error: str = ""


@dataclass(frozen=True)
class ModelTable(Answer):
    """A table of models: a column each, coefficients with their standard errors below, facts of each model at the foot."""

    fits: tuple[Regression, ...]
    labels: tuple[str, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """All terms, in the order in which they first occur; the intercept last."""
        found = dict.fromkeys(term for fit in self.fits for term in fit.terms)
        return tuple(sorted(found, key=lambda term: term == "(intercept)"))

    def cell(self, fit: Regression, term: str) -> Cell:
        if term not in fit.terms or math.isnan(fit.params[term]):
            return Cell()
        estimate, error = fit.params[term], fit.std_errors[term]
        if not error > 0 or getattr(fit, "repaired", False):
            return Cell(f"{estimate:.5g}")
        digits = decimals_of(error)
        p_value = fit.pvalues[term]
        stars = next((stars for limit, stars in STARS if p_value < limit), "")
        return Cell(f"{estimate:,.{digits}f}", stars, f"({error:,.{digits}f})")

    def errors(self, fit: Regression) -> str:
        """The kind of a model's standard errors; nothing where it has none."""
        return str(fit.errors) if fit.status == OK and not fit.without_errors else ""

    def source(self, fit: Regression) -> str:
        """The release that a model is from, with its guarantee and whom that is for."""
        return f"{fit.title}{f'; a record is {fit.record}' if fit.record else ''}"

    @property
    def footer(self) -> list[tuple[str, list[str]]]:
        """Facts of each model, by name."""
        counted = dict.fromkeys((ROWS, *(fit.n_is for fit in self.fits)))  # rows, or what their weights add up to
        rows = [
            *((what.capitalize(), [_count(fit) if fit.n_is == what else "" for fit in self.fits]) for what in counted),
            ("R-squared", [_share(getattr(fit, "rsquared", math.nan)) for fit in self.fits]),
            ("Residual std. error", [_number(fit.sigma2) for fit in self.fits]),
        ]
        rows.append(("Std. errors", [self.errors(fit) for fit in self.fits]))
        return [(name, values) for name, values in rows if any(values)]

    @property
    def notes(self) -> list[str]:
        """Lines below the table: stars, noise, the guarantee of each release, what was cut off, and what has no answer."""
        labelled = list(zip(self.labels, self.fits, strict=True))
        unanswered = [f"{label}: {_why_not(fit)}" for label, fit in labelled if fit.status != OK or fit.without_errors]
        titles = (f"{self.source(fit)}." for fit in self.fits)
        stated = [[] if fit.without_errors else fit.assumptions for fit in self.fits]
        assumed = self._each_once(stated, sum(map(bool, stated)))
        cut_off = self._each_once([fit.cut_off if fit.status == OK else [] for fit in self.fits], len(self.fits))
        return [LEGEND, ERRORS, *map(_in_a_line, (*dict.fromkeys(titles), *assumed, *cut_off, *unanswered))]

    def _each_once(self, stated: list[list[str]], most: int) -> list[str]:
        """Give each line once; of which models, unless it is of as many as it can be."""
        named = list(zip(self.labels, stated, strict=True))
        of = {line: [label for label, own in named if line in own] for _, lines in named for line in lines}
        return [line if len(labels) == most else f"{', '.join(labels)}: {line}" for line, labels in of.items()]

    def head(self) -> list[list[str]]:
        """The rows above the coefficients: labels, and the response of each."""
        return [["", *self.labels], ["", *(_in_a_line(fit.response) for fit in self.fits)]]

    def body(self) -> list[list[str]]:
        """Two rows for each term: estimates with stars, then standard errors."""
        rows = []
        for term in self.terms:
            cells = [self.cell(fit, term) for fit in self.fits]
            rows.append([_in_a_line(term), *(f"{cell.estimate}{cell.stars}" for cell in cells)])
            rows.append(["", *(cell.error for cell in cells)])
        return rows

    def parts(self) -> list[Part]:
        cells = [*self.head(), *self.body(), *([name, *values] for name, values in self.footer)]
        return [Grid(cells), "---", *self.notes]

    def to_dict(self) -> dict[str, Any]:
        return without_nan(
            {"models": [fit.to_dict() for fit in self.fits], "labels": list(self.labels), "notes": self.notes}
        )


def model_table(fits: Sequence[Regression], labels: Sequence[str] | None = None) -> ModelTable:
    """Put regressions side by side: (1), (2) and so on, unless they are given labels."""
    if not fits:
        raise ConfError("table: give at least one regression.")
    for fit in fits:
        if not isinstance(fit, Regression):
            raise ConfError("table: regressions of kinds gram and regression alone can be put side by side.")
    named = tuple(labels) if labels is not None else tuple(f"({number})" for number in range(1, len(fits) + 1))
    if len(named) != len(fits):
        raise ConfError(f"table: {len(named)} labels for {len(fits)} regressions.")
    return ModelTable(tuple(fits), named)


def _in_a_line(text: str) -> str:
    """Write a name, or a text with names, so that it neither steers a terminal nor ends a row of a file."""
    return printable(text).replace("\n", r"\n")


def _why_not(fit: Regression) -> str:
    """Say why there is no answer, or one without standard errors."""
    if fit.status == OK:
        return fit.without_errors
    reason = f"{fit.reason.rstrip('.')}."
    return f"not identified: {reason}" if fit.status == NOT_IDENTIFIED else reason


def _count(fit: Regression) -> str:
    return "" if math.isnan(fit.n) else f"{max(0.0, fit.n):,.0f}"


def _share(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _number(sigma2: float) -> str:
    return f"{math.sqrt(sigma2):.5g}" if sigma2 > 0 else ""
