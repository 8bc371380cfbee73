"""A word before the budget is charged: what the plan, at the expected rows, foresees to be of no use.

Reads the conf alone. Whatever fails here, the release goes on: a plan is a service, not a condition.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from dpspark.analysis.ols import directions, identification
from dpspark.core.domain import Domain
from dpspark.core.formula import Formula
from dpspark.mechanisms.gram.identification import ENOUGH, is_enough
from dpspark.planning.fits import least_rows
from dpspark.planning.guess import find_guess
from dpspark.planning.predict import Prediction, guessed_moments, predict_gram
from dpspark.planning.setting import Setting, settle
from dpspark.show.progress import Note, NoteKind
from dpspark.spec.spec import Spec

if TYPE_CHECKING:
    from dpspark.planning.lines import Wrong

SURE = 0.9  # of being identified: below this, it is said
# A line is mostly noise where privacy costs more than one of these shares of the range that it may be in (a draw at random
# has 0.29), and more than so many times the error without noise.
NOISE = ((0.25, 0.0), (0.1, 1.0), (0.05, 4.0))
SAFE = 1.5 * ENOUGH  # of kappa_w: few draws of the noise fall short
ANYWHERE = 0.5  # of the rows: a rank that is off by this says nothing
BETA = 0.05


def foretell(spec: Spec, note: Callable[[Note], None]) -> None:
    """Tell what is foreseen, before anything is charged."""
    line = foresee(spec)
    if line is not None:
        note(Note(NoteKind.FORESEEN, line))


def foresee(spec: Spec) -> str | None:
    """One or two lines; None if all is well, or if the conf has no `release.expected_rows` to plan with."""
    if spec.release.expected_rows is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of means of nothing
            found = _BY_KIND[spec.release.kind](spec)
    except Exception:
        return None
    each = " in each group" if spec.release.group_by is not None else ""
    return None if found is None else f"at the expected {spec.release.expected_rows:,} rows{each}, {found}"


def _gram(spec: Spec) -> str | None:
    """The regression on all columns; if that is not identified, how many of them could be had."""
    setting = settle(spec, (), None, None, BETA, 0.95)
    domain = setting.domain
    terms = [column.terms if len(column.terms) == 1 else column.terms[1:] for column in domain.columns[:-1]]
    found = predict_gram(setting.gram, domain, setting.guess, _formula(domain, terms))
    if found.status == "NO_INTERVAL" and spec.weight is not None and spec.weight.squares_share is not None:
        return "the noise will drown the squared weights: there will be no standard errors. Use a larger weight.squares_share."
    if found.status != "NOT_IDENTIFIED" and found.chance >= SURE:
        return None
    what = "a regression on all columns" if terms else f"even the mean of {domain.terms[-1]}"
    sure = "will be" if found.status == "NOT_IDENTIFIED" else f"will with probability {1 - found.chance:.2g} be"
    least, most = 0, len(terms)  # the more columns, the less is identified
    while least < most - 1:
        middle = (least + most) // 2
        least, most = (middle, most) if _strength(setting, terms[:middle]) >= SAFE else (least, middle)
    fewer = f" One on {least} of the {len(terms)} columns would be identified." if least else ""
    return f"{what} {sure} NOT IDENTIFIED{_kappa(found)}.{fewer}{_enough(setting, _rows_for(setting, terms))}"


def _formula(domain: Domain, columns: list[tuple[str, ...]]) -> Formula:
    """The last column on some others."""
    return Formula(domain.terms[-1], tuple(term for of in columns for term in of), True)


def _strength(setting: Setting, columns: list[tuple[str, ...]], rows: float | None = None) -> float:
    """kappa_w, with some columns and rows."""
    formula = _formula(setting.domain, columns)
    guess = setting.guess if rows is None else setting.guess.with_rows(rows)
    moments = guessed_moments(setting.gram.noise, setting.domain, guess, formula)
    return identification(moments, directions(moments, formula)[0]).kappa_w


def _rows_for(setting: Setting, columns: list[tuple[str, ...]]) -> float:
    """Find how many rows it takes until the noise no longer drowns them."""
    if not setting.additive:
        return least_rows(lambda rows: is_enough(_strength(setting, columns, rows)))
    now = _strength(setting, columns)  # in proportion to the rows
    return setting.guess.rows * ENOUGH / now if now > 0 else math.nan


def _regression(spec: Spec) -> str | None:
    setting = settle(spec, (), None, None, BETA, 0.95)
    if setting.regression.statistics_noise is None:  # it has no such status, and takes long to simulate
        return None
    (found,) = setting.predictions()
    if found.status == "OK" or not (found.kappa_w < ENOUGH or found.status == "AT_RADIUS"):
        return None
    rows = ENOUGH / found.kappa_w * setting.guess.rows if found.kappa_w > 0 else math.nan
    named = "without intervals (NO_INTERVAL)" if found.status == "NO_INTERVAL" else found.status
    return f"this regression will be {named}{_kappa(found)}.{_enough(setting, rows)}"


def _lines(spec: Spec) -> str | None:
    from dpspark.planning.lines import SLOPE, _guess, _wrong

    (low, high), wrong = _range(spec), _wrong(spec, _guess(spec, None, None))
    if all(math.isnan(found.total) for found in wrong):
        return "no line will be identified (not_identified). Use more rows or a larger epsilon."
    drowned = [found for found in wrong if found.what != SLOPE and _mostly_noise(found, high - low)]
    if not drowned:
        return None
    worst = max(drowned, key=lambda found: found.privacy)
    return (
        f"lines will be mostly noise: {worst.what} is off by {worst.privacy:.3g}, typically, in a range of {high - low:.3g}. "
        "Use more rows or a larger epsilon."
    )


def _mostly_noise(found: Wrong, width: float) -> bool:
    return any(found.privacy > max(share * width, times * found.silent) for share, times in NOISE)


def _range(spec: Spec) -> tuple[float, float]:
    y = spec.columns[str(spec.release.y)]
    lower, upper = y.public_bound("lower"), y.public_bound("upper")
    assert lower is not None
    assert upper is not None
    return spec.release.candidates or (lower, upper)


def _quantiles(spec: Spec) -> str | None:
    from dpspark.planning.quantiles import rank_error

    share = rank_error(spec, find_guess(spec), BETA)
    if share < ANYWHERE:
        return None
    return (
        f"a quantile may be anywhere: its rank is off by up to {min(1.0, share):.0%} of the rows. "
        "Use more rows, fewer probabilities or a larger epsilon."
    )


def _kappa(found: Prediction) -> str:
    return "" if math.isnan(found.kappa_w) else f" (kappa_w = {found.kappa_w:.2g}; at least {ENOUGH:g} is needed)"


def _enough(setting: Setting, rows: float) -> str:
    if not rows > setting.guess.rows:
        return " Use more rows, tighter bounds or a larger epsilon."
    digits = max(0, math.floor(math.log10(max(rows, 1))) - 1)
    return f" It takes about {math.ceil(rows / 10**digits) * 10**digits:,.0f} rows, tighter bounds or a larger epsilon."


_BY_KIND: dict[str, Callable[[Spec], str | None]] = {
    "gram": _gram,
    "regression": _regression,
    "theil_sen": _lines,
    "quantiles": _quantiles,
}
