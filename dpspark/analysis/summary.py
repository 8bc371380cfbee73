"""The regression table, as R prints it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpspark.analysis.remarks import definition_lines
from dpspark.mechanisms.gram.identification import is_enough
from dpspark.show.tables import Grid, Part

if TYPE_CHECKING:
    from dpspark.analysis.fit import RegressionFit
    from dpspark.analysis.least_squares import RegressionResult
    from dpspark.analysis.regression import Regression
    from dpspark.core.domain import Domain

SIGNIFICANCE = ((0.001, "***"), (0.01, "**"), (0.05, "*"), (0.1, "."))


def summary_parts(fit: RegressionResult) -> list[Part]:
    rows = f"{'' if fit.n_is_exact else 'about '}{max(0.0, fit.n):,.0f} {'in weights' if fit.weighted else 'rows'}"
    head = [str(fit.formula), f"{fit.title}; {rows}", ""]
    if fit.status != "OK":
        return [
            *head,
            f"NOT IDENTIFIED: {fit.reason}.",
            *([fit.advice] if fit.weak_terms else []),
            f"No estimate and no {_level(fit)} interval is given. Use fewer regressors, or a release with tighter bounds, "
            "more rows or a larger epsilon. To predict only, add --repair ridge.",
            *_repair_lines(fit),
            *definition_lines(fit.definitions),
        ]
    table = _predictions if fit.repaired else _estimates if fit.has_intervals else _weighted
    return [*head, *table(fit), *fit.notes]


def _estimates(fit: RegressionResult) -> list[Part]:
    return [*_coefficients(fit), *_footer(fit)]


def _predictions(fit: RegressionResult) -> list[Part]:
    """Estimates of a repaired matrix: no standard errors, and intervals only where the unrepaired matrix has them."""
    intervals = fit.conf_int()
    has_intervals = fit.interval_of != "none"
    cells = [["", "Prediction", *([f"least squares' {_level(fit)} interval", ""] if has_intervals else [])]]
    for term in fit.terms:
        shown = [fit.params[term], *(intervals[term] if has_intervals else ())]
        cells.append([term, *(f"{value:.5g}" for value in shown)])
    if has_intervals:
        why = f"The intervals are those of the unrepaired least squares (kappa_w = {fit.kappa_w:.3g}), not of the predictions."
    elif not fit.has_intervals:
        why = f"No interval is given: {fit.no_intervals}."
    else:
        why = (
            f"No {_level(fit)} interval is given: the unrepaired matrix has kappa_w = {fit.kappa_w:.3g}, and the repair's "
            "own bias is unknown."
        )
    known = fit.sigma2 > 0 and is_enough(fit.kappa_w)
    error = f"{math.sqrt(fit.sigma2):.5g} (corrected for privacy noise)" if known else "not known, after noise"
    return [
        Grid(cells),
        "",
        fit.without_errors,
        why,
        f"Typical error of a prediction: {error}",
        *(_interval_lines(fit) if has_intervals else []),
    ]


def _level(fit: Regression) -> str:
    return f"{100 * fit.level:g}%"


def _interval_lines(fit: RegressionResult) -> list[str]:
    """Say how intervals were made, where that was asked for."""
    lines = [f"Note: {fit.interval_note}"] if fit.interval_note else []
    if fit.interval == "bootstrap":
        tests = "" if fit.repaired else "; t and Pr are of the Std. Error"
        lines.append(f"Intervals: parametric bootstrap, privacy noise included{tests}")
    return lines


def _repair_lines(fit: RegressionResult) -> list[str]:
    """Say that a repair changed nothing."""
    return [f"Repair {fit.repair}: there was nothing to repair"] if fit.repair != "none" and not fit.repaired else []


def _coefficients(fit: Regression) -> list[Part]:
    intervals = fit.conf_int()
    cells = [["", "Estimate", "Std. Error", "t value", "Pr(>|t|)", "", f"{_level(fit)} interval", ""]]
    for term in fit.terms:
        low, high = intervals[term]
        p = fit.pvalues[term]
        decimals = decimals_of(fit.std_errors[term])
        cells.append(
            [
                term,
                f"{fit.params[term]:.{decimals}f}",
                f"{fit.std_errors[term]:.{decimals}f}",
                f"{fit.tvalues[term]:.2f}",
                p_text(p),
                next((stars for limit, stars in SIGNIFICANCE if p < limit), ""),
                f"{low:.{decimals}f}",
                f"{high:.{decimals}f}",
            ]
        )
    codes = "Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1"
    return [Grid(cells, frozenset({0, 5})), "---", codes, ""]


def _weighted(fit: RegressionResult) -> list[Part]:
    """Estimates, and the part of their error that is known."""
    cells = [["", "Estimate", "Privacy Error"]]
    for term in fit.terms:
        error = fit.privacy_std_errors[term]
        decimals = decimals_of(error)
        cells.append([term, f"{fit.params[term]:.{decimals}f}", f"{error:.{decimals}f}"])
    return [
        Grid(cells),
        "---",
        *_r_squared(fit),
        f"Privacy Error is the standard error that the privacy noise makes; kappa_w = {fit.kappa_w:.3g}",
        fit.without_errors,
        *_repair_lines(fit),
    ]


def clipped_lines(clipped: list[dict[str, Any]]) -> list[str]:
    """Say what the bounds cut off, where that is more than noise (two standard deviations); one line for the rest."""
    known = [row for row in clipped if math.isfinite(row["clipped_share"])]
    seen = [row for row in known if row["clipped_share"] > 2 * row["noise_std"]]
    lines = [
        f"{'WARNING: ' if row['clipped_share'] > 0.2 else ''}{row['column']}: about {_percent(row['clipped_share'])} of values "
        f"were beyond its {row['side']} bound (± {_percent(2 * row['noise_std'])})"
        for row in seen
    ]
    if len(known) > len(seen):
        most = max(max(0.0, row["clipped_share"]) + 2 * row["noise_std"] for row in known if row not in seen)
        lines.append(f"{'Other bounds' if seen else 'Bounds'}: at most about {_percent(most)} of values beyond each")
    return lines


def _percent(share: float) -> str:
    return f"{100 * min(1.0, share):.2g}%"


def row_norm_lines(domain: Domain) -> list[str]:
    """Say what a row norm does to the question that is asked."""
    norm = domain.row_norm
    if norm is None:
        return []
    if norm.include_response:
        which = f"longer than {norm.longest:.3g}" if norm.mode == "cap" else f"of a norm other than {norm.longest:.3g}"
        return [f"Weighted least squares: scaled rows {which} are weighted to that norm (row_norm)"]
    return [f"Regressors are {'shrunk' if norm.mode == 'cap' else 'moved'} to norm {norm.radius:.3g} (row_norm)"]


def fit_parts(fit: RegressionFit) -> list[Part]:
    """A release of kind regression: the table, or the estimates and why there is no more."""
    rows = "" if math.isnan(fit.n) else f"; {'' if fit.n_is_exact else 'about '}{max(0.0, fit.n):,.0f} {fit.n_is}"
    head = [fit.formula, f"{fit.title}; {fit.method}{rows}", *row_norm_lines(fit.domain), ""]
    if fit.status == "OK":
        error = math.sqrt(fit.sigma2)
        foot = f"Residual standard error: {error:.5g} on {fit.df:,.0f} degrees of freedom (corrected for privacy noise)"
        noise = f"Privacy noise is in every Std. Error; kappa_w = {fit.kappa_w:.3g}"
        how = ["Intervals: parametric bootstrap, privacy noise included"] if fit.bootstrapped else []
        return [*head, *_coefficients(fit), foot, noise, *how, *fit.notes]
    table = Grid([["", f"{'Estimate':>12}"], *([term, f"{value:.6g}"] for term, value in fit.params.items())])
    none = [f"No {_level(fit)} interval is given."] if fit.may_have_intervals else []
    return [*head, table, "", f"{fit.status}: {fit.reason}", *none, *fit.notes]


def decimals_of(error: float) -> int:
    """Count the decimals that show three digits of the standard error."""
    return max(0, 2 - math.floor(math.log10(error))) if error > 0 else 3


def _footer(fit: RegressionResult) -> list[str]:
    error = math.sqrt(fit.sigma2)
    effective = "effective " if fit.weighted else ""
    lines = [
        f"Residual standard error: {error:.5g} on {fit.df:,.0f} {effective}degrees of freedom (corrected for privacy noise)",
        *_r_squared(fit),
    ]
    if fit.weighted:
        lines.append(
            f"Effective rows: about {fit.effective_n:,.0f}, as many as rows of equal weight would be: (Σw)²/Σw²"
        )
    test = fit.f_test()
    if test is not None:
        p = p_text(test.p_value)
        lines.append(
            f"F: {test.statistic:.5g} on {test.df_num} and {test.df_denom:,.0f} df, "
            f"p {p if p.startswith('<') else '= ' + p} (Wald test, privacy noise included)"
        )
    shares = [(fit.privacy_std_errors[term] / fit.std_errors[term]) ** 2 for term in fit.terms]
    worst = max(range(len(shares)), key=shares.__getitem__)
    most = f"at most {min(100.0, 100 * shares[worst]):.3g}%" if shares[worst] > 1e-4 else "less than 0.01%"
    lines.append(f"Privacy noise is in every Std. Error: {most} of its square; kappa_w = {fit.kappa_w:.3g}")
    return [*lines, *_interval_lines(fit), *_repair_lines(fit)]


def _r_squared(fit: RegressionResult) -> list[str]:
    """Write R-squared; nothing where the noise left no variance to explain."""
    if math.isnan(fit.rsquared):
        return []
    adjusted = "" if math.isnan(fit.rsquared_adj) else f",  adjusted: {fit.rsquared_adj:.4f}"
    how = "weighted, corrected" if fit.weighted else "corrected"
    return [f"R-squared: {fit.rsquared:.4f}{adjusted} ({how} for privacy noise)"]


def p_text(p: float) -> str:
    return "<2e-16" if p < 2e-16 else f"{p:.3g}"
