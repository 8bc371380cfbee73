"""A regression as a picture: each slope with its interval, and how much of that is the privacy noise."""

from __future__ import annotations

import math
from textwrap import fill
from typing import Any

from dpspark.analysis.regression import Regression
from dpspark.analysis.summary import decimals_of
from dpspark.core.domain import INTERCEPT
from dpspark.show.canvas import BLUE, GREY, VERMILION, axes_for, bounds_of, label, legend_above, no_math, short

MOST_TERMS = 40
WIDTH, ROW, REST = 8.6, 0.38, 1.9  # inches
HEAD = -0.8  # where the column of coefficients has its name


def plot_fit(fit: Regression, ax: Any = None) -> Any:
    """Terms in one unit, that of the response: what changes as a term goes from its lower to its upper bound.

    The coefficients themselves are written beside them. An intercept is no change: it is drawn only if it is alone.
    """
    terms = [term for term in fit.terms if term != INTERCEPT] or list(fit.terms)
    left_out, terms = len(terms) - MOST_TERMS, terms[:MOST_TERMS]
    axes = axes_for(ax, (WIDTH, REST + ROW * max(2, len(terms))))
    more = f" ({left_out} more terms)" if left_out > 0 else ""
    unit = f"change in {short(fit.response)} as a term goes from its lower to its upper bound"
    label(axes, short(str(fit.formula), 50) + more, unit)
    if all(math.isnan(fit.params[term]) for term in terms):
        return _nothing(axes, fit)
    bounds = bounds_of(fit.domain)
    for row, term in enumerate(terms):
        low, high = bounds.get(term, (0.0, 1.0))
        _draw_term(axes, row, fit, term, high - low)
    axes.axvline(0, color=GREY, lw=1, ls="--", zorder=0)
    axes.set_ylim(len(terms) - 0.4, HEAD - 0.3)
    axes.set_yticks(range(len(terms)), [_with_bounds(term, bounds) for term in terms])
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.grid(True, axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    no_math(axes.get_yticklabels())
    _write_coefficients(axes, fit, terms)
    legend_above(axes)
    return axes


def _draw_term(axes: Any, row: int, fit: Regression, term: str, span: float) -> None:
    """The interval as a line; on it, broad, the part that would be there without privacy noise."""
    low, high = (span * end for end in fit.conf_int()[term])
    estimate = span * fit.params[term]
    first = "" if row == 0 else "_"  # a legend leaves out names that begin so
    if math.isfinite(low):
        name = f"{first}{100 * fit.level:g}% interval, privacy noise included"
        axes.errorbar(estimate, row, xerr=[[max(0.0, estimate - low)], [max(0.0, high - estimate)]], fmt="none",
                      ecolor=VERMILION, elinewidth=2, capsize=4, label=name)  # fmt: skip
        error, privacy = fit.std_errors[term], fit.privacy_std_errors[term]
        if math.isfinite(privacy) and error > 0:
            share = math.sqrt(max(0.0, 1 - (privacy / error) ** 2))
            ends = [estimate + share * (low - estimate), estimate + share * (high - estimate)]
            axes.plot(ends, [row, row], color=BLUE, lw=7, alpha=0.6, solid_capstyle="butt", zorder=1,
                      label=f"{first}without privacy noise")  # fmt: skip
    axes.plot(estimate, row, "o", color="black", ms=5, zorder=3)


def _with_bounds(term: str, bounds: dict[str, tuple[float, float]]) -> str:
    if term not in bounds:
        return short(term)
    low, high = bounds[term]
    return f"{short(term)} ({low:g} to {high:g})"


def _write_coefficients(axes: Any, fit: Regression, terms: list[str]) -> None:
    """Write the numbers of the table at the right, per unit of the term."""
    intervals, texts = fit.conf_int(), ["coefficient, per unit"]
    for term in terms:
        low, high = intervals[term]
        if math.isfinite(low):
            digits = decimals_of((high - low) / 4)
            texts.append(f"{fit.params[term]:.{digits}f}  [{low:.{digits}f}, {high:.{digits}f}]")
        else:
            texts.append(f"{fit.params[term]:.5g}")
    right = axes.secondary_yaxis("right")
    right.set_yticks([HEAD, *range(len(terms))], texts)
    right.tick_params(length=0, labelsize=10)
    right.spines["right"].set_visible(False)


def _nothing(axes: Any, fit: Regression) -> Any:
    """Say that there is no estimate, and why."""
    text = fill(f"{fit.status.replace('_', ' ')}: {fit.reason}", 60)
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=12, transform=axes.transAxes, parse_math=False)
    axes.set_xticks([])
    axes.set_yticks([])
    return axes
