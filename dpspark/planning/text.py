"""A plan as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpspark.core.domain import Numeric
from dpspark.mechanisms.gram.coordinates import congruence_of
from dpspark.planning.fits import FitPlan
from dpspark.planning.levels import level_parts
from dpspark.planning.noise import Option
from dpspark.planning.predict import short_formula
from dpspark.planning.regression import compare_steps
from dpspark.show.tables import Grid, Part, as_text, bound_texts
from dpspark.spec.extras import bounds_finder

if TYPE_CHECKING:
    from dpspark.planning.bound_choices import BoundChoice
    from dpspark.planning.planner import Plan

WORTH_CHANGING = 1.2  # times the least error
MOST_ENTRIES, MOST_TERMS, MOST_COLUMNS, MOST_COMPARED = 10, 12, 6, 3


def plan_text(plan: Plan) -> str:
    return as_text(plan_parts(plan))


def plan_parts(plan: Plan) -> list[Part]:
    found = [
        _head(plan),
        _errors(plan),
        *(_fit(plan, fit) for fit in plan.fits),
        _robust(plan),
        level_parts(plan.levels),
        _mechanisms(plan),
        _bounds(plan),
        _choices(plan),
    ]
    filled = [section for section in found if section]
    return [part for i, section in enumerate(filled) for part in ([""] * bool(i) + section)]


def _head(plan: Plan) -> list[Part]:
    spec, guess = plan.spec, plan.setting.guess
    each = f" in each of {len(spec.release.group_keys):,} groups" if spec.release.group_by else ""
    return [
        f"Plan of {spec.release.name} {spec.release.version}: {spec.release.kind} by {plan.chosen}, {plan.budget}; "
        "no data was read",
        str(plan.budget_left),
        f"Guess: {guess.rows:,.0f} rows{each}; {guess.source}",
        *_extras(plan),
    ]


def _extras(plan: Plan) -> list[str]:
    spec = plan.spec
    lines = [f"Of the budget, {float(share):.0%} is for {name}" for name, share in spec.shares.items()]
    private = [c for c in plan.setting.domain.columns if isinstance(c, Numeric) and c.private]
    if private:
        shown = ", ".join(f"{c.name} [{c.lower:.4g}, {c.upper:.4g}]" for c in private)
        lines.append(f"Private bounds, planned as if found at: {shown}")
        lines.append(f"  {bounds_finder(spec).noise_in_words()}")
    if spec.row_norm is not None:
        lines.append("The guess is of rows before row_norm; what that does to them was simulated")
    return lines


def _errors(plan: Plan) -> list[Part]:
    """Entries and spectral norm; a regression's statistics are in the table of mechanisms."""
    accuracy, spectral = plan.accuracy, plan.spectral
    if accuracy is None or spectral is None:
        return []
    count = len(plan.terms) * (len(plan.terms) + 1) // 2
    closed = "" if spectral.closed_form is None else f" (closed form: {spectral.closed_form:.4g})"
    lines: list[Part] = [
        f"With probability {1 - accuracy.beta:g} the noise moves, in {_counted(plan)} of columns scaled to [-1, 1]:",
        f"  an off-diagonal entry by {accuracy.scaled:.4g} at most; all {count} at once by {accuracy.scaled_jointly:.4g}",
        f"  the matrix by {spectral.best:.4g} at most in spectral norm{closed}",
        "",
    ]
    back = congruence_of(plan.setting.domain)
    guess = back @ plan.setting.guess.matrix @ back.T
    pairs = _pairs(plan)
    cells = [["in original units", "within", "of about", ""]]
    for i, j in pairs[:MOST_ENTRIES]:
        within = accuracy.half_widths[i, j]
        share = f"{100 * within / abs(guess[i, j]):.2g}%" if abs(guess[i, j]) > within / 1000 else ""
        cells.append([f"{plan.terms[i]} × {plan.terms[j]}", f"{within:.4g}", f"{guess[i, j]:.4g}", share])
    more = count - len(cells) + 1
    return [*lines, Grid(cells), *([f"... {more} more entries: --json has all"] if more > 0 else [])]


def _counted(plan: Plan) -> str:
    """Name what a matrix adds up: rows, or their weights."""
    return "rows" if plan.spec.weight is None else "weights"


def _pairs(plan: Plan) -> list[tuple[int, int]]:
    """Entries in the order of interest: products of the columns that are regressed, of numbers, then the rest."""
    used = {term for f in plan.setting.formulas for term in (f.response, *f.regressors)}
    numeric = {column.name for column in plan.setting.domain.numeric}
    rank = {i: 2 - (term in numeric) - (term in used) for i, term in enumerate(plan.terms)}
    pairs = list(zip(*np.triu_indices(len(plan.terms)), strict=True))
    return sorted(((int(i), int(j)) for i, j in pairs), key=lambda pair: rank[pair[0]] + rank[pair[1]])


def _fit(plan: Plan, fit: FitPlan) -> list[Part]:
    found = fit.prediction
    head = short_formula(found.formula) + ("" if math.isnan(found.kappa_w) else f"   kappa_w = {found.kappa_w:.3g}")
    if not found.ok:
        rows = fit.rows_identified
        enough = f" From about {_rows(rows)} rows on it would be." if math.isfinite(rows) else ""
        return [head, f"{found.status.replace('_', ' ')}: {found.reason.rstrip('.')}.{enough}"]
    lines = [head, *_fit_table(fit)]
    if found.status != "OK":
        lines.append(f"{found.status}: {found.reason}")
    if found.chance < 0.995:
        lines.append(f"A release identifies it with probability {found.chance:.2g}; else it would say NOT IDENTIFIED")
    return lines


def _fit_table(fit: FitPlan) -> list[Part]:
    found, p = fit.prediction, 1 - fit.level
    cells = [["", "of the guess", "Std. Error", "sampling", "privacy", "least visible", f"rows for p < {p:.2g}"]]
    for i, term in enumerate(found.terms[:MOST_TERMS]):
        coefficient = found.coefficients[i]
        coefficient = coefficient if abs(coefficient) > 1e-6 * found.std_errors[i] else 0.0  # what rounding leaves
        values = (coefficient, found.std_errors[i], found.sampling[i], found.privacy[i], fit.detectable[i])
        cells.append([term, *(f"{value:.4g}" for value in values), _rows(fit.rows_needed[i])])
    more = len(found.terms) - MOST_TERMS
    return [Grid(cells), *([f"... {more} more terms: --json has all"] if more > 0 else [])]


def _rows(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    digits = max(0, math.floor(math.log10(max(value, 1))) - 1)
    return f"{math.ceil(value / 10**digits) * 10**digits:,.0f}"


def _robust(plan: Plan) -> list[Part]:
    """Say what robust standard errors cost, and how well they will be known."""
    found = plan.robust
    if found is None:
        return []
    kind = "hc1" if found.by is None else f"clustered by {found.by}"
    more = "" if math.isnan(found.times_noise) else f"; all else has {found.times_noise:.2f}× the noise"
    lines: list[Part] = [f"Robust standard errors ({kind}): {found.share:.0%} of mu², and the parts named above{more}"]
    if found.by is not None:
        return [
            *lines,
            "How well they will be known depends on the clusters, of which a guess says nothing: docs/clusters.md",
        ]
    return [*lines, *(f"  {short_formula(fit.formula)}: {fit}" for fit in found.fits)]


def _mechanisms(plan: Plan) -> list[Part]:
    first = plan.fits[0].prediction if plan.fits else None
    slopes = [i for i, t in enumerate(first.terms) if i or len(first.terms) == 1][:MOST_COMPARED] if first else []
    terms = [] if first is None else [f"SE of {first.terms[i]}" for i in slopes]
    gram = plan.spec.release.kind == "gram"
    noise = [f"off-diagonal sd, {_counted(plan)}"] if gram else ["sd of Σ x xᵀ", "sd of Σ x y"]
    cells = [["Mechanisms at this budget", *noise, *terms, ""]]
    for option in plan.options:
        mark = " (this conf)" if option.name == plan.chosen else ""
        if isinstance(option, Option):
            stds = [f"{option.off_diagonal_std:.4g}" if option.possible else "-"]
        else:
            stds = ["-" if std is None else f"{std:.4g}" for std in (option.squares_std, option.cross_std)]
        predicted = plan.by_mechanism.get(option.name) or []
        errors = [f"{predicted[0].std_errors[i]:.4g}" if predicted and predicted[0].ok else "-" for i in slopes]
        cells.append([option.name + mark, *stds, *errors, _short(option.note)])
    lines: list[Part] = [Grid(cells, frozenset({0, len(cells[0]) - 1}))]
    if not math.isnan(plan.ratio):
        lines.append(
            f"{plan.chosen} has {plan.ratio:.1f} times less noise than the paper's on the product of two scaled columns, in "
            "original units"
        )
    better = compare_steps(plan.chosen, plan.by_mechanism) if plan.spec.release.kind == "regression" else ""
    return [*lines, *([better] if better else []), *plan.papers]


def _short(note: str) -> str:
    return note if len(note) <= 90 else note[:87] + "..."


def _bounds(plan: Plan) -> list[Part]:
    if not plan.bounds:
        return []
    cells = [["Bounds", "lower", "upper", "sd / half-width", "noise sd of Σ x²"]]
    for found in plan.bounds[:MOST_COLUMNS]:
        cells.append(
            [
                found.column,
                *bound_texts(found.lower, found.upper),
                f"{found.filled:.2f}",
                f"{found.noise_std:.4g}",
            ]
        )
    lines: list[Part] = [Grid(cells)]
    compared = {choice.column for choice in plan.choices}  # clipping and noise together: below
    helpful = [found for found in plan.bounds if found.helps and found.column not in compared]
    lines += [str(found)[0].upper() + str(found)[1:] for found in helpful[:MOST_COLUMNS]]
    if helpful:
        lines.append("Values beyond the bounds are clipped, which biases: tighter ones are mean ± 4 sd of the guess")
    elif plan.setting.guess.assumed:
        lines.append("With --guess this says which bounds are wider than they need to be")
    elif not any(found.helps for found in plan.bounds):
        lines.append("No bounds are much wider than mean ± 4 sd of the guess")
    if plan.fewer_columns:
        less = ", ".join(f"{times:.2f}× with {what} less" for what, times in plan.fewer_columns.items())
        lines.append(f"Fewer columns have less noise on all other entries: {less}")
    return lines


def _choices(plan: Plan) -> list[Part]:
    """Compare bounds of each response: rows beyond, clipping, noise, and both with the sampling error."""
    found: list[Part] = []
    for column, formula, side in dict.fromkeys((c.column, c.formula, c.side) for c in plan.choices):
        own = [c for c in plan.choices if (c.column, c.formula, c.side) == (column, formula, side)]
        index = plan.setting.guess.tails.get(column)
        tail = "is log-normal" if index is None else f"has a Pareto tail of index {index:g}"
        cells = [[f"{side} bound of {column}", "rows beyond", "clipping", "privacy", "total", ""]]
        for choice in own:
            marks = [*(["this conf"] if choice.of_conf else []), *(["least"] if choice.best else [])]
            numbers = (choice.clipping, choice.privacy, choice.total)
            cells.append(
                [
                    f"{choice.bound:,.4g}" if abs(choice.bound) < 1000 else f"{choice.bound:,.0f}",
                    _rows(choice.rows_beyond),
                ]
                + [f"{value:.2f}" for value in numbers]
                + [", ".join(marks)]
            )
        lines = _recommended(own, column, tail)
        private = any(c.name == column and c.private for c in plan.setting.domain.numeric)
        if len(lines) == 1 and not private:  # a public bound that is good is no reason for a table
            found += lines
            continue
        found += [*([""] if found else []), Grid(cells, frozenset({0, 5})), *lines]
    return found


def _about(bound: float) -> str:
    """Write a bound with two digits."""
    digits = 1 - math.floor(math.log10(abs(bound))) if bound else 0
    return f"{round(bound, digits):,.10g}"


def _recommended(choices: list[BoundChoice], column: str, tail: str) -> list[str]:
    """Say which bound to take, and if that is another one than the conf's, what the table is of."""
    best = next(choice for choice in choices if choice.best)
    (own,) = (choice for choice in choices if choice.of_conf)
    formula = short_formula(own.formula)
    if own.total < WORTH_CHANGING * best.total:
        return [f"The {own.side} bound of {column} is good for {formula}, clipping and noise together"]
    return [
        f"Slopes of {formula}, in standard errors that the sample has anyway, if {column} {tail}: clipping moves, noise "
        "spreads them",
        f"Recommended: {column}'s {own.side} bound at about {_about(best.bound)}: {own.total / best.total:.1f} times less "
        "error in all",
    ]
